/** Runs: what each kind of them is given, and what is kept of it. */
import type { RunStatus } from "../vocabulary/outcomes.ts";
import type { Thinking, WakeMode } from "../config/schema/common.ts";
import type { WrittenDecision } from "../vocabulary/decision.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { RunErrorCode } from "../core/errors.ts";
import type { TextPart } from "../core/text.ts";
import type { JoinedTraces } from "../core/http/trace-context.ts";
import type { Attachment, MessageSpan, UnreadContent } from "./attachments.ts";
import type { RunWaits } from "./hold.ts";
import type { Ms, SessionRef, Usage } from "./records.ts";
import type { LiveMessage, MessageOrigin, ReplyTarget, Route, RouteDecision } from "./routes.ts";

/** What every run is given, checked and resolved when it was accepted. */
interface SpecBase {
  session: SessionRef;
  /** Its name in lists and summaries: one line. Outside text. */
  name: string;
  /** Where it comes from, as the boundary's trusted line names it: a hook path or id, a channel, a schedule, an API key. */
  hook: string;
  input: TextPart[];
  trace?: JoinedTraces;
}

/** The run of an agent action. */
export interface HookSpec extends SpecBase {
  /** The operator's words from the mapping, outside the boundary. */
  instructions?: string;
  wakeMode: WakeMode;
  deliver: boolean;
  target: ReplyTarget;
  model?: string;
  thinking?: Thinking;
  timeoutSeconds?: number;
  /** `allowUnsafeExternalContent` of the mapping. */
  unsafe: boolean;
  /** Added to the reply, so that an event that quotes it is known for an echo (`ignoreSelf.marker`). */
  marker?: string;
  /** What the mapping's code did with the collected events together, for the operator. It may quote them. */
  debug?: EventDebug;
}

/** A turn over the queued system events. */
export interface HeartbeatSpec extends SpecBase {
  instructions: string;
  target: ReplyTarget;
  model?: string;
}

/** The conversation in which an agent was asked for a schedule, and where its answers went. */
export interface AskedSchedule {
  session: SessionRef;
  /** Absent if its answers went nowhere. */
  route?: Route;
}

export interface ScheduleSpec extends SpecBase {
  instructions: string;
  /** Absent if the reply is not sent. */
  target?: ReplyTarget;
  schedule: { id: string; dueAt: Ms; manual?: true; asked?: AskedSchedule };
}

/** A message that is a command: no model is asked. */
export type MessageCommand =
  | { name: "start" | "new" | "stop" | "status" | "help" | "unlink" }
  /** `argument`: the word behind it. */
  | { name: "agent" | "link"; argument?: string }
  /** What is decided about a tool call (`decide`) or about a person (`pair`), as it was written. */
  | { name: "decide" | "pair"; decision: WrittenDecision };

/** The run of a channel's message. */
export interface MessageSpec extends SpecBase {
  channel: string;
  to: string;
  incoming: MessageOrigin;
  unread?: UnreadContent;
  /** The messages that the turn answers, if the input holds more than the one message of `incoming`. */
  parts?: readonly MessageSpan[];
  /** The files that came with the message, so that the agent can send them on. */
  received?: readonly Attachment[];
  command?: MessageCommand;
}

/** The turn of an API user. */
export interface ApiSpec extends SpecBase {
  instructions?: string;
  thinking?: Thinking;
  /** The ids that a front end gave its chat and message, by the headers' names. */
  correlation?: Readonly<Record<string, string>>;
  /** The fields of a request for a response that the response repeats. Set if the response can be read again. */
  response?: Readonly<Record<string, unknown>>;
}

export const ENDED: readonly RunStatus[] = ["succeeded", "failed", "timed_out", "cancelled"];

/** What a model provider said with its error: without credentials and without quotations of the prompt. */
export interface VendorError {
  /** Of the HTTP answer; absent for an error within a stream. */
  status?: number;
  code?: string;
  /** At most 500 characters. */
  message?: string;
  /** The parameter of the request that is wrong. */
  param?: string;
}

export interface RunError {
  code: RunErrorCode;
  message: string;
  /** The name of the provider, if it is one of its models that gave no answer. */
  provider?: string;
  /** For the operator and for callers of `/v1`. Receipts for senders leave it out. */
  vendor?: VendorError;
}

/** A try at a model call that gave no answer. */
export interface FailedAttempt {
  at: Ms;
  model: string;
  error: RunError;
  /** Milliseconds until the next try; absent if there was none. */
  waitedMs?: number;
}

interface RunBase extends RunWaits {
  id: string;
  /** Null if no event has brought it. */
  eventId: string | null;
  mapping?: string;
  status: RunStatus;
  warnings: string[];
  model?: string;
  reply?: string;
  error?: RunError;
  usage?: Usage;
  /** Starts that were committed; `crashCount` of them, since the run was put back in order last, ended with their process. */
  attempts: number;
  crashCount?: number;
  /** Starts again after a final failure, by a repeated event or an operator. */
  restarts: number;
  route?: RouteDecision;
  deliveryId?: string;
  /** The boundary of all its attempts. */
  boundaryId?: string;
  /** How far it had come when the last attempt began, so that a start that cut off an attempt which got further is no crash loop. */
  progress?: number;
  /** Attempts since its last progress that ended with an error that may pass. */
  failures?: number;
  /** Model calls without an answer at which tries of the run ended, oldest first; those before an answer are in its step. */
  failedAttempts?: FailedAttempt[];
  /** The gateway of the last start; of a turn of the API from the beginning, since that one ends with its process. */
  gateway?: string;
  createdAt: Ms;
  startedAt?: Ms;
  endedAt?: Ms;
}

export interface HookRun extends RunBase {
  kind: "hook";
  spec: HookSpec;
  /** Set if the run collects events, or did. */
  collect?: { key: string; count: number; firstAt: Ms; closesAt: Ms };
  /** The number of the config that made one run of the events of its batch. */
  combinedBy?: number;
  /** The delivery that posts the receipt, if the mapping has a callback. */
  callbackId?: string;
}

export interface HeartbeatRun extends RunBase {
  kind: "heartbeat";
  spec: HeartbeatSpec;
  /** The system events that it is about: the same in all its attempts. */
  systemEventIds: string[];
}

export interface ScheduleRun extends RunBase {
  kind: "schedule";
  spec: ScheduleSpec;
}

export interface MessageRun extends RunBase {
  kind: "channel";
  spec: MessageSpec;
  /** The message that shows the text of its turn, as long as it is there. */
  live?: LiveMessage;
  /** When the sender got the notice that the model is away. */
  awayNoticeAt?: Ms;
  /** How often the text of its messages was replaced by edits. */
  edits?: number;
}

/** A piece of a document that a search has found. */
export interface Citation {
  documentId: string;
  chunkId: string;
  filename: string;
  title: string | null;
  page: number | null;
  /** Null for a passage that an earlier turn has found. */
  score: number | null;
  text: string;
}

/** A piece of a document with the number by which a reply names it. */
export interface NamedCitation extends Citation {
  number: number;
}

/** What the answer of a run has besides its reply. */
export interface RunAnswer {
  finish: string;
  reasoning: string;
  /** Calls that are the caller's to carry out. */
  calls: readonly { id: string; tool: string; input: unknown; inputText?: string }[];
  /** The passages of documents that the model was given. */
  citations: readonly NamedCitation[];
}

export interface ApiRun extends RunBase {
  kind: "api";
  spec: ApiSpec;
  /** What else the answer has. Set if the response can be read again. */
  answer?: RunAnswer;
}

export type RunRecord = HookRun | HeartbeatRun | ScheduleRun | MessageRun | ApiRun;
export type RunSpec = RunRecord["spec"];

type WithoutSpec<R> = R extends RunRecord ? Omit<R, "spec"> : never;
/** A run without what it was given. */
export type RunState = WithoutSpec<RunRecord>;

/** A run as it begins: nothing has become of it yet. */
export const newRun = <R extends RunRecord>(
  run: Pick<R, "id" | "kind" | "spec" | "createdAt"> & Partial<R>,
): R =>
  ({
    eventId: null,
    status: "queued",
    warnings: [],
    attempts: 0,
    restarts: 0,
    ...run,
  }) as RunRecord as R;

/** What a change of a run cannot change. */
type Fixed = "id" | "eventId" | "kind" | "createdAt";
type Nullable = "error" | "hold" | "queuedAt" | "endedAt" | "live";
type ChangeOf<R> = R extends RunRecord
  ? Partial<Omit<R, Fixed | Nullable>> & { [K in keyof R & Nullable]?: R[K] | null }
  : never;
/** What may change in a run; null takes a field away. */
export type RunChange<R extends RunRecord = RunRecord> = ChangeOf<R>;

/** A run as it was when it was read: a change that depends on that is made only if it still is so. */
export type ExpectedRun = Partial<Pick<RunRecord, "status" | "attempts">> & { edits: number };

/** How often the messages of a run were edited. */
export const getEdits = (run: RunState): number => (run.kind === "channel" ? (run.edits ?? 0) : 0);

/** A run as it is now, for a change that depends on it. */
export const toExpected = (run: RunRecord): ExpectedRun => ({
  status: run.status,
  attempts: run.attempts,
  edits: getEdits(run),
});

export const isAsExpected = (run: RunState, expected: ExpectedRun): boolean =>
  (expected.status ?? run.status) === run.status &&
  (expected.attempts ?? run.attempts) === run.attempts &&
  expected.edits === getEdits(run);

/** The model that a run asks for in place of its agent's. */
export const getOwnModel = ({ spec }: RunRecord): string | undefined =>
  "model" in spec ? spec.model : undefined;

/** The id of the job that a run is executed for: a decision wakes it. */
export const getJobId = ({ id, kind, spec }: Pick<RunRecord, "id" | "kind" | "spec">): string =>
  kind === "heartbeat" ? `heartbeat:${spec.session.agentId}` : id;
