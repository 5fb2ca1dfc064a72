import type { Snapshot } from "../../intake/types.ts";
import { badRequest, type ApiProblem } from "./problems.ts";

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

export type LoadedImage = { ok: true; mediaType: string; data: Uint8Array } | { ok: false; problem: ApiProblem };

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

function check(data: Buffer, param: string, maxBytes: number): LoadedImage {
  const refuse = (message: string, code: string): LoadedImage => ({ ok: false, problem: badRequest(param, message, code) });
  if (data.length > maxBytes) return refuse(`the image has more than ${maxBytes} bytes (platform.maxImageBytes)`, "image_too_large");
  const seen = readImageInfo(data);
  if (!seen) return refuse("this is no PNG, JPEG, GIF or WebP image", "invalid_image");
  if (seen.width === 0 || seen.height === 0 || seen.width * seen.height > MAX_PIXELS)
    return refuse(`the image must have 1 to ${MAX_PIXELS} pixels`, "image_too_large");
  return { ok: true, mediaType: seen.mediaType, data };
}

/** An entry without a scheme means HTTPS and any subdomain where it begins with `*.`. */
function isAllowed(url: URL, hosts: readonly string[]): boolean {
  return hosts.some((entry) => {
    if (entry.includes("://")) return url.origin === new URL(entry).origin;
    if (url.protocol !== "https:") return false;
    return entry.startsWith("*.") ? url.hostname.endsWith(entry.slice(1)) : url.host === entry;
  });
}

async function fetchImage(url: URL, param: string, limits: ImageLimits): Promise<LoadedImage> {
  const failed = (message: string): LoadedImage => ({ ok: false, problem: badRequest(param, message, "image_not_available") });
  try {
    // An allowed host must not send us on to one that is not.
    const signal = AbortSignal.any([limits.signal, AbortSignal.timeout(FETCH_MS)]);
    const response = await limits.fetch(url, { redirect: "error", signal });
    if (!response.ok) return failed(`the image's host answered ${response.status}`);
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of response.body ?? []) {
      const piece = chunk as Uint8Array;
      length += piece.length;
      chunks.push(piece);
      if (length > limits.maxBytes) break;
    }
    return check(Buffer.concat(chunks), param, limits.maxBytes);
  } catch {
    return failed("the image could not be fetched");
  }
}

const DATA = /^data:([^,;]*)((?:;[^,;]*)*),/i;

/** The image of an `image_url`: a data URI, or an address whose host is allowed. */
export async function loadImage(address: string, param: string, limits: ImageLimits): Promise<LoadedImage> {
  const refuse = (message: string, code: string): LoadedImage => ({ ok: false, problem: badRequest(param, message, code) });
  const found = DATA.exec(address.slice(0, 300));
  if (found) {
    if (!/;\s*base64$/i.test(found[2] ?? "")) return refuse("send the image as `data:image/…;base64,…`", "invalid_image");
    const base64 = address.slice(found[0].length);
    // Looked at before it is unpacked.
    if ((base64.length * 3) / 4 > limits.maxBytes + 3)
      return refuse(`the image has more than ${limits.maxBytes} bytes (platform.maxImageBytes)`, "image_too_large");
    return check(Buffer.from(base64, "base64"), param, limits.maxBytes);
  }
  if (!URL.canParse(address)) return refuse("send the image as `data:image/…;base64,…`", "invalid_image");
  const url = new URL(address);
  if (!isAllowed(url, limits.hosts))
    return refuse(
      "images are not fetched from this host; send `data:image/…;base64,…`, or see platform.imageHosts",
      "image_host_not_allowed",
    );
  return fetchImage(url, param, limits);
}
