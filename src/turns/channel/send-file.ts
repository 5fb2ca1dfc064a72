import { readFile, rm } from "node:fs/promises";
import { z } from "zod";
import type { TurnExtension } from "../../agent/types.ts";
import type { Tool } from "../../contract/kinds.ts";
import { OWN_SOURCE, SEND_FILE_TOOL, SEND_FILE_TOOL_NAME } from "../../vocabulary/tool-names.ts";
import { FORGOTTEN, cutText, oneLine } from "../../core/text.ts";
import { readAttached, toStagedId, type AttachedFile } from "../../delivery/plan.ts";
import type { Job, RunRecord, StepRecord, Store, ToolCallRecord } from "../../store/types.ts";
import { fetchStaged, type AttachmentDeps } from "./attachments.ts";
import { listSessionRuns } from "./session-runs.ts";
import type { ActionContext } from "../types.ts";
import { readImageInfo } from "../../core/image-info.ts";

const MAX_NAME = 100;
/** Characters that no system lets stand in a name, and those that turn the direction of what follows. */
// oxlint-disable-next-line no-misleading-character-class -- single characters are what is looked for
const UNSAFE = /[<>:"/\\|?*\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** The first bytes of files, by which their types are known. */
const HEADS: readonly (readonly [head: string, at: number, mediaType: string])[] = [
  ["%PDF-", 0, "application/pdf"],
  ["PK\x03\x04", 0, "application/zip"],
  ["\x1f\x8b", 0, "application/gzip"],
  ["OggS", 0, "audio/ogg"],
  ["ID3", 0, "audio/mpeg"],
  ["fLaC", 0, "audio/flac"],
  ["WAVE", 8, "audio/wav"],
  ["ftyp", 4, "video/mp4"],
  ["\x1aE\xdf\xa3", 0, "video/webm"],
];
/** Types that only the ending of a name tells apart: those of text, and of packed documents. */
const TEXTS: Readonly<Record<string, string>> = {
  csv: "text/csv",
  md: "text/markdown",
  json: "application/json",
  ics: "text/calendar",
};
const OFFICE = "application/vnd.openxmlformats-officedocument.";
const PACKED: Readonly<Record<string, string>> = {
  docx: `${OFFICE}wordprocessingml.document`,
  xlsx: `${OFFICE}spreadsheetml.sheet`,
  pptx: `${OFFICE}presentationml.presentation`,
};
/** Endings that are added to a name without one. */
const ENDINGS: Readonly<Record<string, string>> = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/gif": "gif",
  "image/webp": "webp",
  "application/pdf": "pdf",
  "audio/ogg": "ogg",
  "audio/mpeg": "mp3",
  "text/plain": "txt",
};

function isText(data: Uint8Array): boolean {
  if (data.includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(data);
    return true;
  } catch {
    return false;
  }
}

const getEnding = (name: string): string | undefined =>
  /\.([a-z0-9]{1,8})$/i.exec(name)?.[1]?.toLowerCase();

/** Finds the type of a file by its bytes; the ending of its name decides only between forms of the same kind. */
function sniffType(data: Buffer, name: string): string {
  const image = readImageInfo(data)?.mediaType;
  if (image !== undefined) return image;
  const ending = getEnding(name) ?? "";
  const head = data.toString("latin1", 0, 16);
  const found = HEADS.find(([bytes, at]) => head.startsWith(bytes, at))?.[2];
  if (found === "application/zip") return PACKED[ending] ?? found;
  return found ?? (isText(data) ? (TEXTS[ending] ?? "text/plain") : "application/octet-stream");
}

/** Makes a name safe for every system: the last part of a path, in one line, with an ending that fits an image. */
function toSafeName(given: string, mediaType: string): string {
  const last = given.split(/[/\\]/).at(-1) ?? "";
  const clean = oneLine(last.replace(UNSAFE, " ")).replace(/^[. ]+|[. ]+$/g, "");
  const ending = getEnding(clean);
  const fitting = ENDINGS[mediaType];
  const isMisnamed =
    mediaType.startsWith("image/") &&
    ending !== fitting &&
    !(ending === "jpeg" && fitting === "jpg");
  const stem =
    cutText(
      ending === undefined ? clean : clean.slice(0, -ending.length - 1),
      MAX_NAME - 10,
    ).text.trim() || "file";
  const shown = fitting !== undefined && (ending === undefined || isMisnamed) ? fitting : ending;
  return shown === undefined ? stem : `${stem}.${shown}`;
}

const INPUT = z.strictObject({
  name: z.string().min(1).max(200).describe("The name of the file, with its ending."),
  text: z.string().optional().describe("The content of a text file."),
  result: z
    .string()
    .optional()
    .describe(
      "A result of a tool: the id that a cut result names, or the tool's name for its newest result in this conversation.",
    ),
  received: z
    .string()
    .optional()
    .describe(
      "The name of a file that somebody sent in this conversation, or `last` for the newest such file.",
    ),
});
const DESCRIPTION =
  "Attaches a file to your reply, which goes where your reply goes. Give exactly one of `text`, `result` and `received`. The file is sent after your text.";
/** The files of one reply, and the bytes of one file. */
const MAX_SENT_FILES = 5;
const MAX_SENT_BYTES = 5_000_000;
/** Runs of the conversation in which results and files are looked for. */
const MAX_RUNS = 50;

interface SendFileDeps {
  store: Store;
  clock: AttachmentDeps["clock"];
  attachments?: AttachmentDeps;
}

interface SendingRun {
  run: RunRecord;
  steps: readonly StepRecord[];
  context: Pick<ActionContext, "channels" | "config">;
  job?: Job;
}

/** A file before it is checked, or why there is none. */
type Found = { data: Buffer; name?: string | undefined } | { problem: string };

/** Lists the runs of the same conversation, newest first, without this one. */
async function listEarlier(
  { id, spec }: RunRecord,
  store: SendFileDeps["store"],
): Promise<RunRecord[]> {
  const runs = await listSessionRuns(spec.session, { limit: MAX_RUNS }, store);
  return runs.filter((one) => one.id !== id);
}

async function readCall(call: ToolCallRecord, store: SendFileDeps["store"]): Promise<Found> {
  const parts = call.output?.parts ?? [];
  const file = parts.find((part) => part.type === "file");
  if (file) return { data: Buffer.from(file.data, "base64"), name: file.filename };
  const whole = call.stored ? (await store.toolResults.get(call.stored.id))?.text : undefined;
  const text = whole ?? parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n");
  return text === FORGOTTEN
    ? { problem: "The result is no longer kept: call the tool again." }
    : { data: Buffer.from(text) };
}

async function findResult(
  wanted: string,
  { run, steps }: SendingRun,
  { store }: SendFileDeps,
): Promise<Found> {
  const isIt = ({ id, name, tool, output }: ToolCallRecord): boolean =>
    output !== undefined &&
    output.isError !== true &&
    tool !== SEND_FILE_TOOL_NAME &&
    [id, name, tool].includes(wanted);
  const own = steps.flatMap(({ calls }) => calls).findLast(isIt);
  if (own) return readCall(own, store);
  for (const { id } of await listEarlier(run, store)) {
    const call = (await store.steps.list(id)).flatMap(({ calls }) => calls).findLast(isIt);
    if (call) return readCall(call, store);
  }
  return { problem: "There is no such result in this conversation." };
}

async function findReceived(
  wanted: string,
  { run, context }: SendingRun,
  { store, clock, attachments }: SendFileDeps,
  signal: AbortSignal,
): Promise<Found> {
  const id = run.kind === "channel" ? run.spec.channel : undefined;
  const channel = id === undefined ? undefined : context.channels.get(id)?.channel;
  if (!channel || !attachments) return { problem: "No files are received in this conversation." };
  const all = [run, ...(await listEarlier(run, store))].flatMap(({ kind, spec }) =>
    kind === "channel" && spec.channel === id ? (spec.received ?? []) : [],
  );
  const file = wanted === "last" ? all[0] : all.find(({ name }) => name === wanted);
  if (!file) return { problem: "There is no received file of this name in this conversation." };
  try {
    const limited = AbortSignal.any([
      signal,
      AbortSignal.timeout(context.config.attachments.timeout),
    ]);
    const staged = await fetchStaged(file, channel, {
      ...attachments,
      clock,
      maxBytes: MAX_SENT_BYTES,
      signal: limited,
    });
    try {
      return { data: await readFile(staged.file), name: file.name };
    } finally {
      await rm(staged.file, { force: true });
    }
  } catch {
    return {
      problem: `The file could not be fetched again, or has more than ${MAX_SENT_BYTES} bytes.`,
    };
  }
}

/**
 * Creates the tool by which an agent attaches files to its reply. It cannot choose the recipient: the file goes where the run's
 * reply goes. A file is in the store before the call is answered, and goes into the delivery with the commit that ends the run.
 */
export function createSendFile(current: SendingRun, deps: SendFileDeps): TurnExtension {
  const { run, job } = current;
  const find = async (
    { text, result, received }: z.infer<typeof INPUT>,
    signal: AbortSignal,
  ): Promise<Found> => {
    if ([text, result, received].filter((one) => one !== undefined).length !== 1)
      return { problem: "Give exactly one of `text`, `result` and `received`." };
    if (text !== undefined) return { data: Buffer.from(text) };
    return result === undefined
      ? findReceived(received ?? "", current, deps, signal)
      : findResult(result, current, deps);
  };
  const tool: Tool<typeof INPUT> = {
    name: SEND_FILE_TOOL,
    description: DESCRIPTION,
    input: INPUT,
    idempotent: true,
    // One after the other, so that the files can be counted.
    exclusive: true,
    async execute(input, { callId, signal }) {
      const id = toStagedId(callId);
      if (await deps.store.toolResults.get(id)) return "The file is attached.";
      const attached = await readAttached(run, current.steps, deps.store);
      if (attached.length >= MAX_SENT_FILES)
        return `No file was attached: a reply may have ${MAX_SENT_FILES}.`;
      const found = await find(input, signal);
      if ("problem" in found) return `No file was attached. ${found.problem}`;
      const { data } = found;
      if (data.length === 0) return "No file was attached: it has no content.";
      if (data.length > MAX_SENT_BYTES)
        return `No file was attached: it has ${data.length} bytes, and ${MAX_SENT_BYTES} are allowed.`;
      const mediaType = sniffType(data, input.name);
      const name = toSafeName(input.name, mediaType);
      const file: AttachedFile = {
        name,
        mediaType,
        bytes: data.length,
        content: data.toString("base64"),
      };
      const held = await deps.store.commit(
        (tx) => tx.toolResults.add({ id, runId: run.id, text: JSON.stringify(file) }),
        job,
      );
      return held
        ? `The file ${name} (${mediaType}, ${data.length} bytes) is attached to your reply.`
        : "No file was attached: the run is another gateway's by now.";
    },
  };
  return { id: OWN_SOURCE, tools: [tool], warning: "" };
}
