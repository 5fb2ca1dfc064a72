import type { Thinking } from "../config/schema/common.ts";
import type { TextPart } from "../core/text.ts";
import type { TurnRecord, Usage } from "../store/types.ts";

/** An agent as a turn sees it. */
export interface Agent {
  id: string;
  name: string;
  description?: string;
  instructions?: string;
  model: string;
  thinking?: Thinking;
  /** Tools it may use when the turn's input is not outside text. */
  tools: string[];
}

/** A model that exists: `ref` is `provider/model`. */
export interface ResolvedModel {
  ref: string;
  provider: string;
  model: string;
}

export type ModelResolution =
  | { ok: true; model: ResolvedModel }
  | { ok: false; code: "unknown_model" | "model_not_allowed"; message: string };

/** Providers, aliases and the allow-list of one snapshot. Loads no provider until a turn needs it. */
export interface Models {
  /** Resolves an alias or `provider/model`. */
  resolve(name: string): ModelResolution;
  /** The same for a name that a request, a template or a transform gave: also held against `agents.defaults.models`. */
  resolveRequested(name: string): ModelResolution;
  /** The model of an agent that names none. */
  readonly standard: ResolvedModel;
  /** The standard model of an agent's config entry; checked when the snapshot is made. */
  readonly providers: readonly { id: string; type: string; models?: string[] }[];
}

export interface TurnInput {
  agent: Agent;
  /** Oldest first. */
  history: readonly TurnRecord[];
  /** The new input. Outside parts go inside the boundary. */
  input: readonly TextPart[];
  /** The hook id that the trusted line names; undefined where the input is the owner's or an API user's. */
  hook?: string;
  unsafe: boolean;
  /** The operator's words for this turn alone (a mapping's `instructions`, the heartbeat's). */
  instructions?: string;
  /** Names of tools that this turn may use, already decided by the tool policy. */
  tools: readonly string[];
  model: ResolvedModel;
  thinking?: Thinking;
  timeoutMs: number;
  signal: AbortSignal;
  /** Set where somebody watches the text; then the turn streams. */
  onText?: (delta: string) => void;
  /** What a `builtin/echo` heartbeat needs to know. */
  heartbeat?: boolean;
}

export type TurnResult =
  | { ok: true; text: string; messages: unknown[]; usage: Usage; finish: string; warnings: string[] }
  | {
      ok: false;
      /** `timeout`, `cancelled`, `rate_limited`, `provider_unavailable`, `provider_refused`, `provider_error`, `empty_reply`. */
      code: string;
      /** Quotes nothing of the provider's answer. */
      message: string;
      /** True where the same turn may succeed later. */
      retryable: boolean;
      retryAfterMs?: number;
      warnings: string[];
    };

/** The one way to a model. Never throws: failure is in the value. */
export interface AgentRuntime {
  readonly models: Models;
  runTurn(input: TurnInput): Promise<TurnResult>;
  /** Ends connections to MCP servers. */
  close(): Promise<void>;
}
