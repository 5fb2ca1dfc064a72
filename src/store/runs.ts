/** Runs: the input of each kind, the record that is kept, and the waits. */
import type { RunStatus } from "../vocabulary/outcomes.ts";
import type { Thinking, WakeMode } from "../config/schema/common.ts";
import type { WrittenDecision } from "../vocabulary/decision.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { RunErrorCode } from "../core/errors.ts";
import type { TextPart } from "../core/text.ts";
import type { JoinedTraces } from "../core/http/trace-context.ts";
import type { MessageSpan, UnreadContent } from "./attachments.ts";
import type { Ms, SessionRef, Usage } from "./records.ts";
import type {
  LiveMessage,
  MessageOrigin,
  ReplyTarget,
  Route,
  RouteDecision,
} from "./deliveries.ts";

/** The input of every run, checked and resolved when it was accepted. */
interface SpecBase {
  session: SessionRef;
  /** Its name in lists and summaries: one line. Outside text. */
  name: string;
  /** Its origin, as the boundary's trusted line names it: a hook path or id, a channel, a schedule, an API key. */
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
  /** The notes of the mapping's code about the collected events, for the operator. They may quote the events. */
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
  /** The decision about a tool call (`decide`) or about a person (`pair`), as it was written. */
  | { name: "decide" | "pair"; decision: WrittenDecision };

/** The run of a channel's message. */
export interface MessageSpec extends SpecBase {
  channel: string;
  to: string;
  incoming: MessageOrigin;
  unread?: UnreadContent;
  /** The messages that the turn answers, if the input holds more than the one message of `incoming`. */
  parts?: readonly MessageSpan[];
  command?: MessageCommand;
}

/** The turn of an API user. */
export interface ApiSpec extends SpecBase {
  instructions?: string;
  thinking?: Thinking;
  /** The fields of a request for a response that the response repeats. Set if the response can be read again. */
  response?: Readonly<Record<string, unknown>>;
}

export const ENDED: readonly RunStatus[] = ["succeeded", "failed", "timed_out", "cancelled"];

/** A model provider's own error, without credentials and without quotations of the prompt. */
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

/** A limit without room, whose it is (`hooks`, `mapping:<id>`, `preset:<name>`), and until when if that is known. */
export interface LimitReason {
  scope: string;
  limit: "runsPerHour" | "concurrent" | "tokensPerDay" | "budget.perDay";
  until?: number;
}

/** The reason that a run does not start. `until`: when it starts at the latest, or when the gateway looks again; milliseconds since the epoch. */
export type HoldReason =
  | ({ reason: "limit" } & LimitReason)
  /** Its models are away. `of`: the provider and model that is tested next, such as `openai/gpt-5`. */
  | { reason: "away"; of: string; until: number }
  /** People have to decide about calls; `until` is when the first of the approvals expires. */
  | { reason: "person"; approvalIds: readonly string[]; until: number }
  /** Further events may join its batch. */
  | { reason: "batch"; until: number }
  /** The wait before another try. */
  | { reason: "delay"; until: number };

/**
 * The wait of a run. It is written by the commit that puts the run back, and is over when the run starts. `reason` comes
 * first: PostgreSQL looks for it in the text of the record.
 */
export type Hold = HoldReason & { since: number };

/** The reason that a run waits. `until`: when the wait is over at the latest, or is checked again. */
export type WaitReason = { since?: number } & (
  | HoldReason
  /** The run of its session that goes first; `heartbeat:<agent>` for a heartbeat that has not called a tool. */
  | { reason: "session"; head: string }
  /** It is ready: all workers are busy, or no gateway has workers. */
  | { reason: "worker" }
);

/** A wait of a run that is over. `queue`: it was ready, and waited for a free worker or for a run of its session that went first. */
export type PastWait = (Hold | { reason: "queue"; since: number }) & { until: number };

/** The waits of a run. */
export interface RunWaits {
  hold?: Hold;
  /** Since when it is ready, if that is not since it was made. */
  queuedAt?: number;
  /** Time in which it waited for people and limits, in milliseconds: `runs.maxAge` does not count it. */
  waitedMs?: number;
  /** Its waits that are over, oldest first: the newest 20. */
  waits?: PastWait[];
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
  /** Progress when the last attempt began. A restart with more progress does not count as a crash loop. */
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
  /** The number of edits that replaced the text of its messages. */
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

/** The parts of a run's answer besides its reply. */
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
  /** The parts of the answer besides the reply. Set if the response can be read again. */
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

/** The fields of a run that never change. */
type Fixed = "id" | "eventId" | "kind" | "createdAt";
type Nullable = "error" | "hold" | "queuedAt" | "endedAt" | "live";
type ChangeOf<R> = R extends RunRecord
  ? Partial<Omit<R, Fixed | Nullable>> & { [K in keyof R & Nullable]?: R[K] | null }
  : never;
/** The fields of a run that may change; null takes a field away. */
export type RunChange<R extends RunRecord = RunRecord> = ChangeOf<R>;

/** A run as it was when it was read: a change that depends on that is made only if it still is so. */
export type ExpectedRun = Partial<Pick<RunRecord, "status" | "attempts">> & { edits: number };

/** The number of edits of a run's messages. */
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
