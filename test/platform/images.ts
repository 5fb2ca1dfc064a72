import { deflateSync } from "node:zlib";

/** The head of a PNG of this size. Its pixels are missing, since nothing unpacks them here. */
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
  // The marker of a JFIF file, and of a frame with three components.
  const head = Buffer.from("ffd8ffe000104a46494600010100000100010000", "hex");
  const frame = Buffer.from("ffc00011080000000003012200021101", "hex");
  frame.writeUInt16BE(height, 5);
  frame.writeUInt16BE(width, 7);
  return Buffer.concat([head, frame, Buffer.alloc(32)]);
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
