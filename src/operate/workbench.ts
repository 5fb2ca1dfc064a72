import type { TextEvaluation } from "./edits/text-evaluation.ts";
import type { Failure } from "../core/errors.ts";
import type { FreezeRequest, FrozenTest } from "./tests/freeze.ts";
import type { Landing } from "./edits/landing.ts";
import type { MappingChange, TextChange } from "./edits/planned-change.ts";
import type { Selection } from "./what-if/selection.ts";
import type { createProposals } from "./proposals/proposals.ts";
import type { WhatIfLine } from "./what-if/what-if.ts";

/** A comparison that an operator asks for. */
interface WhatIfRequest {
  change: MappingChange;
  selection: Selection;
}

/** A line of the answer. `error` is the last one: the comparison ended early. */
export type AnswerLine =
  | WhatIfLine
  | ({ type: "error" } & Pick<Failure, "code" | "message" | "issues">);

/** Compares what mappings do with recorded events, without the gateway's own process. */
export interface WhatIf {
  /**
   * Starts a comparison. It ends when the reader ends or `signal` aborts.
   * @throws RouseError `rate_limited` if too many are under way, `what_if_unavailable`, `config_invalid` if the
   * config has problems with the change, or `not_found` or `usage` if the change cannot be made.
   */
  compare(request: WhatIfRequest, signal?: AbortSignal): Promise<AsyncIterable<AnswerLine>>;
  /**
   * Says what the text of one mapping makes of one recorded event; without one, only what is wrong with it.
   * @throws RouseError `what_if_unavailable`, `not_found` if there is no such event, or `conflict` if the config's files are not
   * what the gateway uses.
   */
  evaluate(change: TextChange, event?: string): Promise<TextEvaluation>;
}

/** The tools of a gateway for work on its mappings. */
export interface Workbench {
  /** Keeps a recorded event as a test. */
  freeze(request: FreezeRequest): Promise<FrozenTest>;
  landing: Landing;
  proposals: ReturnType<typeof createProposals>;
  whatIf: WhatIf;
}
