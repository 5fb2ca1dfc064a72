import { type FencingToken, type Job, RouseError, STORE_UNAVAILABLE } from "#store-kit";
import { isClash, isConflict, isRefused, storeError } from "./errors.ts";
import { RetryTransaction, type Committed, type Outcome, type Request } from "./group.ts";
import type { NewDedupeKey } from "./keys.ts";
import type { Ops } from "./write-log.ts";

/** A caller that waits for a commit. `record` is called when its turn comes, once. */
interface Member {
  keys: readonly NewDedupeKey[];
  held?: Job | FencingToken;
  record(): Ops;
  /** When it was added, by `performance.now`. */
  since: number;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}

type Recorded = Member & { ops: Ops };

/** The most callers of one transaction: bounds how long the others wait. */
const MAX_MEMBERS = 512;
/** More than that wait only where PostgreSQL hangs: who comes then is told at once. */
const MAX_WAITING = 20_000;
const ATTEMPTS = 4;
/** A group that failed after so long says that PostgreSQL hangs: those behind it have waited long enough as well. */
const HUNG_MS = 5000;

/** How often it is looked for members that have waited too long. */
const LOOK_MS = 100;

interface NewMember {
  keys?: readonly NewDedupeKey[];
  held?: Job | FencingToken;
  record(): Ops;
}

export interface GroupCommitParts {
  commit(requests: readonly Request[], careful: boolean): Promise<Committed>;
  committed(group: Committed): void;
  /** Hears of groups that could not be committed. */
  failed(error: unknown): void;
  /** How long a member waits for its commit; then it is told that the store is unavailable. Absent: as long as the database takes. */
  patienceMs?: number | undefined;
  /** False once PostgreSQL hangs: whoever has patience hears at once, before it can be written after all. */
  responding?(): boolean;
}

/**
 * Group commit: all that is added during one turn of the event loop, and while the transaction before is under way,
 * shares one transaction. One at a time, so that what came first stands first. Who is refused harms no other.
 */
export class GroupCommit {
  readonly #parts: GroupCommitParts;
  #waiting: Member[] = [];
  #running: Promise<void> | undefined;
  /** Those of the group under way. */
  #settling: readonly Member[] = [];
  #looking: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(parts: GroupCommitParts) {
    this.#parts = parts;
  }

  add({ keys = [], held, record }: NewMember): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      if (this.#closed || this.#waiting.length >= MAX_WAITING) {
        reject(new RouseError(STORE_UNAVAILABLE));
        return;
      }
      this.#waiting.push({ keys, ...(held ? { held } : {}), record, since: performance.now(), resolve, reject });
      if (this.#parts.patienceMs !== undefined) this.#looking ??= setInterval(() => this.#rejectLate(), LOOK_MS).unref();
      this.#start();
    });
  }

  /** Resolves when all that was added is settled; nothing more is taken. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#running) await this.#running;
  }

  /** A late member that is in no group yet is not written at all; one that is under way may be. */
  #rejectLate(): void {
    const before = performance.now() - (this.#parts.patienceMs ?? Infinity);
    const isHung = this.#parts.responding?.() === false;
    const isLate = ({ since }: Member): boolean => isHung || since < before;
    const late = [...this.#settling, ...this.#waiting].filter(isLate);
    this.#waiting = this.#waiting.filter((member) => !isLate(member));
    for (const member of late) member.reject(new RouseError(STORE_UNAVAILABLE));
  }

  #start(): void {
    this.#running ??= this.#work().finally(() => {
      this.#running = undefined;
      if (this.#waiting.length > 0) return this.#start();
      clearInterval(this.#looking);
      this.#looking = undefined;
    });
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      // All that this turn of the event loop brings.
      await new Promise((resolve) => setImmediate(resolve));
      const group = this.#takeGroup();
      this.#settling = group;
      if (group.length > 0) await this.#settle(group);
      this.#settling = [];
    }
  }

  /** The next group, in order: of two that ask for the same key the second one waits until the first has it or not. */
  #takeGroup(): Recorded[] {
    const group: Recorded[] = [];
    const rest: Member[] = [];
    const claimed = new Set<string>();
    for (const member of this.#waiting) {
      const clash = member.keys.some((key) => claimed.has(key.name));
      if (group.length >= MAX_MEMBERS || clash) rest.push(member);
      else {
        try {
          group.push(Object.assign(member, { ops: member.record() }));
        } catch (error) {
          member.reject(error);
          continue;
        }
      }
      for (const key of member.keys) claimed.add(key.name);
    }
    this.#waiting = rest;
    return group;
  }

  async #settle(group: readonly Recorded[], attempt = 1): Promise<void> {
    const { commit, committed, failed } = this.#parts;
    const begun = performance.now();
    let result: Committed;
    try {
      result = await commit(group, attempt > 1);
    } catch (error) {
      const again = isConflict(error) || isClash(error) || error instanceof RetryTransaction;
      if (again && attempt < ATTEMPTS) return this.#settle(group, attempt + 1);
      if (group.length > 1 && (again || isRefused(error))) {
        for (const member of group) await this.#settle([member]);
        return;
      }
      const failure = error instanceof RetryTransaction ? new RouseError(STORE_UNAVAILABLE, { cause: error }) : storeError(error);
      failed(failure);
      const behind = performance.now() - begun > HUNG_MS ? this.#waiting.splice(0) : [];
      for (const member of [...group, ...behind]) member.reject(failure);
      return;
    }
    // Listeners hear of it before the callers do.
    committed(result);
    for (const [n, member] of group.entries()) {
      const outcome = result.outcomes[n];
      if (outcome?.kind === "refused") member.reject(outcome.error);
      else if (outcome) member.resolve(outcome);
    }
  }
}
