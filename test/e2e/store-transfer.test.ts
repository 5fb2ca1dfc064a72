import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { shopConfig } from "../cli/world.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { dedupe, event, runAction } from "../store/suite/make.ts";
import { createWorld } from "./world.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "rouse-transfer-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

interface Ended {
  code: number | null;
  signal: string | null;
  err: string;
}

/** The command as a shell runs it. */
async function rouse(
  args: string[],
  meanwhile?: (child: ChildProcess) => Promise<void>,
): Promise<Ended> {
  const child = spawn(process.execPath, [ROUSE, "store", ...args], {
    cwd: dir,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let err = "";
  child.stderr.on("data", (chunk: Buffer) => void (err += chunk.toString()));
  const ended = once(child, "close") as Promise<[number | null, string | null]>;
  await meanwhile?.(child);
  const [code, signal] = await ended;
  return { code, signal, err };
}

const lines = (): string[] => readFileSync(join(dir, "all.jsonl"), "utf8").trimEnd().split("\n");
interface Line {
  table?: string;
  row: Record<string, string>;
}

describe("rouse store export beside a gateway", () => {
  it("writes one moment: what was accepted has its run, and a duplicate key its event", async () => {
    const mappings = [
      { match: { path: "talk" }, deliver: false, sessionKey: "hook:talk", messageTemplate: "hi" },
    ];
    const world = await createWorld({ dir, config: { hooks: { mappings } } });
    let isOver = false;
    let posted = 0;
    const flood = async (): Promise<void> => {
      for (; !isOver; posted++)
        await world.post("/hooks/talk", {}, { "idempotency-key": `key-${posted}` });
    };
    const flooding = flood();
    expect(await rouse(["export", "all.jsonl"])).toMatchObject({ code: 0, err: "" });
    isOver = true;
    await flooding;
    await world.stop();
    const rows = lines().map((line) => JSON.parse(line) as Line);
    const idsOf = (table: string, read: (row: Line["row"]) => string | undefined): string[] =>
      rows.flatMap((line) => (line.table === table ? (read(line.row) ?? []) : [])).toSorted();
    const events = idsOf("events", ({ id }) => id);
    expect(events.length).toBeGreaterThan(0);
    expect(events.length).toBeLessThan(posted);
    expect(idsOf("runs", (row) => row["event_id"])).toEqual(events);
    const keyed = idsOf(
      "dedupe",
      ({ record }) => (JSON.parse(record ?? "{}") as { eventId: string }).eventId,
    );
    expect([...new Set(keyed)]).toEqual(events);
  });
});

function importIsKilled(place: () => string | undefined): void {
  it("keeps nothing if it is killed, and can be started again", { timeout: 120_000 }, async () => {
    const source = `sqlite:${join(dir, "source.db")}`;
    const configure = (url: string | undefined): Promise<void> =>
      writeFile(
        join(dir, "rouse.json5"),
        JSON.stringify(shopConfig(url === undefined ? {} : { store: { url } })),
      );
    const filled = await openStore({ url: source, clock: systemClock, log: silent });
    for (let n = 0; n < 300; n++)
      await filled.store.accept(
        event({
          actions: [runAction(`hook:${n}`)],
          request: { method: "POST", headers: {}, query: {}, body: Buffer.alloc(9000, n) },
        }),
        [dedupe({ scope: "s", key: `key-${n}` })],
      );
    await filled.store.close();
    await configure(source);
    expect(await rouse(["export", "all.jsonl"])).toMatchObject({ code: 0, err: "" });

    await configure(place());
    const text = readFileSync(join(dir, "all.jsonl"), "utf8");
    execFileSync("mkfifo", [join(dir, "pipe")]);
    const killed = await rouse(["import", "pipe"], async (child) => {
      const pipe = await open(join(dir, "pipe"), "w");
      // All but what the pipe holds has been read when this resolves.
      await pipe.write(text.slice(0, -100));
      child.kill("SIGKILL");
      await pipe.close();
    });
    expect(killed).toMatchObject({ signal: "SIGKILL", err: "" });
    const url = place() ?? `sqlite:${join(dir, ".rouse/rouse.db")}`;
    const counts = async (): Promise<Record<string, number>> => {
      const { store } = await openStore({ url, clock: systemClock, log: silent });
      const counted = await store.counts();
      await store.close();
      return counted;
    };
    expect(Object.values(await counts()).filter((n) => n > 0)).toEqual([]);
    expect(await rouse(["import", "all.jsonl"])).toMatchObject({ code: 0, err: "" });
    expect(await counts()).toMatchObject({ "events.accepted": 300, "runs.queued": 300 });
  });
}

describe("rouse store import into SQLite", () => importIsKilled(() => undefined));

describePostgres("rouse store import into PostgreSQL", () => {
  let schema: Schema;
  beforeEach(() => {
    schema = newSchema();
  });
  afterEach(() => schema.drop());
  importIsKilled(() => schema.url);
});
