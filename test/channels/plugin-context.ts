import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { z } from "zod";
import type { Channel, ChannelHost, IncomingMessage, Plugin } from "../../src/plugin/api.ts";

/** A channel made as the host makes it, with what it says and receives kept. */
export interface OpenChannel {
  channel: Channel;
  host: ChannelHost;
  received: IncomingMessage[];
  logged: string[];
  clock: { time: number };
  /** The plugin's own folder, which outlives the channel when it is passed on. */
  dir: string;
}

/** Opens a channel from its section of the config. `dir` makes it one after a restart. */
export function openChannel<S extends z.ZodType>(plugin: Plugin<S>, section: z.input<S>, dir?: string): OpenChannel {
  if (!plugin.config || !plugin.channel) throw new Error("the plugin offers no channel");
  let folder = dir;
  if (folder === undefined) {
    const made = mkdtempSync(join(tmpdir(), "rouse-channel-"));
    onTestFinished(() => rmSync(made, { recursive: true, force: true }));
    folder = made;
  }
  const own = folder;
  const received: IncomingMessage[] = [];
  const logged: string[] = [];
  const clock = { time: Date.now() };
  const log = (message: string): void => void logged.push(message);
  const channel = plugin.channel({
    config: plugin.config.parse(section),
    fetch: globalThis.fetch,
    clock: { now: () => clock.time },
    log: { debug: log, info: log, warn: log, error: log },
    signal: new AbortController().signal,
    stateDir: async () => own,
    print: log,
  });
  const host: ChannelHost = {
    receive: async (message) => void received.push(message),
    report: () => undefined,
    cursor: async () => undefined,
    saveCursor: async () => undefined,
  };
  return { channel, host, received, logged, clock, dir: own };
}

/** Pieces of a text that fit as the channel counts: the largest length is looked for under which `split` makes only such. */
export function piecesOf(text: string, channel: Channel, split: (text: string, limit: number) => string[]): string[] {
  const { limit = Infinity } = channel;
  const measure = (piece: string): number => channel.measure?.(piece) ?? piece.length;
  for (let room = Math.min(limit, text.length); room >= 20; room = Math.floor(room * 0.9)) {
    const pieces = split(text, room);
    if (pieces.every((piece) => measure(piece) <= limit)) return pieces;
  }
  throw new Error("no piece fits");
}
