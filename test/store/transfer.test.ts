import { readFileSync, statSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { knowledgeSchema } from "../../src/config/schema/knowledge.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createKnowledge } from "../../src/knowledge/knowledge.ts";
import { stageBytes } from "../../src/knowledge/upload-staging.ts";
import type { Embedder, Knowledge } from "../../src/knowledge/types.ts";
import { acquireLock } from "../../src/store/lock.ts";
import { openStore } from "../../src/store/open.ts";
import type { ExportedRow } from "../../src/store/sql/transfer.ts";
import type { Job } from "../../src/store/types.ts";
import {
  approval,
  DECISION,
  dedupe,
  event,
  job,
  run,
  runAction,
  step,
  turn,
} from "./suite/make.ts";
import { serve } from "../channels/wire.ts";
import { createCli, shopConfig, type CliWorld } from "../cli/world.ts";
import { createWorld } from "../e2e/world.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly, type Schema, sqlSource } from "./postgres.ts";

let dir: string;
let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
  dir = cli.dir;
  await mkdir(join(dir, ".rouse"));
});
afterEach(() => cli.close());

const EXPORT = "rouse.jsonl";
const exported = (): string => readFileSync(join(dir, EXPORT), "utf8");
const sqliteFile = (): string => join(dir, ".rouse/rouse.db");

/** Runs a command for the store in a file, or for another one. */
async function rouse(
  args: string[],
  url?: string,
): Promise<{ code: number; out: string; err: string }> {
  await cli.write("rouse.json5", shopConfig(url === undefined ? {} : { store: { url } }));
  return cli.rouse(args);
}

async function exportFrom(url?: string): Promise<Record<string, number>> {
  await rm(join(dir, EXPORT), { force: true });
  const { code, out, err } = await rouse(["store", "export", EXPORT, "--json"], url);
  expect([code, err]).toEqual([0, ""]);
  return (JSON.parse(out) as { tables: Record<string, number> }).tables;
}

async function importInto(url?: string): Promise<void> {
  expect(await rouse(["store", "import", EXPORT], url)).toMatchObject({ code: 0, err: "" });
}

/** An empty state folder. */
async function forget(): Promise<void> {
  await rm(join(dir, ".rouse"), { recursive: true, force: true });
}

const openAt = (url = `sqlite:${sqliteFile()}`) =>
  openStore({ url, clock: systemClock, log: silent });

const openDocuments = (schema?: Schema, embed?: Embedder): Promise<Knowledge> =>
  createKnowledge({
    dir: join(dir, ".rouse"),
    clock: systemClock,
    log: silent,
    config: knowledgeSchema.parse({}),
    sql: schema && sqlSource(schema),
    ...(embed ? { embed } : {}),
  });

async function addDocuments(): Promise<{ ready: string; queued: string }> {
  const knowledge = await openDocuments();
  const add = async (text: string) => {
    const staged = await stageBytes(join(dir, ".rouse"), Buffer.from(text), 1_000_000);
    return (await knowledge.add({ tenant: "t", ...staged, filename: "note.md" })).document.id;
  };
  await knowledge.start();
  const ready = await add(
    "# Animals\n\nThe walrus sleeps in the harbour. 港口咖啡馆每天早上七点开门。",
  );
  await knowledge.wait(ready, 20_000);
  await knowledge.close();
  const idle = await openDocuments();
  const staged = await stageBytes(
    join(dir, ".rouse"),
    Buffer.from("The penguin waits to be read."),
    1_000_000,
  );
  const { document } = await idle.add({ tenant: "t", ...staged, filename: "later.md" });
  await idle.close();
  return { ready, queued: document.id };
}

/** A store with a little of everything. Returns the ids of its jobs in the order in which they may start. */
async function fillStore(): Promise<string[]> {
  const { store, queue } = await openAt();
  const session = { agentId: "main", origin: "api" as const, key: "desk \u0000 \u{10FFFF}" };
  for (const n of [1, 2])
    await store.accept(
      event({
        actions: [runAction(`hook:${n}`)],
        request: { method: "POST", headers: {}, query: {}, body: Buffer.from([0, n, 255]) },
      }),
      [dedupe({ scope: "s", key: `k \u0000 ${n}` })],
    );
  await store.commit((tx) => {
    tx.values.set("api-keys", { one: "\u0000 and \u{10FFFF}" });
    tx.sessions.setLastRoute({ agentId: "main", channel: "console", to: "me", at: 1 });
    tx.sessions.addTurn(session, turn("run_t"));
    tx.runs.add(
      run({
        id: "run_a",
        status: "waiting",
        hold: { reason: "person", approvalIds: ["apr_run_a"], since: 1, until: 2 },
      }),
    );
    tx.steps.add(step("run_a", 0));
    tx.steps.add(step("run_a", 1, 0));
    tx.toolResults.add({ id: "res_1", runId: "run_a", text: "\u0000 whole \ud800" });
    tx.approvals.add(approval("run_a"));
    tx.approvals.add(approval("run_b", { code: "other" }));
    tx.approvals.decide("apr_run_b", DECISION);
    for (const [id, key] of [
      ["a1", "a"],
      ["a2", "a"],
      ["b", "b"],
      ["held", "d"],
    ] as const)
      tx.jobs.add(job(id, { key, kind: "delivery", enqueuedAt: Date.now() }));
    tx.jobs.add(job("later", { key: "c", kind: "delivery", runAt: Date.now() + 3_600_000 }));
  });
  const [first] = await queue.fetch("delivery", 1);
  await store.commit((tx) => tx.jobs.settle(first as Job), first);
  await store.close();
  return ["b", "held", "a2"];
}

/** The lines of an export but the first and the last, which have a time and a hash. */
const rowsOf = (text: string): string[] => text.trimEnd().split("\n").slice(1, -1);

describe("rouse store export", () => {
  it("writes a line for each row and can be read again: the same rows, documents included", async () => {
    const jobs = await fillStore();
    await addDocuments();
    const tables = await exportFrom();
    expect(tables).toMatchObject({
      events: 2,
      runs: 3,
      knowledge_documents: 2,
      knowledge_file_parts: 2,
    });
    const [head, ...rest] = exported().trimEnd().split("\n");
    expect(JSON.parse(head ?? "")).toMatchObject({ format: "rouse-store", version: 1, tables });
    expect(JSON.parse(rest.at(-1) ?? "")).toMatchObject({ end: true, rows: rest.length - 1 });
    expect(statSync(join(dir, EXPORT)).mode & 0o777).toBe(0o600);
    const rows = rowsOf(exported());
    await forget();
    await importInto();
    await exportFrom();
    expect(rowsOf(exported())).toEqual(rows);
    const { store, queue } = await openAt();
    expect((await queue.fetch("delivery", 9)).map(({ id }) => id)).toEqual(jobs);
    expect(await store.counts()).toMatchObject({ "events.accepted": 2, "runs.waiting": 1 });
    await store.close();
    expect(await rouse(["store", "export", EXPORT])).toMatchObject({
      code: 2,
      err: expect.stringContaining("is there already") as string,
    });
    expect(rowsOf((await rouse(["store", "export"])).out)).not.toEqual([]);
    const watched = await cli.rouse(["store", "export", "again.jsonl"], { terminal: true });
    expect(watched.err).toMatch(/exporting \[.*\] \d+\/\d+ approvals/);
  });

  it("beside a gateway leaves out what is not taken up yet, with its duplicate keys; without one takes it up first", async () => {
    await fillStore();
    const db = new DatabaseSync(sqliteFile());
    db.exec(
      "DELETE FROM jobs; DELETE FROM runs WHERE id NOT IN ('run_a'); UPDATE marks SET seq = 1 WHERE name = 'intake'",
    );
    db.close();
    const lock = await acquireLock(join(dir, ".rouse"));
    expect(await exportFrom()).toMatchObject({ events: 1, dedupe: 1 });
    lock.release();
    expect(await exportFrom()).toMatchObject({ events: 2, dedupe: 2, jobs: 1 });
  });
});

describe("rouse store import", () => {
  let whole: string | undefined;
  /** The export of a store with a little of everything. It is made once. */
  const getExport = async (): Promise<string> => {
    if (whole !== undefined) return whole;
    await fillStore();
    await exportFrom();
    whole = exported();
    await forget();
    return whole;
  };
  const replace =
    (find: string | RegExp, replacement: string) =>
    (text: string): string => {
      const edited = text.replace(find, replacement);
      expect(edited).not.toBe(text);
      return edited;
    };

  it.each<[string, (text: string) => string, string]>([
    ["is empty", () => "", "is empty"],
    ["is another one", () => "{}\n", "no export"],
    ["is of another version", replace('"version":1', '"version":2'), "has version 2"],
    [
      "was cut between lines",
      (text) => `${text.trimEnd().split("\n").slice(0, -1).join("\n")}\n`,
      "it was cut",
    ],
    ["was cut in a line", (text) => text.slice(0, -9), "was cut there"],
    ["was changed", replace("run_a", "run_z"), "not as it was written"],
    ["lacks a line", replace(/^\{"table":"steps".*\n/m, ""), "not as it was written"],
    [
      "has a table of a newer version",
      replace('"table":"steps"', '"table":"leaps"'),
      "the table leaps",
    ],
    [
      "has a column of a newer version",
      replace('{"table":"steps","row":{', '{"table":"steps","row":{"far":1,'),
      "the column far of steps",
    ],
  ])("keeps nothing of a file that %s", async (_, change, message) => {
    await cli.write(EXPORT, change(await getExport()));
    expect(await rouse(["store", "import", EXPORT])).toMatchObject({
      code: 2,
      err: expect.stringContaining(message) as string,
    });
    const { store } = await openAt();
    expect(Object.values(await store.counts()).filter((n) => n > 0)).toEqual([]);
    await store.close();
  });

  it("refuses a store that has something, and one in use", async () => {
    await fillStore();
    await exportFrom();
    expect(await rouse(["store", "import", EXPORT])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/rouse\.db is not empty \(\w+\).*move the file away/s) as string,
    });
    const lock = await acquireLock(join(dir, ".rouse"));
    expect(await rouse(["store", "import", EXPORT])).toMatchObject({
      code: 1,
      err: expect.stringContaining("uses the state folder") as string,
    });
    lock.release();
    expect(await rouse(["store", "import", "none.jsonl"])).toMatchObject({ code: 1 });
  });

  it("refuses documents beside those that are there", async () => {
    await fillStore();
    await addDocuments();
    await exportFrom();
    await rm(sqliteFile());
    expect(await rouse(["store", "import", EXPORT])).toMatchObject({
      code: 2,
      err: expect.stringContaining("knowledge.db is not empty") as string,
    });
  });
});

describePostgres("rouse store export and import with PostgreSQL", () => {
  let schema: Schema;
  beforeEach(() => {
    schema = newSchema();
  });
  afterEach(() => schema.drop());

  it("moves a store with work waiting; a gateway on PostgreSQL finishes all of it and knows a repeat", async () => {
    const receipts: string[] = [];
    let down = true;
    const { url, close } = await serve(({ body }) => {
      if (!down) receipts.push((body as { run: { id: string } }).run.id);
      return { status: down ? 503 : 204 };
    });
    const common = (id: string) => ({
      id,
      match: { path: id },
      wakeMode: "next-heartbeat",
      deliver: false,
      messageTemplate: `${id} {{n}}`,
    });
    const mappings = [
      {
        ...common("talk"),
        sessionKey: "hook:talk",
        callback: { url, secret: Buffer.alloc(32, 7).toString("base64") },
      },
      { ...common("narrow"), limits: { concurrent: 1 } },
      {
        ...common("batch"),
        messageTemplate: "{{ $string($count(events)) }}",
        coalesce: { windowSeconds: 3, maxEvents: 9, key: "all" },
      },
    ];
    const hooks = { callbackHosts: ["127.0.0.1"], mappings };
    const documents = await addDocuments();

    const first = await createWorld({ dir, config: { hooks } });
    const said = (await first.post("/hooks/talk", { n: 1 }, { "idempotency-key": "said" })).body
      .runId as string;
    expect((await first.endedRun(said)).status).toBe("succeeded");
    await first.stop();
    const second = await createWorld({ dir, config: { hooks }, workers: false });
    const waiting: string[] = [];
    for (const path of ["talk", "narrow", "narrow", "batch", "batch"])
      waiting.push(
        (
          await second.post(
            `/hooks/${path}`,
            { n: waiting.length },
            { "idempotency-key": `key-${waiting.length}` },
          )
        ).body.runId as string,
      );
    const states = await Promise.all(
      waiting.map(async (id) => (await second.get(`/hooks/runs/${id}`)).body.run.status as string),
    );
    expect(states).toEqual(["queued", "queued", "parked", "collecting", "collecting"]);
    await second.stop();

    expect(await exportFrom()).toMatchObject({
      events: 6,
      runs: 5,
      collected: 2,
      deliveries: 1,
      knowledge_documents: 2,
      knowledge_files: 2,
    });
    await importInto(schema.url);

    down = false;
    const moved = await createWorld({ dir, config: { hooks, store: { url: schema.url } } });
    for (const id of waiting) expect((await moved.endedRun(id)).status).toBe("succeeded");
    // The same hooks get the same answers as before, and nothing runs again.
    const again = await moved.post("/hooks/talk", { n: 1 }, { "idempotency-key": "said" });
    expect(again.body).toMatchObject({ runId: said });
    await moved.until(async () => receipts.length === 2);
    expect(receipts.toSorted()).toEqual([said, waiting[0] ?? ""].toSorted());
    await moved.stop();

    const { store } = await openAt(schema.url);
    const via = { path: "talk", credential: "hooks.token" };
    const turns = await store.sessions.listTurns({
      agentId: "main",
      origin: "hook",
      key: "hook:talk",
      via,
    });
    expect(turns.map(({ runId }) => runId)).toEqual([said, waiting[0]]);
    expect((await store.runs.list({})).length).toBe(5);
    expect((await store.counts())["runs.succeeded"]).toBe(5);
    await store.close();
    const knowledge = await openDocuments(schema);
    await knowledge.start();
    expect(await knowledge.wait(documents.queued, 20_000)).toMatchObject({ status: "ready" });
    expect(
      (await knowledge.search({ tenant: "t", text: "七点" })).map(({ documentId }) => documentId),
    ).toEqual([documents.ready]);
    await knowledge.reindex("t", documents.ready);
    expect(await knowledge.wait(documents.ready, 20_000)).toMatchObject({
      status: "ready",
      error: null,
    });
    await knowledge.close();
    await close();
    expect(await rouse(["store", "import", EXPORT], schema.url)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/is not empty .*\?schema=name/s) as string,
    });

    // And back: a file has all of it again, and knows the repeat.
    await exportFrom(schema.url);
    await forget();
    await importInto();
    const back = await createWorld({ dir, config: { hooks } });
    expect(
      (await back.post("/hooks/talk", { n: 1 }, { "idempotency-key": "said" })).body,
    ).toMatchObject({ runId: said });
    await back.stop();
    const beside = await openDocuments();
    expect(
      (await beside.search({ tenant: "t", text: "七点" })).map(({ documentId }) => documentId),
    ).toEqual([documents.ready]);
    await beside.close();
  });

  it("brings vectors over: what was near is near, and no endpoint is asked for them again", async () => {
    await fillStore();
    const asked: string[] = [];
    const embed: Embedder = {
      model: "m",
      embed: async (texts) => {
        asked.push(...texts);
        return texts.map((text) =>
          Float32Array.from(
            /sea|walrus|whale/.test(text) ? [0.6, 0.8, text.length / 100] : [-1, 0.1, 0],
          ),
        );
      },
    };
    const search = (knowledge: Knowledge) => knowledge.search({ tenant: "t", text: "life at sea" });
    const source = await openDocuments(undefined, embed);
    await source.start();
    const ids: string[] = [];
    for (const text of [
      "The walrus sleeps.",
      "A bicycle has two wheels.",
      "There goes a whale, far out.",
    ]) {
      const staged = await stageBytes(join(dir, ".rouse"), Buffer.from(text), 1000);
      ids.push((await source.add({ tenant: "t", ...staged, filename: "note.txt" })).document.id);
    }
    const areEmbedded = async (knowledge: Knowledge): Promise<boolean> =>
      (
        await Promise.all(ids.map(async (id) => (await knowledge.get("t", id))?.embeddedCount))
      ).every((count) => count === 1);
    while (!(await areEmbedded(source))) await new Promise((done) => setTimeout(done, 20));
    const before = await search(source);
    expect(before.map(({ documentId }) => documentId)).toEqual([ids[0], ids[2], ids[1]]);
    await source.close();

    expect((await exportFrom())["knowledge_vectors"]).toBe(3);
    await importInto(schema.url);
    asked.length = 0;
    const target = await openDocuments(schema, embed);
    await target.start();
    expect(await areEmbedded(target)).toBe(true);
    expect(await search(target)).toEqual(before);
    expect(asked).toEqual(["life at sea"]);
    await target.close();
  });

  it("writes what it has read: from a file to PostgreSQL and back, the same rows come out", async () => {
    const jobs = await fillStore();
    await addDocuments();
    await exportFrom();
    /** The rows as sets of columns. Each store has places of its own in the line of jobs. */
    const normalized = (): string[] =>
      rowsOf(exported())
        .map((line) => {
          const { table, row } = JSON.parse(line) as { table: string; row: ExportedRow };
          const { ready, ...rest } = row;
          const place = typeof ready === "number" && ready >= 1e12 ? ready : ready === null;
          const cells = Object.entries<unknown>({ ...rest, place }).map((cell) =>
            JSON.stringify(cell),
          );
          return `${table} ${cells.toSorted().join(" ")}`;
        })
        .toSorted();
    const rows = normalized();
    await importInto(schema.url);
    await exportFrom(schema.url);
    expect(normalized()).toEqual(rows);
    await forget();
    await importInto();
    const { store, queue } = await openAt();
    expect((await queue.fetch("delivery", 9)).map(({ id }) => id)).toEqual(jobs);
    await store.close();
  });

  it("refuses a database that has something, or that a gateway uses", async () => {
    await fillStore();
    await exportFrom();
    const other = await openAt(schema.url);
    await other.store.commit((tx) => tx.values.set("mine", 1));
    await other.store.close();
    expect(await rouse(["store", "import", EXPORT], schema.url)).toMatchObject({
      code: 2,
      err: expect.stringContaining("is not empty (meta)") as string,
    });
    await plainly((client) =>
      client.query(
        `DELETE FROM "${schema.name}".meta; INSERT INTO "${schema.name}".holders DEFAULT VALUES`,
      ),
    );
    expect(await rouse(["store", "import", EXPORT], schema.url)).toMatchObject({
      code: 2,
      err: expect.stringContaining("a gateway runs on it") as string,
    });
  });
});
