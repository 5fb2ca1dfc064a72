import { type Ms, sessionId, type SessionRef } from "#store-kit";
import { digest } from "./digest.ts";
import type { PlannedTurn, SessionOp } from "./write-log.ts";

/** What a group does to one session: first what it takes away, then what it adds. */
interface PlannedSession {
  id: Buffer;
  session: string;
  ref: SessionRef;
  /** `turns`: the turns before are gone; `all`: the session itself as well. */
  wiped: "nothing" | "turns" | "all";
  turns: PlannedTurn[];
  /** Set where turns were added, also such as a reset took away again. */
  used?: { first: Ms; last: Ms };
}

/** What a group does to sessions, folded. */
export class SessionPlan {
  readonly planned = new Map<string, PlannedSession>();

  apply(op: SessionOp): void {
    const session = sessionId(op.ref);
    const known = this.planned.get(session) ?? {
      id: digest(session),
      session,
      ref: op.ref,
      wiped: "nothing",
      turns: [],
    };
    this.planned.set(session, known);
    if (op.op === "append") {
      known.turns.push(op.turn);
      known.used = { first: known.used?.first ?? op.at, last: op.at };
      return;
    }
    known.turns = [];
    if (op.op === "reset") {
      if (known.wiped === "nothing") known.wiped = "turns";
      return;
    }
    known.wiped = "all";
    delete known.used;
  }
}
