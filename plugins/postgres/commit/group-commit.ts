import {
  type DedupeRecord,
  type Ms,
  RouseError,
  STORE_UNAVAILABLE,
  toDedupeRecord,
} from "#store-kit";
import { isClash, isConflict, isRefused, storeError } from "../client/errors.ts";
import { CommitRefused, RetryTransaction, type Committed, type Outcome } from "./group.ts";
import type { Request } from "./request.ts";

/** A caller that waits for a commit. */
interface Member extends Request {
  /** Names of what it changes together with others: no two groups under way touch the same. */
  touches: readonly string[];
  /** When it was added, by `performance.now`. */
  since: number;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

/** The most callers of one transaction: bounds how long the others wait. */
const MAX_MEMBERS = 512;
/** While a group is under way, a further one only begins with at least so many members: each group has its price. */
const FURTHER_MEMBERS = 8;
/** More than that wait only where PostgreSQL hangs: who comes then is told at once. */
const MAX_WAITING = 20_000;
const ATTEMPTS = 4;
/** A group that failed after so long says that PostgreSQL hangs: those behind it have waited long enough as well. */
const HUNG_MS = 5000;

/** The interval at which members are found that have waited too long. */
const LOOK_MS = 100;

export interface GroupCommitParts {
  commit(requests: readonly Request[], careful: boolean): Promise<Committed>;
  committed(group: Committed): void;
  /** Hears of groups that could not be committed. */
  failed(error: unknown): void;
  /**
   * The time that a member waits for its commit before it fails as unavailable. Absent: as long as the database takes.
   */
  patienceMs?: number | undefined;
  /** False once PostgreSQL hangs: whoever has patience hears at once, before it can be written after all. */
  responding?(): boolean;
  /** Groups that may be under way at a time. */
  maxGroups: number;
}

/** The keys that are known to be held after a group, and by whom: read only on demand. */
function heldKeys(
  group: readonly Member[],
  outcomes: readonly Outcome[],
): Map<string, () => DedupeRecord> {
  const held = new Map<string, () => DedupeRecord>();
  for (const [n, { keys }] of group.entries()) {
    const outcome = outcomes[n];
    for (const key of keys) {
      if (outcome?.kind === "done") held.set(key.name, () => toDedupeRecord(key));
      else if (
        outcome?.kind === "duplicate" &&
        outcome.record.scope === key.scope &&
        outcome.record.key === key.key
      )
        held.set(key.name, () => outcome.record);
    }
  }
  return held;
}

const namesOf = ({ keys, touches }: Member): string[] => [
  ...keys.map(({ name }) => name),
  ...touches,
];

/**
 * Group commit: all that is added during one turn of the event loop, and while the transactions before are under way,
 * shares one transaction. Several groups may be under way at a time, none of which asks for a key of another one, or
 * touches what that does. Who is refused harms no other.
 */
export class GroupCommit {
  readonly #parts: GroupCommitParts;
  #waiting: Member[] = [];
  /** The groups under way. */
  readonly #settling = new Map<readonly Member[], Promise<void>>();
  /** Names of the keys that these ask for, and of what they touch. */
  readonly #claimed = new Set<string>();
  #isPlanned = false;
  #looking: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(parts: GroupCommitParts) {
    this.#parts = parts;
  }

  add(request: Request, touches: readonly string[] = []): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      if (this.#closed || this.#waiting.length >= MAX_WAITING) {
        reject(new RouseError(STORE_UNAVAILABLE));
        return;
      }
      this.#waiting.push({ ...request, touches, since: performance.now(), resolve, reject });
      if (this.#parts.patienceMs !== undefined)
        this.#looking ??= setInterval(() => this.#rejectLate(), LOOK_MS).unref();
      this.#plan();
    });
  }

  /** Resolves when all that was added is settled; nothing more is taken. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#waiting.length + this.#settling.size > 0) {
      await Promise.all(this.#settling.values());
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** A late member that is in no group yet is not written at all; one that is under way may be. */
  #rejectLate(): void {
    const before = performance.now() - (this.#parts.patienceMs ?? Infinity);
    const isHung = this.#parts.responding?.() === false;
    const isLate = ({ since }: Member): boolean => isHung || since < before;
    const late = [...[...this.#settling.keys()].flat(), ...this.#waiting].filter(isLate);
    this.#waiting = this.#waiting.filter((member) => !isLate(member));
    for (const member of late) member.reject(new RouseError(STORE_UNAVAILABLE));
  }

  /** Begins groups once all is there that this turn of the event loop brings. */
  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#begin();
    });
  }

  #begin(): void {
    while (this.#waiting.length > 0) {
      const isFurther = this.#settling.size > 0;
      if (
        isFurther &&
        (this.#settling.size >= this.#parts.maxGroups || this.#waiting.length < FURTHER_MEMBERS)
      )
        return;
      const group = this.#takeGroup();
      if (group.length === 0) break;
      this.#claim(group);
    }
    if (this.#settling.size > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  #claim(group: readonly Member[]): void {
    const names = group.flatMap(namesOf);
    for (const name of names) this.#claimed.add(name);
    const settled = this.#settle(group).finally(() => {
      this.#settling.delete(group);
      for (const name of names) this.#claimed.delete(name);
      this.#plan();
    });
    this.#settling.set(group, settled);
  }

  /** The next group, in order: of two that ask for the same key the second one waits until the first has it or not. */
  #takeGroup(): Member[] {
    const group: Member[] = [];
    const rest: Member[] = [];
    const [asked, left] = [new Set<string>(), new Set<string>()];
    for (const member of this.#waiting) {
      const names = namesOf(member);
      const mustWait =
        names.some((name) => this.#claimed.has(name) || left.has(name)) ||
        member.keys.some(({ name }) => asked.has(name));
      if (group.length >= MAX_MEMBERS || mustWait) {
        rest.push(member);
        for (const name of names) left.add(name);
        continue;
      }
      group.push(member);
      for (const { name } of member.keys) asked.add(name);
    }
    this.#waiting = rest;
    return group;
  }

  async #settle(group: readonly Member[], attempt = 1): Promise<void> {
    const { commit, committed } = this.#parts;
    const begun = performance.now();
    let result: Committed;
    try {
      result = await commit(group, attempt > 1);
    } catch (error) {
      return this.#settleFailed(group, attempt, error, performance.now() - begun);
    }
    // Listeners hear of it before the callers do.
    committed(result);
    for (const [n, member] of group.entries()) {
      const outcome = result.outcomes[n];
      if (outcome) member.resolve(outcome);
    }
    if (this.#waiting.length > 0) this.#answerRepeats(heldKeys(group, result.outcomes));
  }

  /** Writes a group again, or its members one by one, if that may help; else rejects them. */
  async #settleFailed(
    group: readonly Member[],
    attempt: number,
    error: unknown,
    tookMs: Ms,
  ): Promise<void> {
    const isAlone = group.length === 1;
    const isPassing = isClash(error) || error instanceof RetryTransaction;
    if ((isPassing || (isAlone && isConflict(error))) && attempt < ATTEMPTS)
      return this.#settle(group, attempt + 1);
    const isOfOne = error instanceof CommitRefused || isConflict(error) || isRefused(error);
    if (!isAlone && (isOfOne || isPassing)) {
      for (const member of group) await this.#settle([member]);
      return;
    }
    if (error instanceof CommitRefused) return group[0]?.reject(error.cause);
    const failure =
      error instanceof RetryTransaction
        ? new RouseError(STORE_UNAVAILABLE, { cause: error })
        : storeError(error);
    this.#parts.failed(failure);
    const behind = tookMs > HUNG_MS ? this.#waiting.splice(0) : [];
    for (const member of [...group, ...behind]) member.reject(failure);
  }

  /**
   * Answers members that wait for a key that was bound meanwhile: they are repeats, which is known without asking
   * again.
   */
  #answerRepeats(held: ReadonlyMap<string, () => DedupeRecord>): void {
    this.#waiting = this.#waiting.filter((member) => {
      const record = member.keys
        .map(({ name }) => held.get(name))
        .find((known) => known !== undefined);
      if (!record) return true;
      member.resolve({ kind: "duplicate", record: record() });
      return false;
    });
  }
}
