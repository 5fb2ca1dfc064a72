import { deflateSync } from "node:zlib";

/** The head of a PNG of this size; its pixels are not there, since nobody here unpacks them. */
export function png(width: number, height: number, bytes = 0): Buffer {
  const head = Buffer.alloc(33);
  head.write("\x89PNG\r\n\x1a\n", "latin1");
  head.writeUInt32BE(13, 8);
  head.write("IHDR", 12, "latin1");
  head.writeUInt32BE(width, 16);
  head.writeUInt32BE(height, 20);
  return Buffer.concat([head, deflateSync(Buffer.alloc(64)), Buffer.alloc(bytes)]);
}

export function jpeg(width: number, height: number): Buffer {
  const app = Buffer.from([
    0xff,
    0xd8,
    0xff,
    0xe0,
    0x00,
    0x10,
    ...Buffer.from("JFIF\0"),
    1,
    1,
    0,
    0,
    1,
    0,
    1,
    0,
    0,
  ]);
  const frame = Buffer.from([
    0xff,
    0xc0,
    0x00,
    0x11,
    8,
    height >> 8,
    height & 255,
    width >> 8,
    width & 255,
    3,
    1,
    0x22,
    0,
    2,
    0x11,
    1,
  ]);
  return Buffer.concat([app, frame, Buffer.alloc(32)]);
}

export function gif(width: number, height: number): Buffer {
  const head = Buffer.alloc(40);
  head.write("GIF89a", "latin1");
  head.writeUInt16LE(width, 6);
  head.writeUInt16LE(height, 8);
  return head;
}

export function webp(kind: "VP8X" | "VP8 " | "VP8L", width: number, height: number): Buffer {
  const head = Buffer.alloc(40);
  head.write("RIFF", 0, "latin1");
  head.write(`WEBP${kind}`, 8, "latin1");
  if (kind === "VP8X") head.writeUIntLE(width - 1, 24, 3);
  if (kind === "VP8X") head.writeUIntLE(height - 1, 27, 3);
  if (kind === "VP8 ") head.writeUInt16LE(width, 26);
  if (kind === "VP8 ") head.writeUInt16LE(height, 28);
  if (kind === "VP8L") head.writeUInt32LE(((height - 1) * 2 ** 14 + (width - 1)) >>> 0, 21);
  return head;
}

export const dataUri = (image: Buffer, type = "image/png"): string =>
  `data:${type};base64,${image.toString("base64")}`;

export const imageMessage = (url: string, detail?: string): object[] => [
  {
    role: "user",
    content: [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url, detail } },
    ],
  },
];
