import { z } from "zod";
import type { TurnExtension } from "../../agent/types.ts";
import type { Tool } from "../../contract/kinds.ts";
import { OWN_SOURCE, SEND_FILE_TOOL, SEND_FILE_TOOL_NAME } from "../../vocabulary/tool-names.ts";
import { FORGOTTEN, cutText, oneLine } from "../../core/text.ts";
import { readAttached, toStagedId, type AttachedFile } from "../../delivery/plan.ts";
import type {
  Job,
  Reads,
  RunRecord,
  StepRecord,
  Store,
  ToolCallRecord,
} from "../../store/types.ts";
import { listSessionRuns } from "./session-runs.ts";
import { readImageInfo } from "../../core/image-info.ts";

const MAX_NAME = 100;
/** Characters that no system lets stand in a name, and those that turn the direction of what follows. */
// oxlint-disable-next-line no-misleading-character-class -- single characters are what is looked for
const UNSAFE = /[<>:"/\\|?*\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Types of text that only the ending of a name tells apart. */
const TEXTS: Readonly<Record<string, string>> = {
  csv: "text/csv",
  md: "text/markdown",
  json: "application/json",
  ics: "text/calendar",
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

const getEnding = (name: string): string | undefined =>
  /\.([a-z0-9]{1,8})$/i.exec(name)?.[1]?.toLowerCase();

/** Returns the type of a file that a tool has made. That it is an image has to be seen: vendors show images otherwise. */
function toMediaType(data: Buffer, named: string): string {
  const image = readImageInfo(data)?.mediaType;
  return image ?? (named.startsWith("image/") ? "application/octet-stream" : named);
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
});
const DESCRIPTION =
  "Attaches a file to your reply, which goes where your reply goes. Give either `text` or `result`. The file is sent after your text.";
/** The files of one reply, and the bytes of one file. */
const MAX_SENT_FILES = 5;
const MAX_SENT_BYTES = 5_000_000;
/** Runs of the conversation in which results are looked for. */
const MAX_RUNS = 50;

interface SendingRun {
  run: RunRecord;
  steps: readonly StepRecord[];
  job?: Job;
}

/** The content of a file before it is checked, or why there is none. */
type Found = { data: Buffer; mediaType?: string } | { problem: string };

async function readCall(call: ToolCallRecord, store: Reads): Promise<Found> {
  const parts = call.output?.parts ?? [];
  const file = parts.find((part) => part.type === "file");
  if (file) {
    const data = Buffer.from(file.data, "base64");
    return { data, mediaType: toMediaType(data, file.mediaType) };
  }
  const whole = call.stored ? (await store.toolResults.get(call.stored.id))?.text : undefined;
  const text = whole ?? parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n");
  return text === FORGOTTEN
    ? { problem: "The result is no longer kept: call the tool again." }
    : { data: Buffer.from(text) };
}

async function findResult(
  wanted: string,
  { run, steps }: SendingRun,
  store: Reads,
): Promise<Found> {
  const isIt = ({ id, name, tool, output }: ToolCallRecord): boolean =>
    output !== undefined &&
    output.isError !== true &&
    tool !== SEND_FILE_TOOL_NAME &&
    [id, name, tool].includes(wanted);
  const own = steps.flatMap(({ calls }) => calls).findLast(isIt);
  if (own) return readCall(own, store);
  for (const { id } of await listSessionRuns(run.spec.session, { limit: MAX_RUNS }, store)) {
    if (id === run.id) continue;
    const call = (await store.steps.list(id)).flatMap(({ calls }) => calls).findLast(isIt);
    if (call) return readCall(call, store);
  }
  return { problem: "There is no such result in this conversation." };
}

/**
 * Creates the tool by which an agent attaches files to its reply. It cannot choose the recipient: the file goes where the run's
 * reply goes. A file is in the store before the call is answered, and goes into the delivery with the commit that ends the run.
 */
export function createSendFile(current: SendingRun, store: Store): TurnExtension {
  const { run, job } = current;
  const find = async ({ text, result }: z.infer<typeof INPUT>): Promise<Found> => {
    if (text !== undefined && result === undefined) return { data: Buffer.from(text) };
    return text === undefined && result !== undefined
      ? findResult(result, current, store)
      : { problem: "Give either `text` or `result`." };
  };
  const tool: Tool<typeof INPUT> = {
    name: SEND_FILE_TOOL,
    description: DESCRIPTION,
    input: INPUT,
    idempotent: true,
    // One after the other, so that the files can be counted.
    exclusive: true,
    async execute(input, { callId }) {
      const id = toStagedId(callId);
      if (await store.toolResults.get(id)) return "The file is attached.";
      const attached = await readAttached(run, current.steps, store);
      if (attached.length >= MAX_SENT_FILES)
        return `No file was attached: a reply may have ${MAX_SENT_FILES}.`;
      const found = await find(input);
      if ("problem" in found) return `No file was attached. ${found.problem}`;
      const { data, mediaType = TEXTS[getEnding(input.name) ?? ""] ?? "text/plain" } = found;
      if (data.length === 0) return "No file was attached: it has no content.";
      if (data.length > MAX_SENT_BYTES)
        return `No file was attached: it has ${data.length} bytes, and ${MAX_SENT_BYTES} are allowed.`;
      const name = toSafeName(input.name, mediaType);
      const file: AttachedFile = {
        name,
        mediaType,
        bytes: data.length,
        content: data.toString("base64"),
      };
      const held = await store.commit(
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
