import type { CallerTool, Agent, ConversationMessage, Sampling, ToolCall } from "../agent/types.ts";
import type { Thinking } from "../config/schema/common.ts";
import type { ApiKey } from "./api-keys.ts";
import type { Failure, RunErrorCode } from "../core/errors.ts";
import type {
  ApprovalRecord,
  FencingToken,
  RunRecord,
  Usage,
  VendorError,
} from "../store/types.ts";
import type { NamedCitation } from "../turns/knowledge.ts";

/** Which conversation a turn belongs to. */
export type ChatSession =
  /** One shot: nothing is kept but the run's record. */
  | { kind: "none" }
  /** A conversation that begins with this turn; it goes by the run's id. */
  | { kind: "new" }
  | { kind: "named"; id: string }
  /** The conversation after this run's turn, or a branch of it. Without `keep` it cannot be continued. */
  | { kind: "after"; run: RunRecord; keep: boolean };

/** A request of an API's user to an agent, already checked. */
export interface ChatRequest {
  agent: Agent;
  /** The key that was used. No caller reaches a session of another key. */
  caller: Pick<ApiKey, "id" | "tenant" | "clean">;
  session: ChatSession;
  /** The caller sends the whole conversation itself; the server adds nothing of what it keeps. */
  callerKeepsHistory: boolean;
  messages: readonly ConversationMessage[];
  instructions?: string;
  tools?: readonly CallerTool[];
  sampling?: Sampling;
  thinking?: Thinking;
  /** The fields of a request for a response that the response repeats. Set if the response can be read again. */
  response?: Readonly<Record<string, unknown>>;
  /** For the run's record. */
  warnings?: readonly string[];
  /** Somebody watches the text as it comes. */
  stream: boolean;
  /** False if the caller reads the answer later: the run is stored before its turn. Default: true. */
  isAwaited?: boolean;
  /** Whoever watches may decide about calls of tools. Default: no; such calls are not made. */
  canAsk?: boolean;
}

export type ChatEnd =
  | {
      ok: true;
      text: string;
      /** The model's reasoning; empty if its provider does not show it. */
      reasoning: string;
      calls: readonly ToolCall[];
      finish: string;
      /** As the provider counted it; empty if it did not. */
      usage: Usage;
      citations: readonly NamedCitation[];
    }
  | {
      ok: false;
      code: RunErrorCode;
      message: string;
      vendor?: VendorError;
      retryAfterMs?: number;
    };

export interface ChatListener {
  onText(delta: string): void;
  /** A piece of the model's reasoning. */
  onReasoning?(delta: string): void;
  /** A call of a tool waits for a decision. */
  onApproval?(approval: ApprovalRecord): void;
  onEnd(end: ChatEnd): void;
}

/** A turn that is under way, or over. */
export interface ChatTurn {
  readonly runId: string;
  readonly createdAt: number;
  /** True for a turn without a session, which is stopped when its last caller has gone. */
  readonly isOneShot: boolean;
  /** The name of its session, for the caller; undefined for one shot, and for a turn after a response until it is known whether it is a branch. */
  readonly sessionId: string | undefined;
  /** True while its models have failed and are asked again. */
  readonly isRetrying: boolean;
  readonly end: ChatEnd | undefined;
  /** Resolves once the run of a turn that is not awaited is in the store. */
  readonly stored: Promise<void>;
  /** Hears all that was said so far, then all that follows. Returns how to leave; when the last one leaves, one shot is stopped. */
  listen(listener: ChatListener): () => void;
  /** Calls once the turn is over, without standing for a caller. */
  whenOver(call: () => void): void;
}

export interface Chats {
  startTurn(request: ChatRequest): { ok: true; turn: ChatTurn } | { ok: false; failure: Failure };
  /** Stops a turn of this process. Undefined if the run is none of them. */
  cancel(runId: string): Promise<RunRecord | undefined>;
  /** Ends the turns that a crash cut off, of gateways that are not among `present`: no caller waits for them any more. */
  recover(present: ReadonlySet<string>, fencingToken?: FencingToken): Promise<void>;
  /** Takes no more turns, waits `drainMs` for those under way, then stops them. */
  stop(drainMs: number): Promise<void>;
}
