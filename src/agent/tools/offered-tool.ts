import type { Schema } from "ai";
import { sha256Hex } from "../../core/secret.ts";
import type { TraceContext } from "../../core/http/trace-context.ts";
import type { ToolOutput } from "../../store/steps.ts";

/** Names that every provider accepts: most take these characters, and some no digit at the beginning. */
const LEGAL = /^[A-Za-z_][\w-]{0,63}$/;
const MAX_PLAIN = 55;

/** Returns the name of a tool for models. If it has to change, a hash of the whole name tells it from all others. */
export function toModelName(tool: string): string {
  const name = tool.replace(".", "__");
  if (LEGAL.test(name)) return name;
  const plain = name.replaceAll(/[^\w-]/g, "_").replace(/^(?![A-Za-z_])/, "_");
  return `${plain.slice(0, MAX_PLAIN)}_${sha256Hex(tool).slice(0, 8)}`;
}

/** The properties of a tool that are known before it is called. */
export interface ToolHints {
  readOnly: boolean;
  idempotent: boolean;
  destructive: boolean;
}

/** The time limit of one call, in milliseconds. */
export const CALL_MS = 60_000;

/** Thrown if a call was sent and no answer came: it may or may not have been carried out. */
export class OutcomeUnknownError extends Error {
  override readonly name = "OutcomeUnknownError";
}

/** A call of a tool: its id is the same in every attempt. */
export interface OfferedCall {
  callId: string;
  signal: AbortSignal;
  /** The input as the model wrote it, if numbers in it are rounded in the input that was read. */
  inputText?: string;
  /** The span of the call. */
  trace?: TraceContext | undefined;
}

/** A tool as a turn offers it. */
export interface OfferedTool {
  /** The name that the model uses. */
  name: string;
  /** The name in the config: `<plugin or server>.<tool>`. */
  tool: string;
  hints: ToolHints;
  /** Runs alone within its step. */
  exclusive: boolean;
  /** For the model. */
  definition: { description?: string; inputSchema: Schema };
  /**
   * Makes the call; it ends by itself at the tool's time limit.
   * @throws OutcomeUnknownError if the call was sent and no answer came: the connection was cut, the process died, or the
   *   time limit was reached. With any other error the call failed, and the error's message goes to the model.
   */
  execute(input: unknown, call: OfferedCall): Promise<ToolOutput>;
}
