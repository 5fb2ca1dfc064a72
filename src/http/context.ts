import type { Failure } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "../operate/types.ts";
import type { Workbench } from "../operate/workbench.ts";
import type { InTime } from "./first-answers.ts";

/** The parts that answer requests. */
export interface HttpContext extends AdminDeps {
  workbench: Workbench;
  /** Each of them lets its bearer do all that an operator does. */
  operatorTokens: readonly string[];
  /** Bounds how long callers wait for a store that hangs. */
  inTime: InTime;
}

/** The context that HTTP is opened with. */
export interface OpenContext extends Omit<HttpContext, "inTime" | "operatorTokens"> {
  operatorToken: string;
  /** The token that is kept in the state folder: commands on this machine send it, whatever `gateway.token` is. */
  localToken: string;
  /** The answer of a store that hangs. */
  unavailable: Failure;
  /** Takes listeners for each snapshot that takes another's place. */
  swapped: { push(listener: (loaded: { snapshot: Snapshot }) => void): void };
}
