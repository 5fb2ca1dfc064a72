import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";

/** A config of which one can see from outside whether it is in use: `/hooks/<name>` is there. */
export const configWith = (name: string): object => ({
  gateway: { port: 0, drainSeconds: 1 },
  hooks: {
    enabled: true,
    token: TOKEN,
    mappings: [{ id: name, match: { path: name }, messageTemplate: "x", deliver: false }],
  },
});

/** Waits until a mapping of this name takes hooks. */
export const untilTaken = (world: World, name: string): Promise<true> =>
  world.until(async () => (await world.post(`/hooks/${name}`, {})).status === 202);

export interface Saves {
  /** Pairs whose last save was applied. */
  applied: number;
  /** Milliseconds from each pair's last save until it was applied. */
  waits: number[];
  /** Snapshots that the log names, in order. */
  logged: string[];
  /** The snapshot that was in use at the end. */
  last: string;
}

/** Saves the config twice, with a pause, `pairs` times, while a file beside it and one beside the mappings grow all the time. */
export async function savePairs(pairs: number, pauseOf: (pair: number) => number): Promise<Saves> {
  const world = await createWorld({
    workers: false,
    logLevel: "trace",
    files: { "mappings/readme.txt": "" },
  });
  const growing = setInterval(() => {
    appendFileSync(join(world.dir, "gateway.out"), "a line of a log\n");
    appendFileSync(join(world.dir, "mappings", "readme.txt"), "x");
  }, 20);
  const waits: number[] = [];
  try {
    for (let pair = 0; pair < pairs; pair++) {
      world.write("rouse.json5", configWith(`first-${pair}`));
      await sleep(pauseOf(pair));
      world.write("rouse.json5", configWith(`last-${pair}`));
      const saved = performance.now();
      await untilTaken(world, `last-${pair}`);
      waits.push(performance.now() - saved);
    }
    return {
      applied: waits.length,
      waits,
      logged: world.logged.flatMap((line) => {
        const { msg, snapshot } = JSON.parse(line) as { msg: string; snapshot?: string };
        return msg === "the config was reloaded" ? [snapshot ?? ""] : [];
      }),
      last: world.gateway.status().snapshot,
    };
  } finally {
    clearInterval(growing);
    await world.stop();
  }
}
