import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import * as zlib from "node:zlib";
import type { Failure } from "../errors.ts";
import { isCharset } from "./payload.ts";

/** The reason why a body was not read to its end. `no_room`: the budget for bodies of unauthenticated callers is used up. */
export type BodyProblem = "too_large" | "too_slow" | "cut_off" | "no_room";

export interface BodyLimits {
  maxBytes: number;
  /** Milliseconds for the whole body. */
  timeoutMs: number;
  /** The longest time without a byte, in milliseconds. Default: no limit. */
  idleMs?: number;
  /** The budget that the body shares with other bodies, if there is one. */
  allowance?: BodyAllowance;
}

/** The part of a shared budget that one body holds. */
export interface BodyAllowance {
  /** Charges bytes that have arrived. Returns false if there is no room for them: that ends the reading. */
  take(bytes: number): boolean;
  /** Set by the reader: ends the reading because the room is needed for others. */
  revoke?: () => void;
}

/** After this time a body must have arrived at `MIN_BYTES_PER_SECOND` or more on average. */
const GRACE_MS = 10_000;
const MIN_BYTES_PER_SECOND = 1024;
const CHECK_MS = 1000;

/**
 * Enforces the limits of one body while its bytes arrive. Calls `onProblem` at most once, at the first limit that is broken; the
 * meter has ended by then.
 */
export function createBodyMeter(limits: BodyLimits, onProblem: (problem: BodyProblem) => void) {
  const startedAt = performance.now();
  let lastByteAt = startedAt;
  let received = 0;
  let ended = false;
  let timer: NodeJS.Timeout | undefined;
  const end = (): void => {
    ended = true;
    clearTimeout(timer);
  };
  const fail = (problem: BodyProblem): false => {
    end();
    onProblem(problem);
    return false;
  };
  const check = (): void => {
    const now = performance.now();
    const elapsed = now - startedAt;
    const isSlow = elapsed >= GRACE_MS && received < (MIN_BYTES_PER_SECOND * elapsed) / 1000;
    const isIdle = limits.idleMs !== undefined && now - lastByteAt >= limits.idleMs;
    if (isSlow || isIdle || elapsed >= limits.timeoutMs) return void fail("too_slow");
    // A millisecond more, so that a timer that fires a fraction early does not run twice.
    timer = setTimeout(
      check,
      Math.min(CHECK_MS, limits.timeoutMs - elapsed, limits.idleMs ?? CHECK_MS) + 1,
    );
  };
  timer = setTimeout(check, Math.min(GRACE_MS, limits.timeoutMs, limits.idleMs ?? GRACE_MS));
  if (limits.allowance) limits.allowance.revoke = () => void (ended || fail("no_room"));
  return {
    /** Counts bytes that have arrived. Returns false if they break a limit: the body must not be read any further. */
    add(bytes: number): boolean {
      if (ended) return false;
      received += bytes;
      if (limits.idleMs !== undefined) lastByteAt = performance.now();
      if (received > limits.maxBytes) return fail("too_large");
      if (limits.allowance && !limits.allowance.take(bytes)) return fail("no_room");
      return true;
    },
    /** Stops the clock. */
    end,
  };
}

export type CollectedBody = { ok: true; bytes: Buffer } | { ok: false; problem: BodyProblem };

/**
 * Reads a body into memory within its limits. A declared length over the limit is refused before a byte is read. What is
 * left of a body that broke a limit stays unread: its connection must be closed. Never throws.
 */
export async function collectBody(
  source: Readable | ReadableStream<Uint8Array> | Uint8Array | null,
  declared: string | null | undefined,
  limits: BodyLimits,
): Promise<CollectedBody> {
  const known = source instanceof Uint8Array ? source.length : Number(declared ?? 0);
  if (known > limits.maxBytes) return { ok: false, problem: "too_large" };
  if (source === null) return { ok: true, bytes: Buffer.alloc(0) };
  if (source instanceof Uint8Array)
    return { ok: true, bytes: Buffer.from(source.buffer, source.byteOffset, source.byteLength) };
  // If this file is checked with a browser's types, `ReadableStream` is the browser's.
  return collect(
    source instanceof Readable
      ? source
      : Readable.fromWeb(source as Parameters<typeof Readable.fromWeb>[0]),
    limits,
  );
}

function collect(source: Readable, limits: BodyLimits): Promise<CollectedBody> {
  // A body that a program of this process made may be memory that the program goes on using.
  const discard = "socket" in source ? freeMemory : () => undefined;
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const end = (result: CollectedBody): void => {
      meter.end();
      source.off("data", onData).off("end", onEnd).off("close", onClose).off("error", onClose);
      if (!result.ok) {
        chunks.splice(0).forEach(discard);
        stopReading(source);
      }
      resolve(result);
    };
    const meter = createBodyMeter(limits, (problem) => end({ ok: false, problem }));
    const onData = (chunk: Buffer): void => {
      if (meter.add(chunk.length)) chunks.push(chunk);
      else discard(chunk);
    };
    const onEnd = (): void =>
      end({ ok: true, bytes: chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks) });
    const onClose = (): void => end({ ok: false, problem: "cut_off" });
    source.on("data", onData).on("end", onEnd).on("close", onClose).on("error", onClose);
  });
}

/**
 * Frees what a piece of a body takes, now and not with the next garbage collection: under an attack that comes too late.
 * Pieces that share their memory with others are left alone.
 */
function freeMemory({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** So many bytes of a body that broke a limit are read on and thrown away, so that its sender gets to read the answer. */
const MAX_DISCARDED = 2 ** 20;

/**
 * Stops reading a body. What a sender has already written is thrown away, up to a bound: a connection that is closed with
 * bytes unread takes the answer with it. A socket stays open, since the answer is still to be written.
 */
function stopReading(source: Readable): void {
  // A stream that is paused or destroyed may still fail, and no other listener is attached.
  source.on("error", () => undefined);
  if (!("socket" in source)) return void source.destroy();
  let left = MAX_DISCARDED;
  source.on("data", (chunk: Buffer) => {
    left -= chunk.length;
    freeMemory(chunk);
    if (left > 0) return;
    source.pause();
    // A message that is paused goes on reading until its buffer is full.
    source._read = () => undefined;
    (source as IncomingMessage).socket.pause();
  });
}

type Decompress = (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>;

const gunzip = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip);
const inflate = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflate);
const inflateRaw = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflateRaw);

const DECODERS: Record<string, Decompress> = {
  gzip: gunzip,
  "x-gzip": gunzip,
  // Some programs leave out the header of zlib, which begins with the number of its method: 8.
  deflate: (bytes, options) =>
    ((bytes[0] ?? 0) & 15) === 8 ? inflate(bytes, options) : inflateRaw(bytes, options),
  br: promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliDecompress),
  zstd: promisify<Buffer, zlib.ZstdOptions, Buffer>(zlib.zstdDecompress),
};

/** A body may be encoded several times; what goes on and on is an attack. */
const MAX_ENCODINGS = 4;

/**
 * Undoes the content encodings of a body, the last one first. It ends as soon as more than `maxBytes` come out.
 * @param encoding the header `Content-Encoding`
 */
export async function decompress(
  bytes: Buffer,
  encoding: string,
  maxBytes: number,
): Promise<{ ok: true; bytes: Buffer } | { ok: false; failure: Failure }> {
  if (bytes.length === 0) return { ok: true, bytes };
  const names = encoding
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    // Some programs name their character set here.
    .filter((name) => name !== "" && name !== "identity" && !isCharset(name));
  let decoded = bytes;
  for (const name of names.reverse()) {
    const decode = Object.hasOwn(DECODERS, name) ? DECODERS[name] : undefined;
    if (!decode || names.length > MAX_ENCODINGS) {
      const message = `the Content-Encoding of the body is not known: send it without, or as one of ${Object.keys(DECODERS).join(", ")}`;
      return { ok: false, failure: { code: "unsupported_media_type", message } };
    }
    try {
      decoded = await decode(decoded, { maxOutputLength: maxBytes });
    } catch (error) {
      const isTooLarge = (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE";
      const failure: Failure = isTooLarge
        ? {
            code: "body_too_large",
            message: `the body has more than ${maxBytes} bytes once it is decompressed; send less, or raise maxBodyBytes`,
          }
        : {
            code: "invalid_body",
            message: `the body is not valid ${name}, which its Content-Encoding says`,
          };
      return { ok: false, failure };
    }
  }
  return { ok: true, bytes: decoded };
}
