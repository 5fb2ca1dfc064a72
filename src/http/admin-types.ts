import type { SendResult } from "../plugin/api.ts";
import type { EventDebug } from "../core/debug.ts";
import type { Failure, RunErrorCode } from "../core/errors.ts";
import type { TextPart } from "../core/text.ts";
import type { DocumentPage, DocumentRecord, Passage } from "../knowledge/types.ts";
import type { MappingInfo, Nearest } from "../mapping/types.ts";
import type {
  DeliveryError,
  DeliveryStatus,
  EventOutcome,
  RouteDecision,
  RunError,
  RunStatus,
  SessionOrigin,
  Usage,
} from "../store/types.ts";
import type { Denial, ReplayResult, SignatureState } from "../intake/types.ts";
import type { TestedHook } from "./admin-test.ts";
import type { GatewayStatus } from "./types.ts";

/** The operator's view of what is kept. Times are ISO 8601; what is not there is null, so that every row has all fields. */
export interface EventView {
  id: string;
  receivedAt: string;
  path: string;
  credential: string;
  address: string | null;
  outcome: EventOutcome;
  reason: string | null;
  /** The HTTP status that the sender was answered, if it was an error. */
  answerStatus: number | null;
  mapping: string | null;
  /** Where no mapping matched: the closest one, and its condition that failed. */
  nearest: Nearest | null;
  missing: string[];
  /** What was ignored, cut or replaced in its runs. */
  warnings: string[];
  duplicateOf: string | null;
  replayOf: string | null;
  actions: { kind: "run" | "wake"; id: string; mapping: string | null; status?: string }[];
  /** Null once `hooks.retention` is over. */
  bodyBytes: number | null;
}

export interface EventDetail extends EventView {
  /** What mappings in shadow would have done. */
  would: { kind: "run" | "wake"; mapping: string | null; content: TextPart[]; fields: Record<string, string | boolean> }[];
  /** What the mappings' code threw and printed; null if nothing, and once `hooks.retention` is over. */
  debug: EventDebug | null;
  request: {
    method: string;
    contentType: string | null;
    headers: Record<string, string>;
    query: Record<string, string>;
    /** As text where it is UTF-8, else base64. */
    body: string | null;
    encoding: "utf8" | "base64";
  };
}

export interface RunView {
  id: string;
  eventId: string | null;
  kind: "hook" | "heartbeat" | "channel" | "api";
  mapping: string | null;
  status: RunStatus;
  agentId: string;
  origin: SessionOrigin;
  sessionKey: string;
  /** Whose session it is; null for other origins than hooks, and for keys of `hooks.sharedSessions`. */
  path: string | null;
  credential: string | null;
  name: string;
  hook: string;
  model: string | null;
  attempts: number;
  restarts: number;
  error: RunError | null;
  warnings: string[];
  usage: Usage | null;
  delivery: string | null;
  deliveryId: string | null;
  /** The delivery of its receipt, where the mapping has a callback. */
  callbackId: string | null;
  /** The limit that it waits for. */
  parked: { scope: string; limit: string; until: string | null } | null;
  /** How many events it has collected. */
  collected: number | null;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
}

export interface RunDetail extends RunView {
  /** What the agent was given; `outside` marks what a caller said. */
  input: TextPart[];
  instructions: string | null;
  reply: string | null;
  route: RouteDecision | null;
  deliver: boolean;
  channel: string;
  to: string | null;
  thinking: string | null;
  timeoutSeconds: number | null;
  wakeMode: string;
  allowUnsafeExternalContent: boolean;
  /** What the mapping's code threw and printed when it made one run of collected events; null if nothing. */
  debug: EventDebug | null;
}

export interface SessionView {
  agentId: string;
  origin: SessionOrigin;
  key: string;
  /** The hook path and the configured credential that it belongs to; null for other origins, and where it is shared. */
  path: string | null;
  credential: string | null;
  turns: number;
  createdAt: string | null;
  lastUsedAt: string | null;
}

export interface TurnView {
  seq: number;
  runId: string;
  at: string;
  hook: string;
  input: TextPart[];
  /** The model's messages as they are kept. */
  messages: unknown[];
}

export interface SessionDetail {
  session: SessionView;
  /** Oldest first. */
  turns: TurnView[];
  /** System events that wait for a heartbeat; only in the main session. */
  queued: { id: string; at: string; source: string; text: TextPart[]; failures: number }[];
  lastRoutes: { channel: string; to: string; at: string }[];
}

export interface DeliveryView {
  id: string;
  runId: string;
  status: DeliveryStatus;
  /** Without a route: what the run asked for, a channel or `last`. */
  channel: string;
  to: string | null;
  thread: string | null;
  chunks: number;
  sentChunks: number;
  attempts: number;
  messageIds: string[];
  error: DeliveryError | null;
  createdAt: string;
  nextAt: string | null;
  endedAt: string | null;
}

export interface AgentView {
  id: string;
  name: string;
  description: string | null;
  model: string;
  thinking: string | null;
  tools: string[];
  /** The main session is this one's. */
  standard: boolean;
}

interface PluginView {
  id: string;
  origin: string;
  channel: boolean;
  configured: boolean;
}

export interface ChannelView {
  name: string;
  id: string;
  loaded: boolean;
  defaultTo: string | null;
  /** Whether replies go there that name no recipient while there is no last route. */
  fallback: boolean;
  limit: number | null;
  /** Whether people can write to the agent there, and how many may. */
  receives: boolean;
  allowFrom: number;
  /** Which agent answers: the first that fits a message's room and sender; null fits all. */
  agents: { agent: string; room: string | null; person: string | null }[];
}

export interface ChannelStatusView {
  id: string;
  /** Null where the channel cannot tell. */
  reach: { ok: boolean; message: string } | null;
  /** Null where nothing listens: the channel only sends, or no gateway with workers runs. */
  receive: { ok: boolean; message: string; since: string } | null;
  /** It receives, and allowFrom is empty: nobody is answered. */
  nobody: boolean;
}

export interface PathView {
  path: string;
  methods: string[];
  /** How callers of the path are believed; never a value. */
  auth: "hooks.token" | "token" | "basic" | "signature";
  allowIps: string[] | null;
  maxBodyBytes: number;
}

export interface StatusView extends Omit<GatewayStatus, "startedAt"> {
  startedAt: string;
  counts: Record<string, number>;
  waiting: Record<"turn" | "delivery", { count: number; oldestSeconds: number }>;
}

export interface CheckView {
  id: string;
  status: "ok" | "warn" | "fail";
  /** What was found, and what to change where it is not well. */
  message: string;
}

/** The lines of a bulk replay, in this order: one `total`, a `result` for each event, one `end`. */
export type ReplayLine =
  | { type: "total"; total: number; dryRun: boolean }
  | { type: "result"; ok: true; result: ReplayResult }
  | { type: "result"; ok: false; eventId: string; failure: Failure }
  | { type: "end"; replayed: number; failed: number };

/** A key of the platform API, without the key. */
export interface KeyView {
  id: string;
  tenant: string;
  /** Null: all. */
  agents: string[] | null;
  scopes: string[];
  rateLimit: { requests: number; perSeconds: number } | null;
  userAsSession: boolean;
  source: "config" | "store";
  createdAt: string | null;
}

/** The lines of a turn, in this order: one `start`, `text` as it comes, one `end`. */
export type ChatLine =
  | { type: "start"; runId: string; agent: string; session: string | null }
  | { type: "text"; text: string }
  | { type: "end"; ok: true; reply: string; usage: Usage }
  | { type: "end"; ok: false; code: RunErrorCode; message: string };

/** The answers of the operator's interface, by route. */
export interface AdminAnswers {
  events: { events: EventView[]; next: string | null };
  event: { event: EventDetail };
  replay: { result: ReplayResult };
  runs: { runs: RunView[]; next: string | null };
  run: { run: RunDetail };
  sessions: { sessions: SessionView[]; next: string | null };
  session: SessionDetail;
  deliveries: { deliveries: DeliveryView[]; next: string | null };
  delivery: { delivery: DeliveryView };
  agents: { agents: AgentView[] };
  plugins: { plugins: PluginView[] };
  channels: { channels: ChannelView[] };
  channelStatus: { channels: ChannelStatusView[] };
  channelTest: { channel: string; to: string; result: SendResult };
  mappings: { mappings: MappingInfo[]; paths: PathView[]; base: string; enabled: boolean };
  status: { status: StatusView };
  refusals: { refusals: (Omit<Denial, "at"> & { at: string })[] };
  config: { config: unknown };
  reload: { hash: string };
  /** `knowledge`: the documents' part, where there are any. */
  backup: { file: string; bytes: number; seconds: number; knowledge?: { database: string; files: string; bytes: number } };
  /** Secrets that requests brought to a path whose own is `pending`. */
  secretCandidates: { candidates: (Omit<SignatureState["candidates"][number], "at"> & { at: string })[] };
  secretAccepted: { file: string; secret: string };
  test: TestedHook;
  doctor: { checks: CheckView[] };
  keys: { keys: KeyView[] };
  keyMade: { key: KeyView; secret: string };
  documents: DocumentPage;
  document: { document: DocumentRecord };
  documentAdded: { document: DocumentRecord; duplicate: boolean };
  passages: { passages: Passage[] };
}
