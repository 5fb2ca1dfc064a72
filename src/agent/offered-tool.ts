import type { Schema } from "ai";
import type { TraceContext } from "../core/trace-context.ts";
import type { ToolOutput } from "../store/steps.ts";

/** What is known of a tool before it is called. */
export interface ToolHints {
  readOnly: boolean;
  idempotent: boolean;
  destructive: boolean;
}

/** The time limit of one call, in milliseconds. */
export const CALL_MS = 60_000;

/** A call left, and no answer came: it may have been carried out, or not. */
export class OutcomeUnknownError extends Error {
  override readonly name = "OutcomeUnknownError";
}

/** A call of a tool: its id is the same in every attempt. */
export interface OfferedCall {
  callId: string;
  signal: AbortSignal;
  /** The span of the call. */
  trace?: TraceContext | undefined;
}

/** A tool as a turn offers it. */
export interface OfferedTool {
  /** As the model calls it. */
  name: string;
  /** As the config names it: `<plugin or server>.<tool>`. */
  tool: string;
  hints: ToolHints;
  /** Runs alone within its step. */
  exclusive: boolean;
  /** For the model. */
  definition: { description?: string; inputSchema: Schema };
  /**
   * Makes the call; it ends by itself at the tool's time limit.
   * @throws OutcomeUnknownError if the call left and no answer came: the connection was cut, the process died, or the time
   *   was over. With any other error the call failed, and the error's message goes to the model.
   */
  execute(input: unknown, call: OfferedCall): Promise<ToolOutput>;
}
