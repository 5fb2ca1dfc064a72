import type { Snapshot } from "../../intake/types.ts";
import { badRequest, ProblemError } from "./problems.ts";
import type { ConversationMessage, ConversationPart, ToolCall } from "../../agent/types.ts";
import type { ChatMessage } from "./chat-schema.ts";

export interface ImageLimits {
  maxBytes: number;
  hosts: readonly string[];
  fetch: typeof fetch;
  signal: AbortSignal;
}

/** The limits that the config sets for images. */
export function imageLimits({ config: { platform } }: Snapshot, fetch: ImageLimits["fetch"], signal: AbortSignal): ImageLimits {
  return { maxBytes: platform.maxImageBytes, hosts: platform.imageHosts, fetch, signal };
}

type ImagePart = Extract<ConversationPart, { type: "image" }>;

function refuse(param: string, message: string, code?: string): never {
  throw new ProblemError(badRequest(param, message, code));
}

/** A few kilobytes can say that they are 60,000 pixels wide and high: whoever unpacks them falls over. */
const MAX_PIXELS = 50_000_000;
const FETCH_MS = 10_000;

interface ImageInfo {
  mediaType: string;
  width: number;
  height: number;
}

function seeJpeg(data: Buffer): ImageInfo | undefined {
  let at = 2;
  while (at + 9 < data.length && data[at] === 0xff) {
    const marker = data[at + 1] as number;
    // The frame headers; 0xc4, 0xc8 and 0xcc among them are tables.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return { mediaType: "image/jpeg", height: data.readUInt16BE(at + 5), width: data.readUInt16BE(at + 7) };
    at += marker === 0xff ? 1 : 2 + data.readUInt16BE(at + 2);
  }
  return undefined;
}

function seeWebp(data: Buffer): ImageInfo | undefined {
  const kind = data.toString("latin1", 12, 16);
  const mediaType = "image/webp";
  if (kind === "VP8X") return { mediaType, width: data.readUIntLE(24, 3) + 1, height: data.readUIntLE(27, 3) + 1 };
  if (kind === "VP8 ") return { mediaType, width: data.readUInt16LE(26) & 0x3fff, height: data.readUInt16LE(28) & 0x3fff };
  if (kind !== "VP8L") return undefined;
  const bits = data.readUInt32LE(21);
  return { mediaType, width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
}

/** What the first bytes say: type and size in pixels. Nothing is unpacked. */
function readImageInfo(data: Buffer): ImageInfo | undefined {
  if (data.length < 32) return undefined;
  const head = data.toString("latin1", 0, 16);
  if (head.startsWith("\x89PNG\r\n\x1a\n") && head.endsWith("IHDR"))
    return { mediaType: "image/png", width: data.readUInt32BE(16), height: data.readUInt32BE(20) };
  if (/^GIF8[79]a/.test(head)) return { mediaType: "image/gif", width: data.readUInt16LE(6), height: data.readUInt16LE(8) };
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WEBP") return seeWebp(data);
  return head.startsWith("\xff\xd8\xff") ? seeJpeg(data) : undefined;
}

function check(data: Buffer, param: string, maxBytes: number): ImagePart {
  if (data.length > maxBytes) refuse(param, `the image has more than ${maxBytes} bytes (platform.maxImageBytes)`, "image_too_large");
  const seen = readImageInfo(data);
  if (!seen) return refuse(param, "this is no PNG, JPEG, GIF or WebP image", "invalid_image");
  if (seen.width === 0 || seen.height === 0 || seen.width * seen.height > MAX_PIXELS)
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

/** Fetches the bytes of an image, and stops soon after `maxBytes`. A string says why there are none. */
async function download(url: URL, { fetch, maxBytes, signal }: ImageLimits): Promise<Buffer | string> {
  try {
    // An allowed host must not send us on to one that is not.
    const response = await fetch(url, { redirect: "error", signal: AbortSignal.any([signal, AbortSignal.timeout(FETCH_MS)]) });
    if (!response.ok) return `the image's host answered ${response.status}`;
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of response.body ?? []) {
      const piece = chunk as Uint8Array;
      length += piece.length;
      chunks.push(piece);
      if (length > maxBytes) break;
    }
    return Buffer.concat(chunks);
  } catch {
    return "the image could not be fetched";
  }
}

const DATA = /^data:([^,;]*)((?:;[^,;]*)*),/i;

/** The image of an `image_url`: a data URI, or an address whose host is allowed. */
async function loadImage(address: string, param: string, limits: ImageLimits): Promise<ImagePart> {
  const found = DATA.exec(address.slice(0, 300));
  if (found) {
    if (!/;\s*base64$/i.test(found[2] ?? "")) refuse(param, "send the image as `data:image/…;base64,…`", "invalid_image");
    const base64 = address.slice(found[0].length);
    // Looked at before it is unpacked.
    if ((base64.length * 3) / 4 > limits.maxBytes + 3)
      refuse(param, `the image has more than ${limits.maxBytes} bytes (platform.maxImageBytes)`, "image_too_large");
    return check(Buffer.from(base64, "base64"), param, limits.maxBytes);
  }
  if (!URL.canParse(address)) refuse(param, "send the image as `data:image/…;base64,…`", "invalid_image");
  const url = new URL(address);
  if (!isAllowed(url, limits.hosts))
    refuse(
      param,
      "images are not fetched from this host; send `data:image/…;base64,…`, or see platform.imageHosts",
      "image_host_not_allowed",
    );
  const data = await download(url, limits);
  return typeof data === "string" ? refuse(param, data, "image_not_available") : check(data, param, limits.maxBytes);
}

/** A conversation as the runtime takes it: what a program says apart from what its user and the model said. */
export interface Conversation {
  instructions: string | undefined;
  messages: ConversationMessage[];
  /** True if the caller sends the conversation so far, and so owns it. */
  hasHistory: boolean;
}

const toText = (content: string | readonly ({ type: "text"; text: string } | { type: "refusal"; refusal: string })[]): string =>
  typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : part.refusal)).join("");

type UserContent = Extract<ChatMessage, { role: "user" }>["content"];

async function userParts(content: UserContent, param: string, limits: ImageLimits): Promise<ConversationPart[]> {
  if (typeof content === "string") return [{ type: "text", text: content }];
  const parts: ConversationPart[] = [];
  for (const [index, part] of content.entries()) {
    if (part.type === "text") {
      parts.push({ type: "text", text: part.text });
      continue;
    }
    parts.push(await loadImage(part.image_url.url, `${param}[${index}].image_url.url`, limits));
  }
  return parts;
}

function parseCalls(message: Extract<ChatMessage, { role: "assistant" }>, param: string): ToolCall[] {
  const calls: ToolCall[] = [];
  for (const [index, { id, function: called }] of (message.tool_calls ?? []).entries()) {
    try {
      calls.push({ id, tool: called.name, input: called.arguments.trim() === "" ? {} : (JSON.parse(called.arguments) as unknown) });
    } catch {
      refuse(`${param}.tool_calls[${index}].function.arguments`, "the arguments are not valid JSON");
    }
  }
  return calls;
}

/** Checks that every call has its result right behind it, and every result a call: providers refuse anything else. */
function checkPairs(said: readonly ConversationMessage[], describePlace: (index: number) => string, continues: boolean): void {
  let open: string[] = [];
  const missing = (index: number): never =>
    refuse(describePlace(index), "each call of a tool must be followed by its result, a message of the role `tool`");
  for (const [index, message] of said.entries()) {
    // The calls that come first may be in a turn that the server has kept.
    if (message.role === "tool" && continues && message.tool === "") continue;
    if (message.role === "tool") {
      if (!open.includes(message.callId))
        refuse(`${describePlace(index)}.tool_call_id`, "tool_call_id: no call right before it has this id");
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
  /** The field of the request that the messages come from. */
  field: string;
  /** They go on with a turn that the server has kept: results of its calls may come first. */
  continues: boolean;
}

/**
 * Takes a list of messages apart.
 * @throws ProblemError
 */
export async function readMessages(messages: readonly ChatMessage[], options: ReadOptions): Promise<Conversation> {
  const { field, continues } = options;
  const system: string[] = [];
  const said: ConversationMessage[] = [];
  /** Where each message stood in the request. */
  const at: number[] = [];
  const tools = new Map<string, string>();
  for (const [index, message] of messages.entries()) {
    const param = `${field}[${index}]`;
    switch (message.role) {
      case "system":
      case "developer":
        system.push(toText(message.content));
        continue;
      case "user":
        said.push({ role: "user", parts: await userParts(message.content, `${param}.content`, options.images) });
        break;
      case "assistant": {
        const calls = parseCalls(message, param);
        for (const { id, tool } of calls) tools.set(id, tool);
        said.push({ role: "assistant", text: toText(message.content ?? ""), calls });
        break;
      }
      case "tool":
        said.push({
          role: "tool",
          callId: message.tool_call_id,
          tool: tools.get(message.tool_call_id) ?? "",
          text: toText(message.content),
        });
    }
    at.push(index);
  }
  const users = said.filter((message) => message.role === "user").length;
  const answers = continues && said.some((message) => message.role === "tool");
  if (users === 0 && !answers) refuse(field, "send at least one message of the role `user`");
  checkPairs(said, (index) => `${field}[${at[index] ?? 0}]`, continues);
  const instructions = system.filter((text) => text.trim() !== "").join("\n\n");
  return { instructions: instructions === "" ? undefined : instructions, messages: said, hasHistory: users > 1 || said.length > users };
}
