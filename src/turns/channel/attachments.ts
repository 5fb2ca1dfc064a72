import { readFile, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import type { Transcribe } from "../../agent/transcribe.ts";
import type { InputImage } from "../../agent/types.ts";
import type { Config } from "../../config/schema/index.ts";
import type { Attachment, Channel } from "../../contract/channel.ts";
import { backOff, WAITS } from "../../core/backoff.ts";
import type { Clock } from "../../core/clock.ts";
import { safeError } from "../../core/errors.ts";
import { hasUsableSize, readImageInfo } from "../../core/image-info.ts";
import { cutText, type TextPart, plural } from "../../core/text.ts";
import { renderAttachment } from "./channel-input.ts";

/** A file on disk, while it is read. */
interface FetchedCopy {
  file: string;
  sha256: string;
}

/** A document to read, and how much of it. */
interface WantedText extends FetchedCopy {
  filename: string;
  limits: { pages: number; unzipRatio: number; textChars: number };
  text: "cut";
}

/** The means to read the files of messages. */
export interface AttachmentDeps {
  clock: Pick<Clock, "sleep">;
  /** Writes a stream into a file of its own. @throws RouseError `body_too_large` past `maxBytes`. */
  stageUpload(source: Readable, maxBytes: number): Promise<FetchedCopy>;
  /** Reads documents in a process of their own. */
  readText(
    wanted: WantedText,
    signal: AbortSignal,
  ): Promise<{ ok: true; text: string } | { ok: false; error: { message: string } }>;
  /** Absent if the config sets up nothing that transcribes. */
  transcriber(): Transcribe | undefined;
  /** True if the run may be tried again for a file that cannot be read now. Then a note does not take its place yet. */
  mayWait?: boolean;
}

/** The content of a message's files. */
export interface ReadAttachments {
  /** Texts, and notes about files without one. */
  parts: TextPart[];
  images: InputImage[];
  /** The files that have to be fetched again for another attempt: only their bytes are given to the model. */
  kept: Attachment[];
}

/** Thrown if a file cannot be read now and may be later, where the run can be tried again. The message quotes nothing. */
export class NotNowError extends Error {}

type Found = { text: string } | { note: string } | { image: Omit<InputImage, "label"> };

const TRIES = 4;
/** The files of one message that are read; the rest is only named. */
const MAX_FILES = 8;
const MAX_IMAGE_BYTES = 8_000_000;
/** Pages, slides or sheets of one document. */
const MAX_PAGES = 200;
/** Characters of text that one file adds to the message. */
const MAX_CHARS = 60_000;
const NO_TRANSCRIBER = "its words are not known, because `transcription` is not set";

/** The types of the web's streams differ between Node and browsers, and the console reads the types of this file. */
const toReadable = (body: unknown): Readable =>
  Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]);

const outside = (text: string): TextPart => ({ text: `${text}\n`, outside: true, origin: "files" });

/** Thrown with a sentence for the model: the file has more bytes than allowed, is gone, or does not come. */
class NotFetchedError extends Error {}

/** Fetches a file into the staging folder: several times, if its vendor may have it later. @throws NotFetchedError */
async function fetchStaged(
  attachment: Attachment,
  channel: Channel,
  {
    stageUpload,
    clock,
    maxBytes,
    signal,
  }: Pick<AttachmentDeps, "stageUpload" | "clock"> & { maxBytes: number; signal: AbortSignal },
): Promise<FetchedCopy> {
  const tooLarge = `it has more than ${maxBytes} bytes`;
  if ((attachment.bytes ?? 0) > maxBytes) throw new NotFetchedError(tooLarge);
  let reason = "it could not be fetched in time";
  for (let attempt = 1; attempt <= TRIES && !signal.aborted; attempt++) {
    let afterMs = backOff(attempt, WAITS.file);
    try {
      const fetched = await channel.fetchFile?.(attachment, signal);
      if (fetched?.status === "found") return await stageUpload(toReadable(fetched.body), maxBytes);
      reason = fetched?.reason ?? "this channel fetches no files";
      if (fetched?.status !== "retry") break;
      afterMs = Math.max(afterMs, fetched.afterMs ?? 0);
    } catch (error) {
      if (safeError(error).code === "body_too_large") throw new NotFetchedError(tooLarge);
      if (!signal.aborted) reason = "the connection ended while it was fetched";
    }
    if (attempt < TRIES) await clock.sleep(afterMs, signal);
  }
  throw new NotFetchedError(`it could not be fetched: ${reason}`);
}

async function readImage(staged: FetchedCopy): Promise<Found> {
  const data = await readFile(staged.file);
  const seen = readImageInfo(data);
  if (!seen) return { note: "it is no PNG, JPEG, GIF or WebP image" };
  return hasUsableSize(seen)
    ? { image: { mediaType: seen.mediaType, data } }
    : { note: "it has too many pixels" };
}

/** Reads one file that is on disk. */
async function readStaged(
  { kind, name, mime }: Attachment,
  staged: FetchedCopy,
  { platform }: Pick<Config, "platform">,
  {
    readText,
    transcribe,
    mayWait,
    signal,
  }: Pick<AttachmentDeps, "readText" | "mayWait"> & {
    transcribe: Transcribe | undefined;
    signal: AbortSignal;
  },
): Promise<Found> {
  if (kind === "image") return readImage(staged);
  if (kind === "audio") {
    const found = await transcribe?.({ file: staged.file, name, mime }, signal);
    if (mayWait && found?.ok === false && found.isPassing) throw new NotNowError(found.reason);
    if (!found?.ok) return { note: `its words are not known: ${found?.reason ?? NO_TRANSCRIBER}` };
    const { text, cut } = cutText(found.text, MAX_CHARS);
    return {
      text: text === "" ? "[no words]" : `${text}${cut > 0 ? `[cut: ${cut} characters]` : ""}`,
    };
  }
  const { unzipRatio } = platform.knowledge;
  const limits = { pages: MAX_PAGES, unzipRatio, textChars: MAX_CHARS };
  const { file, sha256 } = staged;
  const read = await readText({ file, sha256, filename: name ?? "", limits, text: "cut" }, signal);
  return read.ok ? { text: read.text } : { note: `it cannot be read: ${read.error.message}` };
}

/** Fetches and reads one file. What was fetched is deleted, however that ends. */
async function readOne(
  attachment: Attachment,
  channel: Channel,
  config: Config,
  deps: AttachmentDeps,
  signal: AbortSignal,
): Promise<Found> {
  const { kind } = attachment;
  const transcribe = deps.transcriber();
  if (kind === "video") return { note: "videos are not read" };
  if (kind === "audio" && !transcribe) return { note: NO_TRANSCRIBER };
  const { maxBytes, timeout } = config.attachments;
  const most = kind === "image" ? Math.min(maxBytes, MAX_IMAGE_BYTES) : maxBytes;
  let staged: FetchedCopy | undefined;
  try {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeout)]);
    staged = await fetchStaged(attachment, channel, { ...deps, maxBytes: most, signal: limited });
    return await readStaged(attachment, staged, config, { ...deps, transcribe, signal });
  } catch (error) {
    if (error instanceof NotFetchedError) return { note: error.message };
    throw error;
  } finally {
    if (staged) await rm(staged.file, { force: true });
  }
}

/** Reads the files of a message, one after the other. The model gets a note about each file that cannot be read. */
export async function readAttachments(
  attachments: readonly Attachment[],
  { channel, config }: { channel: Channel; config: Config },
  deps: AttachmentDeps,
  signal: AbortSignal,
): Promise<ReadAttachments> {
  const read: ReadAttachments = { parts: [], images: [], kept: [] };
  for (const attachment of attachments.slice(0, MAX_FILES)) {
    const found = await readOne(attachment, channel, config, deps, signal);
    const label = renderAttachment(attachment);
    if ("note" in found) read.parts.push(outside(renderAttachment(attachment, found.note)));
    else if ("text" in found) read.parts.push(outside(`What ${label} says:\n${found.text}`));
    else {
      read.images.push({ label, ...found.image });
      read.kept.push(attachment);
    }
  }
  const left = attachments.length - MAX_FILES;
  if (left > 0)
    read.parts.push(
      outside(
        `[${plural(left, "more file is", "more files are")} not read: ${MAX_FILES} files of a message are]`,
      ),
    );
  return read;
}
