import { afterEach, beforeEach } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { message, PIPE, sayOn, sentOn } from "../channels/pipe.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";

const CHANNELS = ["pipe", "tube"] as const;
export type PipeChannel = (typeof CHANNELS)[number];

/** The plugins of the channels. */
export const PIPES = Object.fromEntries(
  CHANNELS.map((id) => [`plugins/${id}.ts`, PIPE.replace('id: "pipe"', `id: "${id}"`)]),
);

/** Gateways with two channels, on which Ann is the owner, and Bob and Cid may write. */
export interface Linking {
  provider: Provider;
  /** Milliseconds by which the gateways' clock is ahead. */
  ahead: number;
  start(more?: object, dir?: string): Promise<World>;
  /** Says something in a direct message, and returns the answer. */
  ask(
    world: World,
    from: string,
    channel: PipeChannel,
    text: string,
    more?: object,
  ): Promise<string>;
  /** Links Bob's two channels. */
  link(world: World, from?: string): Promise<void>;
  stopAll(): Promise<void>;
}

const CODE = /[HJKMNPQRTVWXY][HJKMNPQRTVWXY34789]{7}/;
/** The code in an answer to `/link`. */
export const codeIn = (text: string): string => CODE.exec(text)?.[0] ?? `no code in: ${text}`;

/** The messages that a channel has sent to a person, oldest first. */
export const sentTo = (world: World, from: string, channel: PipeChannel): string[] =>
  sentOn(world)
    .filter(({ to, name }) => to === `dm-${from}` && name === channel)
    .map(({ text }) => String(text));

/** Sets the gateways up for each test of a file or a group. */
export function useLinking(storeConfig: () => object = () => ({})): Linking {
  const worlds: World[] = [];
  const linking: Linking = {
    provider: undefined as unknown as Provider,
    ahead: 0,
    async start(more = {}, dir) {
      const world = await createWorld({
        files: PIPES,
        config: {
          ...modelConfig(linking.provider, { list: [{ id: "main" }, { id: "desk" }] }),
          ...storeConfig(),
          owner: { pipe: "ann", tube: "ann" },
          sessions: { messages: "separate" },
          channels: Object.fromEntries(
            CHANNELS.map((name) => [name, { name, allowFrom: ["ann", "bob", "bob2", "cid"] }]),
          ),
          ...more,
        },
        clock: { ...REAL.clock, now: () => REAL.clock.now() + linking.ahead } satisfies Clock,
        ...(dir !== undefined && { dir }),
      });
      worlds.push(world);
      return world;
    },
    async ask(world, from, channel, text, more = {}) {
      const before = worlds.map((one) => sentTo(one, from, channel).length);
      await sayOn(world, message(text, { from, to: `dm-${from}`, ...more }), channel);
      return world.until(
        async () => worlds.flatMap((one, at) => sentTo(one, from, channel).slice(before[at]))[0],
      );
    },
    async link(world, from = "bob") {
      const code = codeIn(await linking.ask(world, from, "pipe", "/link"));
      await linking.ask(world, from, "tube", `/link ${code}`);
    },
    async stopAll() {
      for (const world of worlds.splice(0)) await world.stop();
    },
  };
  beforeEach(async () => {
    linking.provider = await createProvider();
    linking.ahead = 0;
  });
  afterEach(async () => {
    await linking.stopAll();
    await linking.provider.close();
  });
  return linking;
}
