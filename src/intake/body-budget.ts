import type { BodyAllowance } from "../core/http/body.ts";
import { readMonotonic, type Stopwatch } from "../core/clock.ts";

/** Bodies of callers that are not authenticated yet hold at most this many bytes together. */
const TOTAL_BYTES = 64 * 2 ** 20;
/** Of these, a part that only small bodies may use: large bodies cannot cause the rejection of an ordinary hook. */
const RESERVED_BYTES = 6 * 2 ** 20;
const SMALL_BYTES = 64 * 2 ** 10;
/**
 * The most that several bodies of one address may hold together. A single body may hold more, up to its path's limit.
 */
const ADDRESS_BYTES = TOTAL_BYTES / 4;

/** The time that a body may hold its room while other bodies need it. Bodies of ordinary senders arrive faster. */
const UNDISTURBED_MS = 2_000;

/** The part of the budget that one body holds. */
export interface BudgetedAllowance extends BodyAllowance {
  /** Releases the bytes that the body holds. Can be called again. */
  release(): void;
}

/** The budget for bodies of unauthenticated callers. It is charged by bytes received: what a caller declares costs nothing. */
export interface BodyBudget {
  /** Opens an allowance for one body. `share` names the share of the budget that it counts against. Undefined: none. */
  open(share: string | undefined): BudgetedAllowance;
}

interface Share {
  bytes: number;
  bodies: number;
}

/**
 * Creates the budget. If it is used up, the body that has been arriving longest is dropped: a caller that sends slowly in
 * order to hold memory loses it to callers that send quickly.
 */
export function createBodyBudget(clock: Stopwatch): BodyBudget {
  let total = 0;
  const shares = new Map<string, Share>();
  /** Open allowances that hold something, oldest first. */
  const holders = new Map<BudgetedAllowance, number>();

  const limitFor = (held: number): number =>
    held <= SMALL_BYTES ? TOTAL_BYTES : TOTAL_BYTES - RESERVED_BYTES;

  const makeRoom = (needed: number, held: number, own: BudgetedAllowance): boolean => {
    for (const [allowance, openedAt] of holders) {
      if (total + needed <= limitFor(held + needed)) return true;
      if (readMonotonic(clock) - openedAt < UNDISTURBED_MS) return false;
      if (allowance === own) continue;
      allowance.revoke?.();
      allowance.release();
    }
    return total + needed <= limitFor(held + needed);
  };

  return {
    open(name) {
      const share = name === undefined ? undefined : (shares.get(name) ?? { bytes: 0, bodies: 0 });
      if (share && name !== undefined) {
        share.bodies++;
        shares.set(name, share);
      }
      const openedAt = readMonotonic(clock);
      let held = 0;
      let isOpen = true;
      const allowance: BudgetedAllowance = {
        take(bytes) {
          if (!isOpen || (share && share.bodies > 1 && share.bytes + bytes > ADDRESS_BYTES))
            return false;
          if (!makeRoom(bytes, held, allowance)) return false;
          if (held === 0) holders.set(allowance, openedAt);
          total += bytes;
          held += bytes;
          if (share) share.bytes += bytes;
          return true;
        },
        release() {
          if (!isOpen) return;
          isOpen = false;
          holders.delete(allowance);
          total -= held;
          if (!share || name === undefined) return;
          share.bytes -= held;
          if (--share.bodies === 0) shares.delete(name);
        },
      };
      return allowance;
    },
  };
}
