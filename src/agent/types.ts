import type { wrapLanguageModel } from "ai";
import type { Thinking } from "../config/schema/common.ts";
import type { Config } from "../config/schema/index.ts";
import type { RunErrorCode } from "../core/errors.ts";
import type { Pass, Refusal } from "../core/breaker.ts";
import type { TextPart } from "../core/text.ts";
import type { ToolPatterns } from "../vocabulary/tool-names.ts";
import type { McpServerState } from "./tools/mcp-server.ts";
import type {
  ContextProvider,
  ModelPrice,
  ModelProvider,
  ModelSettings,
  Part,
  ProviderDescription,
  Tool,
  TurnInfo,
} from "../contract/kinds.ts";
import type { Offers } from "../contract/offers.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  ToolCallChange,
  ToolOutput,
} from "../store/steps.ts";
import type {
  FailedAttempt,
  Ms,
  StepRecord,
  TurnRecord,
  Usage,
  VendorError,
} from "../store/types.ts";
import type { Boundary } from "./boundary.ts";
import type { OfferedTool, ToolHints } from "./tools/offered-tool.ts";

/** An agent of a snapshot, with its defaults resolved. */
export interface Agent {
  id: string;
  name: string;
  description?: string;
  instructions?: string;
  model: string;
  /** Models that are asked in turn if `model` gives no answer. */
  fallbacks?: readonly string[];
  /** The model and its fallbacks, by these names. */
  resolved: ModelResolution;
  /** Tokens for the history and the new input in the window of the model; of the default window if it is not known. */
  room: number;
  heartbeat: Config["agents"]["defaults"]["heartbeat"];
  thinking?: Thinking;
  /** Its own tools, as patterns. */
  tools: string[];
  /** Calls that wait for a person, as patterns. */
  approve: readonly string[];
  /** The use of uploaded documents. */
  knowledge: "off" | "tool" | "auto";
}

/** A model that exists: `ref` is `provider/model`. */
export interface ResolvedModel {
  ref: string;
  provider: string;
  model: string;
  /** Asked in turn if the model gives no answer. */
  fallbacks?: readonly ResolvedModel[];
}

/** A provider by its name, with what its plugin makes models of. */
export interface NamedProvider {
  kind: ModelProvider;
  settings: ModelSettings;
}

/** A model of the `ai` package. */
export type SdkModel = Parameters<typeof wrapLanguageModel>[0]["model"];

/** A model that a turn may use, with its provider. */
export interface ModelCandidate {
  model: ResolvedModel;
  provider: NamedProvider;
  /** The window of the model, in tokens: what is sent to it has to fit. */
  contextTokens: number;
  /** True if it may be given images. */
  hasImages: boolean;
  /** False if the config does not state the window: `contextTokens` is the default then. */
  isWindowKnown: boolean;
  /** Absent if it is unknown. */
  price?: ModelPrice;
}

export type ModelResolution =
  | { ok: true; model: ResolvedModel }
  | { ok: false; code: "unknown_model" | "model_not_allowed"; message: string };

/** Providers, aliases and the allow-list of one snapshot. Loads no provider until a turn needs it. */
export interface Models {
  /** Resolves an alias or `provider/model`, with the fallbacks of the alias, then `fallbacks`. */
  resolve(name: string, fallbacks?: readonly string[]): ModelResolution;
  /** The same for a name that a request, a template or a transform gave: also checked against `agents.defaults.models`. */
  resolveRequested(name: string): ModelResolution;
  /** Returns the window of a model, in tokens; the default window if that of the model is not known. */
  getWindow(model: ResolvedModel | undefined): number;
  /** Returns the price of a model; undefined if it is unknown. */
  getPrice(model: ResolvedModel): ModelPrice | undefined;
  /** The model of an agent that names none. */
  readonly default: ResolvedModel;
  /** The standard model of an agent's config entry; checked when the snapshot is made. */
  readonly providers: readonly { id: string; type: string; models?: string[] }[];
  /** The kinds of providers that plugins offer, used or not. */
  readonly kinds: readonly ProviderDescription[];
}

/** A call of a tool that the caller carries out. */
export interface ToolCall {
  id: string;
  tool: string;
  /** Plain JSON. */
  input: unknown;
  /** The input as the model wrote it, which may be no JSON. */
  inputText?: string;
}

/** An image that somebody sent. */
export interface InputImage {
  /** The name of the file in the input. */
  label: string;
  mediaType: string;
  data: Uint8Array;
}

export type ConversationPart =
  | { type: "text"; text: string }
  /** `detail`: how closely the caller wants it to be read, for providers that offer a choice. */
  | { type: "image"; mediaType: string; data: Uint8Array; detail?: string }
  /** The text of a file: outside text, whoever sent the file. */
  | { type: "document"; filename: string; text: string };

/** A message of the caller or the model. A tool's result is outside text, whoever carried the call out. */
export type ConversationMessage =
  | { role: "user"; parts: readonly ConversationPart[] }
  | { role: "assistant"; text: string; reasoning?: string; calls: readonly ToolCall[] }
  /** All that a turn of the gateway said, with the results of the agent's tools, as messages of the `ai` package. */
  | { role: "steps"; messages: readonly unknown[] }
  | { role: "tool"; callId: string; tool: string; output: ToolOutput };

/** A tool of the caller: a turn that calls it ends with the call. `schema` is the JSON schema of its input. */
export interface CallerTool {
  name: string;
  description?: string;
  schema?: Record<string, unknown>;
  strict?: boolean;
}

/** The caller's settings of the model's answer. Settings that the provider lacks are left out, with a warning. */
export interface Sampling {
  temperature?: number;
  topP?: number;
  maxOutputTokens?: number;
  stopSequences?: readonly string[];
  seed?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  toolChoice?: "auto" | "none" | "required" | { tool: string };
  parallelToolCalls?: boolean;
  /** The answer is JSON; `schema` is a JSON schema that it fits. */
  json?: {
    schema?: Record<string, unknown>;
    name?: string;
    description?: string;
    strict?: boolean;
  };
}

/** The offers of plugins to agents. */
export type AgentExtensions = Readonly<Pick<Offers, "tools" | "context" | "providers">>;

/** An addition to one turn: text before its input, and tools that it has whatever its agent's list says. */
export interface TurnExtension {
  id: string;
  context?: ContextProvider;
  tools: readonly Tool[];
  /** The run's warning if `context` fails. */
  warning: string;
}

/** A change of one tool call, by the call's id. */
export interface CallChange {
  id: string;
  change: ToolCallChange;
  /** The whole text of an output that was cut, to be kept under the call's id. */
  whole?: string;
}

/** The steps of a turn on disk, so that another attempt continues after the last one that was committed. */
export interface Journal {
  /** Steps of earlier attempts, oldest first. */
  readonly steps: readonly StepRecord[];
  /** Resolves once the step is on disk. False: another gateway has the run; the loop stops and starts nothing more. */
  addStep(step: StepRecord): Promise<boolean>;
  /** The same for changes of calls of steps that are on disk. */
  updateCalls(changes: readonly CallChange[]): Promise<boolean>;
  /** The whole text of a result that was cut, of this run or of an earlier one of its session; undefined if there is none. */
  getWhole(id: string): Promise<string | undefined>;
  /** The decision about an approval; undefined while it is open. A deleted approval counts as timed out. */
  getDecision(approvalId: string): Promise<ApprovalDecision | undefined>;
}

/** A question to a person, before it has an id. */
export type NewApproval = Pick<ApprovalRecord, "callId" | "tool" | "input" | "reason" | "why">;

/**
 * The decision about a call: it is made immediately, after a person has approved it, or not at all. `why` is one
 * sentence that quotes no text from outside.
 */
export type CallVerdict =
  | { kind: "run" }
  | { kind: "ask"; reason: Exclude<ApprovalRecord["reason"], "outcome_unknown">; why: string }
  | { kind: "withhold"; why: string };

/** A tool call before it is made, and what the model sees. The last of the steps is that of the call. */
export interface JudgedCall {
  id: string;
  tool: string;
  hints: ToolHints;
  input: unknown;
  steps: readonly StepRecord[];
  /** The text that context providers have added to the turn. */
  context: readonly Part[];
}

/** The facts about a turn that decide about its tools. */
export interface ToolTurn {
  info: TurnInfo;
  boundary: Boundary;
  /** Milliseconds that it waits for a server. */
  waitMs: number;
}

/** The tools of a turn. */
export interface PickedTools {
  tools: OfferedTool[];
  warnings: string[];
  /** The tools that the agent's own list has and the lists that narrow it do not. */
  leftOut?: string[];
}

export interface TurnInput {
  agent: Pick<Agent, "id" | "name" | "description" | "instructions">;
  /** Oldest first. */
  history: readonly TurnRecord[];
  /** The new input. Outside parts go inside the boundary. */
  input: readonly TextPart[];
  /** The new input where it is more than text: takes the place of `input`. */
  messages?: readonly ConversationMessage[];
  /** Images that came with `input`. They are outside content. */
  images?: readonly InputImage[];
  /** The facts about the turn for tools and context providers. */
  info: TurnInfo;
  /** The text that context is looked up for; may be blank. */
  question: string;
  /** True if the turn gets no context that plugins offer to all turns. */
  isPlain?: boolean;
  /** Additions of the turn, besides those that plugins offer to all turns. */
  extensions?: readonly TurnExtension[];
  /** The caller's own instructions: they stand below the agent's. */
  callerInstructions?: string;
  callerTools?: readonly CallerTool[];
  sampling?: Sampling;
  /**
   * The name of the hook in the trusted line, in the operator's words; undefined if the input is from the owner or an
   * API user.
   */
  hook?: string;
  /** The source of the input's outside parts, as the boundary names it. Default: the hook. */
  source?: string;
  unsafe: boolean;
  /** The operator's words for this turn alone (a mapping's `instructions`, the heartbeat's). */
  instructions?: string;
  /** Which tools this turn may use: those that all lists cover. */
  tools: ToolPatterns;
  /** The key of the config that narrows the agent's own list, for readers of the run. */
  narrowedBy?: string;
  /** Gives the turn's tools in place of the servers and plugins of `tools`, which are not asked then. */
  pickTools?(turn: ToolTurn): Promise<PickedTools>;
  model: ResolvedModel;
  thinking?: Thinking;
  timeoutMs: number;
  signal: AbortSignal;
  /** Set where somebody watches the text; then the turn streams. */
  onText?: (delta: string) => void;
  /** Called when a model call begins. If set, text can be taken back: a call that has given some may be made again. */
  onCall?: () => void;
  /** The same for the model's reasoning. */
  onReasoning?: (delta: string) => void;
  /** True for a heartbeat: `builtin/echo` needs to know. */
  heartbeat?: boolean;
  /** The id of the run's boundary; default a new one. */
  boundaryId?: string;
  /** Default: the turn has one attempt, and keeps nothing. */
  journal?: Journal;
  /** Asked before each call of a tool. Default: every call is made. */
  judge?: (call: JudgedCall) => CallVerdict | undefined;
  /** Default: every model may be called. */
  gate?: CallGate;
  /** The way to settle a call that was started and has no answer. Default: `"tell"`, with a warning. */
  onUnknown?: "ask" | "tell";
}

/** The time that a turn waits for models that give no answer. */
export interface Patience {
  /** Returns the milliseconds that are left. They begin with the first failure. */
  left(): Ms;
  /** Counts a wait. */
  waited(ms: Ms): void;
  /** A model has answered. */
  restore(): void;
}

/** Asked before each model call of a turn. */
export interface CallGate {
  /** `isRetry`: the call before was one of the same model, and failed. */
  enter(ref: string, isRetry: boolean): Pass | Refusal;
  /**
   * Waits until the run surely is this gateway's, also before each call of a tool. False if another gateway has it, or if the signal
   * aborts first. Default: it is.
   */
  ready?(signal: AbortSignal): Promise<boolean>;
  /** Returns whether calls of a model are refused because its provider is away. */
  isOpen(ref: string): boolean;
  /** Bounds the waits of a turn that somebody waits for. */
  readonly patience?: Patience | undefined;
  /**
   * True if the models are asked again and again until that is over. Otherwise the turn ends, and is tried again later.
   */
  readonly staysUnderWay?: boolean | undefined;
}

/** A turn that has not ended: a person has to decide (`waiting`), or another gateway has the run (`lost`). */
export interface PausedTurn {
  ok: false;
  code: "waiting" | "lost";
  /** Questions that have not been asked yet. */
  asks: readonly NewApproval[];
  /** Ids of approvals that the turn waits for already. */
  open: readonly string[];
}

export type TurnResult =
  | PausedTurn
  | {
      ok: true;
      /** The last thing the model said. */
      text: string;
      /** All it said, before its tools' calls too: what `onText` was given, joined. */
      spoken: string;
      /** The model's reasoning, as far as the provider shows it: the joined input of `onReasoning`. */
      reasoning: string;
      /** Calls that are the caller's to carry out. */
      calls: ToolCall[];
      messages: unknown[];
      usage: Usage;
      finish: string;
      /** `<provider>/<model>` that answered last. */
      model: string;
      warnings: string[];
      /** The text that context providers have added to the turn. */
      context?: readonly Part[];
      /** The last step, if it is not in the journal yet: the end of the run is to be committed with it. */
      lastStep?: StepRecord;
    }
  | {
      ok: false;
      code: RunErrorCode;
      /** Rouse's own sentence: quotes nothing of the provider's answer. */
      message: string;
      /** The name of the provider that gave no answer. */
      provider?: string;
      /** The provider's error, for the operator and for callers of `/v1`. */
      vendor?: VendorError;
      /** True if the same turn may succeed later. */
      retryable: boolean;
      retryAfterMs?: number;
      /** Set if none of the models takes calls: the one that may be called next, and when. */
      blocked?: Refusal;
      /** True if the failure is that of a model that was not called, since its breaker refused. */
      isRefused?: true;
      /** The model calls without an answer that the turn ended with, oldest first. */
      failedAttempts?: readonly FailedAttempt[];
      warnings: string[];
    };

/** The one way to a model. Failure is in the value; it throws what the journal threw alone. */
export interface AgentRuntime {
  readonly models: Models;
  runTurn(input: TurnInput): Promise<TurnResult>;
  /** Connects to the MCP servers whose tools an agent may use, and stays connected. A turn connects to those that it needs. */
  start(): void;
  /**
   * Does something outside of a run with all tools of the plugins and of these servers; they are connected to if need be.
   * A reload waits for its end.
   */
  withTools<T>(
    servers: readonly string[],
    work: (picked: PickedTools, runId: string) => T | Promise<T>,
  ): Promise<T>;
  /** Returns the states of the MCP servers of the config. */
  mcpServers(): readonly McpServerState[];
  /** Ends connections to MCP servers once the turns under way are over: another snapshot is in use. */
  retire(): void;
  /** Ends connections to MCP servers. */
  close(): Promise<void>;
}
