import { openAsBlob } from "node:fs";
import { findEndpoint, findEndpointIssues } from "../config/endpoints.ts";
import type { Config } from "../config/schema/index.ts";
import type { ProviderDescription } from "../contract/kinds.ts";
import type { Issue } from "../core/errors.ts";

const REQUEST_MS = 120_000;
/** The longest answer that is read. */
const MAX_ANSWER = 1_000_000;
/** The endings by which endpoints know a format, where a file has no name and its type says something else. */
const ENDINGS: Readonly<Record<string, string>> = {
  mpeg: "mp3",
  mp4: "m4a",
  "x-m4a": "m4a",
  aac: "m4a",
  "x-wav": "wav",
};

/** Checks that what transcribes is a provider that can. */
export const transcriptionIssues = (
  config: Config,
  kinds: readonly ProviderDescription[],
): Issue[] =>
  config.transcription
    ? findEndpointIssues("transcription.provider", config.transcription.provider, config, kinds)
    : [];

/** A file on disk. */
export interface AudioFile {
  file: string;
  name?: string | undefined;
  mime?: string | undefined;
}

/** The words of a recording, or why there are none. `isPassing`: a later try may succeed. */
export type Transcript =
  | { ok: true; text: string }
  | { ok: false; reason: string; isPassing: boolean };

/** Transcribes a recording. Never throws. */
export type Transcribe = (audio: AudioFile, signal: AbortSignal) => Promise<Transcript>;

export interface TranscriberOptions {
  config: Config;
  env: Record<string, string | undefined>;
  fetch: typeof fetch;
  kinds: readonly ProviderDescription[];
}

/** The name under which a recording is posted: the endpoint knows the format by its ending. */
function getFilename({ name, mime = "" }: AudioFile): string {
  const type = /^audio\/([\w-]+)/.exec(mime)?.[1] ?? "ogg";
  const ending = /\.([a-z0-9]{2,5})$/i.exec(name ?? "")?.[1]?.toLowerCase();
  const known = ending ?? ENDINGS[type] ?? type;
  // Endpoints do not know the endings of Opus in Ogg.
  return `audio.${known === "oga" || known === "opus" ? "ogg" : known}`;
}

/** Creates what transcribes by `POST /audio/transcriptions` of the provider that `transcription` names; undefined if it is not set. */
export function configuredTranscriber({
  config,
  env,
  fetch,
  kinds,
}: TranscriberOptions): Transcribe | undefined {
  const { transcription } = config;
  const endpoint = transcription && findEndpoint(transcription.provider, { config, env, kinds });
  if (!endpoint) return undefined;
  const { baseUrl, apiKey, headers } = endpoint;
  const url = `${baseUrl.replace(/\/+$/, "")}/audio/transcriptions`;
  return async (audio, signal) => {
    const form = new FormData();
    form.append(
      "file",
      await openAsBlob(audio.file, audio.mime === undefined ? {} : { type: audio.mime }),
      getFilename(audio),
    );
    form.append("model", transcription.model);
    form.append("response_format", "json");
    if (transcription.language !== undefined) form.append("language", transcription.language);
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }), ...headers },
        body: form,
        redirect: "manual",
        signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]),
      });
      const { status } = response;
      if (!response.ok) {
        await response.body?.cancel();
        const isPassing = status === 408 || status === 429 || status >= 500;
        return { ok: false, reason: `the transcription endpoint answered ${status}`, isPassing };
      }
      const { text } = JSON.parse((await response.text()).slice(0, MAX_ANSWER)) as {
        text?: unknown;
      };
      if (typeof text === "string") return { ok: true, text: text.trim() };
      return { ok: false, reason: "the transcription endpoint gave no text", isPassing: false };
    } catch (error) {
      const isPassing = !(error instanceof SyntaxError);
      return { ok: false, reason: "the transcription endpoint gave no usable answer", isPassing };
    }
  };
}
