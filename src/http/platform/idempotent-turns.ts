import type { ChatTurn } from "../../chat/types.ts";
import { readMonotonic, type Stopwatch } from "../../core/clock.ts";
import { sha256Hex } from "../../core/secret.ts";
import type { ApiProblem } from "./problems.ts";

/** By what a repeat is known. */
export interface TurnAttempt {
  keyId: string;
  /** The fingerprint of all that makes two requests the same: see `getFingerprint`. */
  fingerprint: string;
  idempotencyKey: string | undefined;
  /** How often the official client has sent the request before. */
  retryCount: number;
}

/** Route, session (whose name may stand in a header) and body. */
export function getFingerprint(route: string, session: string | undefined, bytes: Buffer): string {
  return sha256Hex(`${route}\n${session ?? ""}\n${sha256Hex(bytes)}`);
}

export type IdempotentResult =
  | { kind: "new" }
  | { kind: "joined"; turn: ChatTurn }
  | { kind: "conflict"; problem: ApiProblem };

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

const conflict: ApiProblem = {
  status: 409,
  type: "invalid_request_error",
  code: "idempotency_conflict",
  param: null,
  message: "this Idempotency-Key came with another body before; use a new one",
  shouldRetry: false,
};

/** Turns that a repeat of their request joins, in place of beginning another. */
export interface IdempotentTurns {
  find(attempt: TurnAttempt): IdempotentResult;
  add(attempt: TurnAttempt, turn: ChatTurn): void;
  /** The caller of a turn has gone before its end. */
  abandoned(turn: ChatTurn): void;
}

export function createIdempotentTurns(clock: Stopwatch): IdempotentTurns {
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

  return {
    find(attempt) {
      const { fingerprint } = attempt;
      if (attempt.idempotencyKey !== undefined) {
        const entry = lookUp(byKey, `${attempt.keyId}\n${attempt.idempotencyKey}`, KEPT_MS);
        if (entry)
          return entry.fingerprint === fingerprint
            ? { kind: "joined", turn: entry.turn }
            : { kind: "conflict", problem: conflict };
      }
      if (attempt.retryCount < 1) return { kind: "new" };
      const entry = lookUp(byBody, `${attempt.keyId}\n${fingerprint}`, ABANDONED_MS);
      return entry ? { kind: "joined", turn: entry.turn } : { kind: "new" };
    },
    add(attempt, turn) {
      const { fingerprint } = attempt;
      const entry = (): Entry => ({ turn, fingerprint, endedAt: undefined });
      if (attempt.idempotencyKey !== undefined)
        keep(
          byKey,
          `${attempt.keyId}\n${attempt.idempotencyKey}`,
          entry(),
          () => turn.end?.ok === true,
        );
      keep(
        byBody,
        `${attempt.keyId}\n${fingerprint}`,
        entry(),
        () => turn.end?.ok === true && gone.has(turn),
      );
    },
    abandoned(turn) {
      gone.add(turn);
    },
  };
}
