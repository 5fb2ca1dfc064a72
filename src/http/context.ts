import type { AdminDeps } from "../operate/types.ts";
import type { Workbench } from "../operate/workbench.ts";
import type { FirstAnswers } from "./first-answers.ts";

/** What requests are answered with. */
export interface HttpContext extends AdminDeps {
  workbench: Workbench;
  /** Each of them lets its bearer do all that an operator does. */
  operatorTokens: readonly string[];
  /** Bounds how long callers wait for a store that hangs. Absent if it cannot hang. */
  firstAnswers: FirstAnswers | undefined;
}
