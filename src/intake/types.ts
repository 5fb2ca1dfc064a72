import type { Readable } from "node:stream";
import type { ActionContext } from "../turns/types.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { Failure, Issue } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import type { QueryValues } from "../core/http/payload.ts";
import type { Applicant } from "../queue/types.ts";
import type { MappingInput, MappingSet, Nearest, PathRules } from "../mapping/types.ts";
import type { Offers } from "../contract/offers.ts";
import type { HandshakeAnswer } from "./signatures/handshake.ts";
import type { Duplicate, Verifier } from "./signatures/types.ts";
import type {
  DecidingConfig,
  EventOutcome,
  FencingToken,
  Ms,
  HookAction,
  ShadowAction,
  StoredReceipt,
} from "../store/types.ts";
import type { BudgetedAllowance } from "./body-budget.ts";

/** Config, mappings and plugins, frozen. Created at start and at each reload; a request reads nothing else. */
export interface Snapshot extends ActionContext {
  /** SHA-256 of the config, the mapping files and the transform modules. */
  readonly hash: string;
  /** The same on every machine with the same settings and files: without addresses, ports and folders. */
  readonly clusterHash: string;
  readonly configFile: string | undefined;
  /** The shell's expression for the hook token; undefined if the config has it as plain text. */
  readonly hookTokenInShell: string | undefined;
  /** The config by which events are decided, to be kept with them; undefined if a file of it was gone. */
  readonly decidingConfig: DecidingConfig | undefined;
  /** Texts that stand in for the config file and mapping files. Undefined in a gateway. */
  readonly texts?: FileTexts | undefined;
  readonly mappings: MappingSet;
  /** By path, for those whose callers sign. */
  readonly verifiers: ReadonlyMap<string, Verifier>;
  readonly plugins: readonly {
    id: string;
    origin: string;
    channel: boolean;
    configured: boolean;
  }[];
  /** The offers of plugins, without channels. */
  readonly offers: Offers;
  /** Warnings, each with the path of its field. */
  readonly warnings: readonly Issue[];
}

type Values = Record<string, string>;

/** The source of a body's bytes. A stream is not read before its request is authenticated or its budget is granted. */
export type BodySource = Readable | ReadableStream<Uint8Array> | Uint8Array | null;

/** A hook as it comes in, not yet checked. */
export interface RawInput {
  method: string;
  /** Path below the hooks' base, without slashes at its ends: `alerts`. */
  path: string;
  query: QueryValues;
  /** Lower-case names; several values joined by `, `. */
  headers: Values;
  body: BodySource;
  /** The address that the sender called, its path and query as they were written: signatures may cover it. */
  url?: { origin: string; target: string };
}

/** The origin of an event. Only HTTP callers must authenticate: other origins are authenticated elsewhere. */
export type Origin =
  /** `share` names the share of the budget for unauthenticated bodies that the body counts against. Undefined: none. */
  | { kind: "http"; address: string; share?(): string | undefined }
  /** A plugin's service. The event is kept only while this gateway holds the lease of `fencingToken`. */
  | { kind: "source"; plugin: string; fencingToken?: FencingToken | undefined }
  /** An event that was recorded before, with its body as bytes: its id, credential and address. */
  | { kind: "replay"; of: string; credential: string; address?: string | undefined; edited?: true }
  /** Code of this process: tests, and programs that embed the gateway. */
  | { kind: "internal" };

/** Facts that a transport adds to the answer. */
export interface DenialHints {
  /** The methods that the path takes. */
  methods?: readonly string[];
  /** The body was not read to its end: what is left of it stands before the next request. */
  bodyUnread?: true;
  /** The token came as a query parameter, which is deprecated. */
  tokenInQuery?: true;
}

/** The recorded outcome of one event. */
export interface IntakeReceipt extends Omit<StoredReceipt, "outcome"> {
  kind: "receipt";
  eventId: string;
  outcome: EventOutcome;
  mapping?: string;
  /** The mapping that came closest, if none matched. */
  nearest?: Nearest;
  /** The reason that the event was rejected or failed. */
  error?: Failure;
  /** True if a failed event is answered with success, since its sender disables hooks that answer with errors. */
  acknowledged?: true;
  /** The earlier event with the same key and its answer, if this event is a repeat. */
  repeats?: { eventId: string; receipt?: StoredReceipt };
  hints?: DenialHints;
}

/** A request that authentication, a limit or a failure of the gateway stopped. It is not recorded as an event. */
export interface DeniedRequest {
  kind: "denied";
  /** Names it in the log and in the answer. */
  requestId: string;
  error: Failure;
  hints?: DenialHints;
}

/** The answer to a sender's handshake, which verifies the address of the hook. */
export interface HandshakeReply {
  kind: "handshake";
  answer: HandshakeAnswer;
}

export type Received = IntakeReceipt | DeniedRequest | HandshakeReply;

/** An invalid hook. It is recorded as rejected. */
export interface Rejected {
  kind: "rejected";
  error: Failure;
}

/** The result that ends the processing of a hook. Undefined: the next stage follows. */
export type StageResult = Received | Rejected | undefined;

/** A hook in processing: the input and the results of the stages so far. */
export interface ReceivedHook {
  readonly id: string;
  readonly now: Ms;
  readonly path: string;
  readonly input: RawInput;
  readonly origin: Origin;
  readonly address: string;
  readonly snapshot: Snapshot;
  readonly rules: PathRules | undefined;
  /** Set if the hook has to show a signature. */
  readonly verifier: Verifier | undefined;
  /** The headers and parameters that the path keeps, none with a credential: only these are stored, matched and rendered. */
  readonly kept: { headers: Values; query: QueryValues };
  /** The name of the configured credential, never its value: `hooks.token`, `path:alerts`. */
  credential: string;
  byHookToken: boolean;
  bytes: Buffer;
  /** The bytes without their content encoding, if the signature's check needed them. */
  content?: Buffer;
  /** The body's share of the budget, until its signature is checked. */
  allowance?: BudgetedAllowance;
  /** The key that identifies a repeat, if the sender has signed it. */
  signedKey?: Duplicate;
  payload: unknown;
  /** Warnings about parts of the body that are not in the payload. */
  warnings?: readonly string[];
  eventKey?: EventKey;
  resolution?: Resolution;
  /** The notes of the mappings' code. Stored with the event and never sent to a caller. */
  debug?: EventDebug;
  hints?: DenialHints;
}

/** The event's key. A repeat with the same key gets the answer of the first event. */
export type EventKey = { scope: string } & (
  | Duplicate
  /** The caller chose the key: another body under it is a conflict. */
  | { by: "caller"; key: string; bodyHash: string }
);

/** A received hook: `credential` is the name of the configured one, absent if a change is tried on a body. */
export interface ParsedHook extends MappingInput {
  credential: string | undefined;
}

/** One action of an event. */
export interface ValidItem extends Pick<Applicant, "batch"> {
  ok: true;
  action: HookAction;
  /** Template expressions that found nothing. */
  missing: string[];
  /** Repeats with the same key are not done again. */
  key?: { scope: string; key: string };
}

/** One action of an event, or the reason that this item has none. */
export type Item = ValidItem | { ok: false; failure: Failure; mapping?: string };

/** The result of the path and body of a hook, before it is stored. */
export type Resolution =
  | {
      kind: "work";
      list: boolean;
      items: Item[];
      mapping?: string;
      /** Fields that `wake` and `agent` do not know. A mapping's warnings belong to its actions. */
      warnings?: string[];
      /** The actions that mappings in shadow would have made. */
      would?: ShadowAction[];
    }
  /** `shadow`: no other mapping matched. */
  | {
      kind: "skipped";
      mapping: string;
      reason: string;
      would?: ShadowAction[];
      shadow?: true;
      echo?: true;
      nearest?: Nearest;
    }
  /** No mapping of the path matched: not an error to the sender. */
  | { kind: "unmatched"; reason: string; nearest?: Nearest }
  | {
      kind: "refused";
      outcome: Extract<EventOutcome, "unmatched" | "rejected" | "failed">;
      failure: Failure;
      mapping?: string;
      missing?: string[];
      would?: ShadowAction[];
      /** The sender disables hooks that answer with errors: it is answered 200, and the event is kept for a replay. */
      acknowledged?: true;
    };

/** A secret that a request brought to a path whose secret is still `pending`. It has no effect until the operator accepts it. */
export interface SecretCandidate {
  /** Identifies the candidate on its path. Never reused. */
  id: number;
  address: string;
  /** When it was last received, in milliseconds since the epoch. */
  at: number;
  secret: string;
}

export interface SignatureState {
  path: string;
  /** `secret` counts from 0; `at` is in milliseconds since the epoch. */
  last: { secret: number; of: number; at: number } | undefined;
  /** Secrets that requests brought while that of the path is `pending`, oldest first. */
  candidates: readonly SecretCandidate[];
}

/** A request that was denied: kept in memory only, the last 1,000. */
export interface Denial {
  at: number;
  address: string;
  path: string;
  reason: string;
  /** True if the credential was right and the reason is another one, such as a rate limit. */
  authenticated: boolean;
}

export interface ReplayOptions {
  /** Only this action of the event, by its number from 1. Default: all. */
  action?: number | undefined;
  /** The body to take in place of the recorded one. */
  body?: Uint8Array | undefined;
  /** Only say what the replay would do: nothing is stored and nothing is started. */
  dryRun: boolean;
}

/** The result of a replay, or the one that it would have. */
export interface ReplayResult {
  eventId: string;
  /** The new event; absent if it was only asked what a replay would do. */
  newEventId?: string;
  outcome: EventOutcome;
  reason?: string;
  mapping?: string;
  actions: { kind: "run" | "wake"; id?: string; mapping?: string; summary: string }[];
}
