import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const COLORS = 256;
/** Colours that differ in these bits alone count as one while the frequent ones are looked for. */
const COARSE = 0xf8f8f8;

/** The pixels of an image, three bytes each. */
interface Pixels {
  width: number;
  height: number;
  rgb: Buffer;
}

const paeth = (a: number, b: number, c: number): number => {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
};

/** Takes back the filter of a line, in place. `above` is the line before it. */
function unfilter(filter: number, line: Buffer, above: Buffer, step: number): void {
  for (let at = 0; at < line.length; at++) {
    const a = at >= step ? (line[at - step] ?? 0) : 0;
    const b = above[at] ?? 0;
    const c = at >= step ? (above[at - step] ?? 0) : 0;
    const guess = [0, a, b, (a + b) >> 1, paeth(a, b, c)][filter] ?? 0;
    line[at] = ((line[at] ?? 0) + guess) & 0xff;
  }
}

/** Reads a screenshot: eight bits a channel, with or without transparency, which is ignored. */
function decode(png: Buffer): Pixels {
  const data: Buffer[] = [];
  let header = Buffer.alloc(0);
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    const type = png.toString("latin1", at + 4, at + 8);
    const content = png.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") header = Buffer.from(content);
    if (type === "IDAT") data.push(content);
    at += 12 + length;
  }
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const step = header[9] === 6 ? 4 : 3;
  const raw = inflateSync(Buffer.concat(data));
  const rgb = Buffer.alloc(width * height * 3);
  let above = Buffer.alloc(width * step);
  for (let y = 0; y < height; y++) {
    const start = y * (width * step + 1);
    const line = raw.subarray(start + 1, start + 1 + width * step);
    unfilter(raw[start] ?? 0, line, above, step);
    for (let x = 0; x < width; x++) line.copy(rgb, (y * width + x) * 3, x * step, x * step + 3);
    above = line;
  }
  return { width, height, rgb };
}

/** The colours that are seen most, and the index of the nearest one for each pixel. */
function quantize({ rgb }: Pixels): { palette: readonly number[]; indexes: Buffer } {
  const counts = new Map<number, number>();
  for (let at = 0; at < rgb.length; at += 3) {
    const color = rgb.readUIntBE(at, 3);
    counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  const groups = Map.groupBy(counts, ([color]) => color & COARSE);
  const palette = [...groups.values()]
    .map((group) => ({
      color: group.reduce((most, one) => (one[1] > most[1] ? one : most))[0],
      count: group.reduce((sum, [, count]) => sum + count, 0),
    }))
    .toSorted((one, other) => other.count - one.count)
    .slice(0, COLORS)
    .map(({ color }) => color);
  const distance = (one: number, other: number): number =>
    ((one >> 16) - (other >> 16)) ** 2 +
    (((one >> 8) & 0xff) - ((other >> 8) & 0xff)) ** 2 +
    ((one & 0xff) - (other & 0xff)) ** 2;
  const nearest = new Map<number, number>();
  for (const color of counts.keys())
    nearest.set(
      color,
      palette.reduce(
        (best, one, index) =>
          distance(color, one) < distance(color, palette[best] ?? 0) ? index : best,
        0,
      ),
    );
  const indexes = Buffer.alloc(rgb.length / 3);
  for (let at = 0; at < indexes.length; at++)
    indexes[at] = nearest.get(rgb.readUIntBE(at * 3, 3)) ?? 0;
  return { palette, indexes };
}

const chunk = (type: string, content: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), content]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
};

/** A screenshot with at most 256 colours, which is about a third of its size. */
export function toPalette(png: Buffer): Buffer {
  const pixels = decode(png);
  const { palette, indexes } = quantize(pixels);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(pixels.width, 0);
  header.writeUInt32BE(pixels.height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const lines = Array.from({ length: pixels.height }, (_, y) =>
    Buffer.concat([Buffer.of(0), indexes.subarray(y * pixels.width, (y + 1) * pixels.width)]),
  );
  const colors = Buffer.from(
    palette.flatMap((color) => [color >> 16, (color >> 8) & 0xff, color & 0xff]),
  );
  const data = deflateSync(Buffer.concat(lines), { level: 9 });
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("PLTE", colors),
    chunk("IDAT", data),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}
