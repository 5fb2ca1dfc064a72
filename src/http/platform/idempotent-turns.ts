import type { ChatTurn } from "../../chat/types.ts";
import { readMonotonic, type Stopwatch } from "../../core/clock.ts";
import { ProblemError } from "./problems.ts";

/** The marks of a request by which a repeat of it is known. */
interface TurnAttempt {
  keyId: string;
  /** The fingerprint of all that makes two requests the same: route, session and body. */
  fingerprint: string;
  idempotencyKey: string | undefined;
  /** The number of times that the official client has sent the request before. */
  retryCount: number;
}

interface Entry {
  turn: ChatTurn;
  fingerprint: string;
  /** When its turn ended, in monotonic time. */
  endedAt: number | undefined;
}

/** So long a turn that has ended is found by its idempotency key. */
const KEPT_MS = 600_000;
/** So long a session's turn is found by its body, where its caller had gone before it ended and then comes back. */
const ABANDONED_MS = 120_000;
const MAX_ENTRIES = 1000;

const conflict = new ProblemError({
  status: 409,
  type: "invalid_request_error",
  code: "idempotency_conflict",
  param: null,
  message: "this Idempotency-Key came with another body before; use a new one",
  shouldRetry: false,
});

/** Creates the turns that a repeat of their request joins, in place of beginning another. */
export function createIdempotentTurns(clock: Stopwatch) {
  const byKey = new Map<string, Entry>();
  const byBody = new Map<string, Entry>();
  const gone = new WeakSet<ChatTurn>();

  const lookUp = (entries: Map<string, Entry>, name: string, keptMs: number): Entry | undefined => {
    const entry = entries.get(name);
    if (!entry) return undefined;
    const over = entry.endedAt !== undefined && readMonotonic(clock) - entry.endedAt > keptMs;
    // A turn that was stopped because its caller disconnected is tried again; a turn that failed is not kept.
    if (!over && (!entry.turn.isOneShot || !gone.has(entry.turn))) return entry;
    entries.delete(name);
    return undefined;
  };
  const keep = (
    entries: Map<string, Entry>,
    name: string,
    entry: Entry,
    isKept: () => boolean,
  ): void => {
    entries.delete(name);
    entries.set(name, entry);
    if (entries.size > MAX_ENTRIES) entries.delete(entries.keys().next().value as string);
    entry.turn.whenOver(() => {
      entry.endedAt = readMonotonic(clock);
      if (!isKept() && entries.get(name) === entry) entries.delete(name);
    });
  };

  const toEntryName = (keyId: string, text: string): string => `${keyId}\n${text}`;

  return {
    /** @throws ProblemError if the idempotency key came with another body before. */
    find({ keyId, fingerprint, idempotencyKey, retryCount }: TurnAttempt): ChatTurn | undefined {
      if (idempotencyKey !== undefined) {
        const entry = lookUp(byKey, toEntryName(keyId, idempotencyKey), KEPT_MS);
        if (entry && entry.fingerprint !== fingerprint) throw conflict;
        if (entry) return entry.turn;
      }
      if (retryCount < 1) return undefined;
      return lookUp(byBody, toEntryName(keyId, fingerprint), ABANDONED_MS)?.turn;
    },
    add({ keyId, fingerprint, idempotencyKey }: TurnAttempt, turn: ChatTurn): void {
      const isGood = (): boolean => turn.end?.ok === true;
      const entry = { turn, fingerprint, endedAt: undefined };
      if (idempotencyKey !== undefined)
        keep(byKey, toEntryName(keyId, idempotencyKey), { ...entry }, isGood);
      keep(byBody, toEntryName(keyId, fingerprint), entry, () => isGood() && gone.has(turn));
    },
    /** The caller of a turn has gone before its end. */
    abandoned: (turn: ChatTurn): void => void gone.add(turn),
  };
}

export type IdempotentTurns = ReturnType<typeof createIdempotentTurns>;
