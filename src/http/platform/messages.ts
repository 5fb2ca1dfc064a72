import { collectBody } from "../../core/http/body.ts";
import { hasUsableSize, MAX_PIXELS, readImageInfo } from "../../core/image-info.ts";
import { badRequest } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import { parseInput } from "../../agent/tools/call-inputs.ts";
import type { ConversationMessage, ConversationPart } from "../../agent/types.ts";
import type { ChatMessage } from "./chat-schema.ts";
import type { SentFile } from "./files.ts";

export interface ImageLimits {
  maxBytes: number;
  hosts: readonly string[];
  fetch: typeof fetch;
  signal: AbortSignal;
}

type ImagePart = Extract<ConversationPart, { type: "image" }>;

function refuse(param: string, message: string, code?: string): never {
  throw badRequest(param, message, code);
}

const FETCH_MS = 10_000;

const tooLarge = (param: string, maxBytes: number): never =>
  refuse(param, `the image has more than ${maxBytes} bytes`, "image_too_large");

function check(data: Buffer, param: string, maxBytes: number): ImagePart {
  if (data.length > maxBytes) tooLarge(param, maxBytes);
  const seen = readImageInfo(data);
  if (!seen) return refuse(param, "this is no PNG, JPEG, GIF or WebP image", "invalid_image");
  if (!hasUsableSize(seen))
    refuse(param, `the image must have 1 to ${MAX_PIXELS} pixels`, "image_too_large");
  return { type: "image", mediaType: seen.mediaType, data };
}

/** An entry without a scheme means HTTPS and any subdomain where it begins with `*.`. */
function isAllowed(url: URL, hosts: readonly string[]): boolean {
  return hosts.some((entry) => {
    if (entry.includes("://")) return url.origin === new URL(entry).origin;
    if (url.protocol !== "https:") return false;
    return entry.startsWith("*.") ? url.hostname.endsWith(entry.slice(1)) : url.host === entry;
  });
}

/** Fetches the bytes of an image. */
async function download(
  url: URL,
  param: string,
  { fetch, maxBytes, signal }: ImageLimits,
): Promise<Buffer> {
  const fail = (message: string): never => refuse(param, message, "image_not_available");
  // An allowed host must not send us on to one that is not.
  const response = await fetch(url, {
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(FETCH_MS)]),
  }).catch(() => fail("the image could not be fetched"));
  if (!response.ok) fail(`the image's host answered ${response.status}`);
  const body = await collectBody(response.body, undefined, { maxBytes, timeoutMs: FETCH_MS });
  if (body.ok) return body.bytes;
  return body.problem === "too_large"
    ? tooLarge(param, maxBytes)
    : fail("the image could not be fetched");
}

const DATA = /^data:([^,;]*)((?:;[^,;]*)*),/i;

/** The image of an `image_url`: a data URI, or an address whose host is allowed. */
async function loadImage(address: string, param: string, limits: ImageLimits): Promise<ImagePart> {
  const found = DATA.exec(address.slice(0, 300));
  if (found) {
    if (!/;\s*base64$/i.test(found[2] ?? ""))
      refuse(param, "send the image as `data:image/…;base64,…`", "invalid_image");
    const base64 = address.slice(found[0].length);
    // Looked at before it is unpacked.
    if ((base64.length * 3) / 4 > limits.maxBytes + 3) tooLarge(param, limits.maxBytes);
    return check(Buffer.from(base64, "base64"), param, limits.maxBytes);
  }
  if (!URL.canParse(address))
    refuse(param, "send the image as `data:image/…;base64,…`", "invalid_image");
  const url = new URL(address);
  if (!isAllowed(url, limits.hosts))
    refuse(
      param,
      "images are not fetched from this host; send `data:image/…;base64,…`",
      "image_host_not_allowed",
    );
  return check(await download(url, param, limits), param, limits.maxBytes);
}

const toText = (
  content:
    | string
    | readonly ({ type: "text"; text: string } | { type: "refusal"; refusal: string })[],
): string =>
  typeof content === "string"
    ? content
    : content.map((part) => (part.type === "text" ? part.text : part.refusal)).join("");

type UserMessage = Extract<ChatMessage, { role: "user" }>;
type ToolMessage = Extract<ChatMessage, { role: "tool" }>;
export type UserPart = Exclude<UserMessage["content"], string>[number];

/** A part of a request. `at` is its place there, if that is not its place in the list of messages. */
interface Placed {
  at?: string;
}
/** A message of a request in either form. */
export type PlacedMessage = Placed &
  (
    | Exclude<ChatMessage, UserMessage | ToolMessage>
    | (Omit<UserMessage, "content"> & PlacedContent)
    | (Omit<ToolMessage, "content"> & PlacedContent)
  );
interface PlacedContent {
  content: string | readonly (UserPart & Placed)[] | null;
}

/** The names that a form of the API has for parts of a conversation, by the field that has the conversation. */
const NAMES = {
  messages: {
    result: "a message of the role `tool`",
    callId: "tool_call_id",
    image: "image_url.url",
  },
  input: {
    result: "an item of the type `function_call_output`",
    callId: "call_id",
    image: "image_url",
  },
};
export type ConversationField = keyof typeof NAMES;

/** An image that a client sends as a file. */
const IMAGE_FILE = /^data:image\/(?:gif|jpeg|png|webp);/i;

async function readParts(
  content: PlacedContent["content"],
  param: string,
  { images, readFile, field }: ReadOptions,
): Promise<ConversationPart[]> {
  if (typeof content === "string") return [{ type: "text", text: content }];
  const parts: ConversationPart[] = [];
  for (const [index, part] of (content ?? []).entries()) {
    const { at = `${param}[${index}]` } = part;
    if (part.type === "text") parts.push({ type: "text", text: part.text });
    else if (part.type === "file") {
      const data = part.file.file_data ?? "";
      parts.push(
        IMAGE_FILE.test(data) ? await loadImage(data, at, images) : await readFile(part.file, at),
      );
    } else {
      const { image_url: given } = part;
      const { url, detail } = typeof given === "string" ? { url: given } : given;
      const image = await loadImage(url, `${at}.${NAMES[field].image}`, images);
      parts.push({ ...image, ...(detail && { detail }) });
    }
  }
  return parts;
}

type ToolOutputPart = Extract<ConversationMessage, { role: "tool" }>["output"]["parts"][number];

/** A part of a tool's result, which is outside text as a whole. */
function toOutputPart(part: ConversationPart): ToolOutputPart {
  if (part.type === "text") return part;
  if (part.type === "document") return { type: "text", text: `${part.filename}:\n${part.text}` };
  const { mediaType, data } = part;
  return { type: "file", mediaType, data: Buffer.from(data).toString("base64") };
}

/** Reads what a model said before. */
function readAnswer(
  message: Extract<PlacedMessage, { role: "assistant" }>,
): Extract<ConversationMessage, { role: "assistant" }> {
  const { content, refusal, reasoning_content: reasoning, tool_calls: calls } = message;
  return {
    role: "assistant",
    text: toText(content ?? refusal ?? ""),
    ...withoutNullish({ reasoning }),
    calls: (calls ?? []).map(({ id, function: called }) => ({
      id,
      tool: called.name,
      input: parseInput(called.arguments),
    })),
  };
}

/** True for the result of a call that the request does not have. */
const isOfEarlier = (message: ConversationMessage): boolean =>
  message.role === "tool" && message.tool === "";

/** Checks that every call has its result right behind it, and every result a call: providers refuse anything else. */
function checkPairs(
  said: readonly ConversationMessage[],
  at: readonly string[],
  { field, continues }: ReadOptions,
): void {
  const { result, callId } = NAMES[field];
  let open: string[] = [];
  const missing = (index: number): never =>
    refuse(at[index] as string, `each call of a tool must be followed by its result, ${result}`);
  for (const [index, message] of said.entries()) {
    // The calls that come first may be in a turn that the server has kept.
    if (continues && isOfEarlier(message)) continue;
    if (message.role === "tool") {
      if (!open.includes(message.callId))
        refuse(`${at[index]}.${callId}`, `${callId}: no call right before it has this id`);
      open = open.filter((id) => id !== message.callId);
      continue;
    }
    if (open.length > 0) missing(index - 1);
    open = message.role === "assistant" ? message.calls.map(({ id }) => id) : [];
  }
  if (open.length > 0) missing(said.length - 1);
}

export interface ReadOptions {
  images: ImageLimits;
  /** Reads a file of a message; `at` is the place of its part. Throws a ProblemError. */
  readFile(file: SentFile, at: string): Promise<ConversationPart>;
  /** The field of the request that the messages come from. */
  field: ConversationField;
  /** They go on with a turn that the server has kept: results of its calls may come first. */
  continues: boolean;
}

/**
 * Takes a list of messages apart, as the runtime takes a conversation: what a program says apart from what its user and the model
 * said. `hasHistory`: the caller sends the conversation so far, and so owns it.
 * @throws ProblemError
 */
export async function readMessages(messages: readonly PlacedMessage[], options: ReadOptions) {
  const { field, continues } = options;
  const system: string[] = [];
  const said: ConversationMessage[] = [];
  /** The place of each message in the request. */
  const at: string[] = [];
  const tools = new Map<string, string>();
  for (const [index, message] of messages.entries()) {
    const { at: param = `${field}[${index}]` } = message;
    switch (message.role) {
      case "system":
      case "developer":
        system.push(toText(message.content));
        continue;
      case "user":
        said.push({
          role: "user",
          parts: await readParts(message.content, `${param}.content`, options),
        });
        break;
      case "assistant": {
        const answer = readAnswer(message);
        for (const { id, tool } of answer.calls) tools.set(id, tool);
        said.push(answer);
        break;
      }
      case "function":
        return refuse(`${param}.role`, "the role `function` is not supported: use the role `tool`");
      case "tool": {
        const parts = await readParts(message.content, `${param}.content`, options);
        said.push({
          role: "tool",
          callId: message.tool_call_id,
          tool: tools.get(message.tool_call_id) ?? "",
          output: { parts: parts.map(toOutputPart) },
        });
      }
    }
    at.push(param);
  }
  const given = system.filter((text) => text.trim() !== "").join("\n\n");
  // Providers need a message to answer: instructions alone are that message.
  const isAlone = said.length === 0 && given !== "";
  if (isAlone) said.push({ role: "user", parts: [{ type: "text", text: given }] });
  const users = said.filter((message) => message.role === "user").length;
  const answers = continues && said.some((message) => message.role === "tool");
  if (users === 0 && !answers) refuse(field, "send at least one message of the role `user`");
  checkPairs(said, at, options);
  return {
    instructions: given === "" || isAlone ? undefined : given,
    // Their calls are the last that the server has.
    messages: said.toSorted((a, b) => Number(isOfEarlier(b)) - Number(isOfEarlier(a))),
    hasHistory: !said.some(isOfEarlier) && (users > 1 || said.length > users),
  };
}
