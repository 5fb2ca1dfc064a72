/** A few kilobytes can say that they are 60,000 pixels wide and high: whoever unpacks them falls over. */
export const MAX_PIXELS = 50_000_000;

/** The facts in the head of an image. */
export interface ImageInfo {
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
      return {
        mediaType: "image/jpeg",
        height: data.readUInt16BE(at + 5),
        width: data.readUInt16BE(at + 7),
      };
    at += marker === 0xff ? 1 : 2 + data.readUInt16BE(at + 2);
  }
  return undefined;
}

function seeWebp(data: Buffer): ImageInfo | undefined {
  const kind = data.toString("latin1", 12, 16);
  const mediaType = "image/webp";
  if (kind === "VP8X")
    return { mediaType, width: data.readUIntLE(24, 3) + 1, height: data.readUIntLE(27, 3) + 1 };
  if (kind === "VP8 ")
    return {
      mediaType,
      width: data.readUInt16LE(26) & 0x3fff,
      height: data.readUInt16LE(28) & 0x3fff,
    };
  if (kind !== "VP8L") return undefined;
  const bits = data.readUInt32LE(21);
  return { mediaType, width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
}

/** Reads the type of an image and its size in pixels from its first bytes; undefined if it is no PNG, JPEG, GIF or WebP. Nothing is unpacked. */
export function readImageInfo(data: Buffer): ImageInfo | undefined {
  if (data.length < 32) return undefined;
  const head = data.toString("latin1", 0, 16);
  if (head.startsWith("\x89PNG\r\n\x1a\n") && head.endsWith("IHDR"))
    return { mediaType: "image/png", width: data.readUInt32BE(16), height: data.readUInt32BE(20) };
  if (/^GIF8[79]a/.test(head))
    return { mediaType: "image/gif", width: data.readUInt16LE(6), height: data.readUInt16LE(8) };
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WEBP") return seeWebp(data);
  return head.startsWith("\xff\xd8\xff") ? seeJpeg(data) : undefined;
}

/** True if an image has pixels at all, and no more than programs can unpack. */
export const hasUsableSize = ({ width, height }: ImageInfo): boolean =>
  width > 0 && height > 0 && width * height <= MAX_PIXELS;
