import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { z } from "zod";
import { cutMeasured } from "../../src/delivery/split.ts";
import type { Channel, Plugin } from "../../src/plugin/api.ts";
import { checkCapabilities } from "../../src/plugin/check-capabilities.ts";
import { load, userFolder } from "../plugin/support.ts";
import { testHost } from "./gateway.ts";

/** One of Rouse's own channels with this section, as a gateway loads it. */
export async function openChannel(
  id: string,
  section: Record<string, unknown>,
  now?: () => number,
): Promise<{ channel: Channel; logged: string[] }> {
  const { channels, issues, logged } = await load(
    userFolder({}).dir,
    { channels: { [id]: section } },
    { ...(now && { now }) },
  );
  expect(issues).toEqual([]);
  const channel = channels.get(id)?.channel;
  if (!channel) throw new Error("the plugin is not there");
  return { channel, logged };
}

/**
 * Opens a channel from its section of the config without a gateway, with what it says and receives kept, and a clock that a
 * test can set. `dir`, the plugin's own folder, makes it one after a restart.
 */
export function openPlugin<S extends z.ZodType>(
  plugin: Plugin<S>,
  section: z.input<S>,
  dir?: string,
) {
  if (!plugin.config || !plugin.channel) throw new Error("the plugin offers no channel");
  let folder = dir;
  if (folder === undefined) {
    const made = mkdtempSync(join(tmpdir(), "rouse-channel-"));
    onTestFinished(() => rmSync(made, { recursive: true, force: true }));
    folder = made;
  }
  const own = folder;
  const host = testHost();
  const logged: string[] = [];
  const clock = { time: Date.now() };
  const log = (message: string): void => void logged.push(message);
  const config = plugin.config.parse(section);
  const made = plugin.channel({
    config,
    fetch: globalThis.fetch,
    clock: { now: () => clock.time },
    log: { debug: log, info: log, warn: log, error: log },
    signal: new AbortController().signal,
    baseDir: "/nowhere",
    stateDir: async () => own,
    print: log,
  });
  const checked = checkCapabilities({ channel: made }, `channels.${plugin.id}`, config);
  if (!checked.ok) throw new Error(JSON.stringify(checked.issues));
  return {
    channel: checked.value.channel as Channel,
    host,
    received: host.received,
    logged,
    clock,
    dir: own,
  };
}

export type OpenChannel = ReturnType<typeof openPlugin>;

/** A text in the pieces that a gateway sends. */
export const piecesOf = ({ limit = Infinity, lengthOf }: Channel, text: string): string[] => [
  ...cutMeasured(text, limit, lengthOf),
];
