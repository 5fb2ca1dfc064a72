import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { openStore } from "../../src/store/open.ts";
import type { EventRecord } from "../../src/store/types.ts";
import type { WhatIfReport } from "../../src/operate/what-if/what-if.ts";
import { TOKEN } from "../e2e/world.ts";
import { CHANNEL, countSent } from "../operate/what-if-world.ts";
import { silent } from "../store/home.ts";
import { createCli, type CliWorld } from "./world.ts";

export const ORDER = {
  id: "shop.order",
  match: { path: "shop", payload: { type: "order" } },
  sessionKey: "hook:shop:{{id}}",
  messageTemplate: "Order {{id}} of {{customer.name}}",
  deliver: true,
  channel: "own",
  to: "room-1",
};

export interface DiffWorld {
  cli: CliWorld;
  /** The config with these mappings, as an object. */
  config(
    mappings: readonly object[],
    more?: { hooks?: object; [section: string]: unknown },
  ): object;
  /** Records events, oldest first, as a gateway would; returns their ids. */
  keep(...events: Kept[]): Promise<string[]>;
  /** Writes `next.json5` and compares it with `rouse.json5`. */
  diff(
    mappings: readonly object[],
    ...args: string[]
  ): Promise<{ code: number; out: string; err: string }>;
  /** The same as a report. */
  report(mappings: readonly object[], ...args: string[]): Promise<WhatIfReport>;
  /** The number of messages that the channel has sent. */
  sent(): Promise<number>;
  close(): Promise<void>;
}

export type Kept = Omit<Partial<EventRecord>, "request"> & { body?: unknown };

const toBytes = (body: unknown): Uint8Array | null => {
  if (body === null || body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
};

function toEvent({
  body = { type: "order", id: 7, customer: { name: "Ann" } },
  ...event
}: Kept): EventRecord {
  const receivedAt = event.receivedAt ?? Date.now() - 60_000;
  return {
    id: newId("evt", receivedAt),
    receivedAt,
    path: "shop",
    credential: "hooks.token",
    outcome: "unmatched",
    actions: [],
    ...event,
    request: {
      method: "POST",
      contentType: "application/json",
      headers: {},
      query: {},
      body: toBytes(body),
    },
  };
}

/** A folder with a config, a channel and a store, in which no gateway runs. Without `url` the store is SQLite's. */
export async function createDiffWorld(url?: string): Promise<DiffWorld> {
  const cli = await createCli();
  const config: DiffWorld["config"] = (mappings, { hooks = {}, ...more } = {}) => ({
    gateway: { port: 0 },
    ...(url !== undefined && { store: { url } }),
    plugins: ["./own.js"],
    channels: { own: {} },
    agents: { list: [{ id: "main" }, { id: "other" }] },
    hooks: { enabled: true, token: TOKEN, mappings, ...hooks },
    ...more,
  });
  await writeFile(join(cli.dir, "own.js"), CHANNEL);
  await cli.write("rouse.json5", config([ORDER]));
  const diff: DiffWorld["diff"] = async (mappings, ...args) => {
    await cli.write("next.json5", config(mappings));
    return cli.rouse(["hooks", "diff", "--config", "next.json5", ...args]);
  };
  return {
    cli,
    config,
    async keep(...events) {
      const file = join(cli.dir, ".rouse", "rouse.db");
      await mkdir(dirname(file), { recursive: true });
      const { store } = await openStore({
        url: url ?? `sqlite:${file}`,
        clock: systemClock,
        log: silent,
      });
      const records = events.map(toEvent);
      for (const record of records) await store.accept(record);
      await store.close();
      return records.map(({ id }) => id);
    },
    diff,
    async report(mappings, ...args) {
      const { out, err } = await diff(mappings, "--json", ...args);
      if (out === "") throw new Error(err);
      return JSON.parse(out.trimEnd().split("\n").at(-1) ?? "") as WhatIfReport;
    },
    sent: async () => countSent(cli.dir),
    close: () => cli.close(),
  };
}
