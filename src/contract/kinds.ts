/** The types of everything that a plugin can offer besides channels. */
import type { z } from "zod";
import type { ProviderDescription } from "../config/providers.ts";
import type { Cursor, ServiceState } from "./channel.ts";

export type { ProviderDescription };

/** Passes events to the gateway. */
export interface Hooks {
  /** Sends an event to the hook `path`. With a 2xx it is on disk. Throws if no gateway answers. */
  hook(path: string, body: unknown): Promise<{ status: number; body: unknown }>;
}

/** A document at the place that a source reads. */
export interface SourceEntry {
  /** Names it at its place, such as a path. */
  id: string;
  filename: string;
  /** Changes with the content, such as a time and a size. If it has changed, the document is read. */
  version: string;
  /** Returns its bytes; "gone" if it is not there any more. What it throws is reported, and the version before stays. */
  read(signal: AbortSignal): Promise<Uint8Array | "gone">;
}

/** People and agents that may search the documents of a source. */
export interface SourceAudience {
  /** The tenant that they belong to. Default: the operator's. */
  tenant?: string | undefined;
  /** The agents that may search them. Default: all of the tenant. */
  agents?: readonly string[] | undefined;
}

/** Counts of the documents that a sync has added, replaced, removed and left as they are, and the ones that could not be read. */
export interface SyncReport {
  added: number;
  replaced: number;
  removed: number;
  unchanged: number;
  failed: { id: string; message: string }[];
  /** Documents that stay although the place is empty: it may be away, such as a disk that is not mounted. */
  kept: number;
}

/** Keeps documents as they are at a place outside. */
export interface SourceDocuments {
  /**
   * Makes the documents of `place` those of `entries`: changed ones are read, and those that are not listed are removed, but
   * not if the list is empty or throws.
   */
  sync(
    place: string,
    entries: Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
    options: SourceAudience & { signal: AbortSignal },
  ): Promise<SyncReport>;
}

/** The gateway, as a source sees it. With its cursor a source goes on where it stopped, on whichever gateway runs it next. */
export interface SourceHost extends Hooks, Cursor {
  documents: SourceDocuments;
  report(state: ServiceState): void;
}

/**
 * Pulls or receives events from outside. Runs in one process at a time. `start` resolves once `signal` has aborted and
 * everything is cleaned up; a source that ends earlier counts as failing and is started again, later each time.
 */
export interface Source {
  start(signal: AbortSignal, host: SourceHost): Promise<void>;
  /**
   * Answers requests to `/channels/<id>` and below, on every gateway, also on those where `start` does not run. The
   * gateway has not authenticated the sender: the plugin does.
   */
  request?(request: Request): Promise<Response>;
  /** Several gateways: another gateway has answered a request, which may be news for this one. */
  onPeerRequest?(): void;
}

/** Whose words a text is: the operator's, who is trusted, or someone else's, which goes inside the boundary. */
export type Provenance = "operator" | "outside";

/** One piece of text for the model. */
export interface Part {
  text: string;
  from: Provenance;
  /** The origin that the boundary names, such as `customer record`. One line. */
  label?: string;
}

/** Facts about the turn that a tool and a context provider may know. */
export interface TurnInfo {
  agentId: string;
  sessionKey: string;
  runId: string;
  kind: "hook" | "heartbeat" | "schedule" | "channel" | "api";
}

export interface ToolCallInfo extends TurnInfo {
  /** Stable over retries of the same call: pass it on as an idempotency key. */
  callId: string;
  signal: AbortSignal;
  /** The place of the call in its trace, by the names of the headers of W3C Trace Context: send them on to the services that the tool calls. */
  trace?: { traceparent: string; tracestate?: string };
}

/**
 * A tool that agents may use once their `tools` name it (`<plugin>.<tool>`). What it returns is outside text: it reaches the
 * model inside the boundary.
 */
export interface Tool<I extends z.ZodType = z.ZodType> {
  /** Letters, digits, `_` and `-`, at most 64. */
  name: string;
  /** The purpose of the tool, for the model. */
  description: string;
  /** Schema of the input; input that does not fit is answered with the issues, and `execute` is not called. */
  input: I;
  /** Changes nothing. */
  readOnly?: boolean;
  /** Several calls with the same `callId` have the effect of one. */
  idempotent?: boolean;
  /** May delete or overwrite. */
  destructive?: boolean;
  /** Runs alone: the other tools of the same step wait for it, and it for them. Default: they run at the same time. */
  exclusive?: boolean;
  /** Returns text, or a value that JSON can hold. An error's message is shown to the model, inside the boundary. */
  execute(input: z.output<I>, call: ToolCallInfo): unknown;
}

/** Adds text to a turn, before the new input. Called once a turn; a provider that throws or takes 10 s adds nothing but a warning. */
export type ContextProvider = (
  turn: TurnInfo & { question: string; signal: AbortSignal },
) => readonly Part[] | Promise<readonly Part[]>;

/**
 * A model of the `ai` package's provider interface (`LanguageModelV3` or later), as `createX(…)(modelId)` of each
 * `@ai-sdk/*` package returns it. Only its marks are named here, so that these types need no other package's.
 */
export interface LanguageModel {
  readonly specificationVersion: string;
  readonly provider: string;
  readonly modelId: string;
}

/** Settings of `models.providers.<name>` that every provider has. */
export interface ModelSettings {
  /** The name in the config. */
  name: string;
  baseUrl?: string;
  apiKey?: string;
  headers: Readonly<Record<string, string>>;
}

/** A request to a model, as far as the providers' common interface has no name for it. */
export interface RequestChoices {
  parallelToolCalls?: boolean;
  /** True if an answer in JSON has to fit its schema exactly. */
  strictJson?: boolean;
}

/** The price of a model, in US dollars for a million tokens. */
export interface ModelPrice {
  input: number;
  /** Input tokens that the provider had in its cache. Default: `input`. */
  cachedInput?: number;
  /** Input tokens that the provider wrote to its cache. Default: `input`. */
  cacheWrite?: number;
  output: number;
}

/** A kind of model provider: `models.providers.<name>.type` names it. */
export interface ModelProvider extends ProviderDescription {
  /** Problems of its settings, by field. */
  check?(
    settings: ModelSettings,
  ): readonly { field: "baseUrl" | "apiKey" | "headers"; message: string }[];
  /** Returns what makes a model of an id. Called once a snapshot, on first use: import large packages here. */
  create(
    settings: ModelSettings,
    options: { fetch: typeof fetch },
  ): Promise<(modelId: string) => LanguageModel>;
  /** Returns the `providerOptions` of the `ai` package for a request. */
  requestOptions?(
    choices: RequestChoices,
    settings: ModelSettings,
  ): Record<string, Record<string, string | boolean>>;
  /** Returns the `providerOptions` of the `ai` package for an image that the model is to read in a detail, such as `low`. */
  imageOptions?(detail: string): Record<string, Record<string, string>>;
  /** The `providerOptions` of the `ai` package that mark a message as the end of a prefix which the provider is to keep in its cache. Absent: it does so by itself, or not at all. At most three messages of a request are marked. */
  cacheMarker?: Record<string, Record<string, Record<string, string>>>;
  /** List prices by the ids of models, and the day from which they are (`2026-03-21`). `models.prices` of the config comes before them. */
  prices?: { asOf: string; models: Readonly<Record<string, ModelPrice>> };
  /** Its API takes images in the result of a tool. Otherwise they follow as a message of the user. */
  imagesInResults?: boolean;
  /** Its API takes letters, digits, `_` and `-` alone in the ids of calls, at most 64. Other ids, of other vendors' models, are replaced. */
  plainCallIds?: boolean;
}

/** Reads the text of a kind of document for knowledge. */
export interface Extractor {
  /** File name extensions without the dot. A document with one of them is read by this module, whatever its bytes are. */
  extensions: readonly string[];
  /** The media types of such documents; the first is what a document is listed as. */
  mediaTypes: readonly string[];
  /** The module that reads it, a file URL: it runs in a process of its own, with limits. Its default export is an `Extract`. */
  module: string;
}

/** Reads one document. Its process ends at the limits of `platform.knowledge`; what it throws makes the document fail as broken. */
export type Extract = (document: { bytes: Uint8Array; filename: string }) => Promise<{
  title?: string;
  blocks: Iterable<{ text: string; heading?: boolean; page?: number }>;
}>;

/** HTTP routes of a plugin, below `/plugins/<id>`. */
export interface Routes {
  /** Callers that are allowed: who has the operator's token, who has an API key, or anyone (the plugin authenticates). */
  auth: "operator" | "api" | "none";
  /** Answers a request; its path still begins with `/plugins/<id>`. A `Hono` app's `fetch` fits. */
  fetch(request: Request): Response | Promise<Response>;
}
