import { createServer } from "node:http";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { knowledgeSchema } from "../../src/config/schema/knowledge.ts";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { backupKnowledge } from "../../src/knowledge/backup.ts";
import { createKnowledge } from "../../src/knowledge/knowledge.ts";
import { stageBytes } from "../../src/knowledge/upload-staging.ts";
import type { Embedder, Knowledge } from "../../src/knowledge/types.ts";
import { acquireLock } from "../../src/store/lock.ts";
import { openStore } from "../../src/store/open.ts";
import type { CopiedCount } from "../../src/store/copied-table.ts";
import { approval, DAY, DECISION, event, run, step, job } from "./suite/make.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { createWorld } from "../e2e/world.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly, type Schema } from "./postgres.ts";

let dir: string;
let cli: CliWorld;
let schema: Schema;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-copy-"));
  mkdirSync(join(dir, ".rouse"));
  cli = await createCli();
  schema = newSchema();
});
afterEach(async () => {
  await cli.close();
  await schema.drop();
  rmSync(dir, { recursive: true, force: true });
});

interface Report {
  to: string;
  documents: string | null;
  tables: CopiedCount[];
}

const file = (): string => join(dir, ".rouse/rouse.db");
const copy = (...more: string[]) =>
  cli.rouse(["store", "copy", "--from", `sqlite:${file()}`, "--to", schema.url, ...more]);
async function copied(): Promise<Record<string, CopiedCount>> {
  const { code, out, err } = await copy("--json");
  expect([code, err]).toEqual([0, ""]);
  return Object.fromEntries(
    (JSON.parse(out) as Report).tables.map((table) => [table.table, table]),
  );
}

const openDocuments = (url?: string, embed?: Embedder): Promise<Knowledge> =>
  createKnowledge({
    dir: join(dir, ".rouse"),
    clock: systemClock,
    log: silent,
    config: knowledgeSchema.parse({}),
    ...(url === undefined ? {} : { url }),
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

/** A store with a little of everything, made by hand. */
async function smallStore(): Promise<void> {
  const { store } = await openStore({ url: `sqlite:${file()}`, clock: systemClock, log: silent });
  await store.commit((tx) => {
    tx.set("value", "api-keys", { one: "\u0000 and \u{10FFFF}" });
    tx.set("lastRoute", { agentId: "main", channel: "console", to: "me", at: 1 });
  });
  await store.close();
}

describePostgres("rouse store copy", () => {
  it("moves a store with work waiting; a gateway on PostgreSQL finishes all of it and knows a repeat", async () => {
    const receipts: string[] = [];
    let down = true;
    const server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => void parts.push(part));
      request.on("end", () => {
        if (!down)
          receipts.push(
            (JSON.parse(Buffer.concat(parts).toString()) as { run: { id: string } }).run.id,
          );
        response.writeHead(down ? 503 : 204).end();
      });
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
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
        coalesce: { windowSeconds: 9, maxEvents: 9, key: "all" },
      },
    ];
    const hooks = { callbackHosts: ["127.0.0.1"], mappings };
    const documents = await addDocuments();

    const first = await createWorld({ dir, config: { hooks } });
    const said = (await first.post("/hooks/talk", { n: 1 }, { "idempotency-key": "said" })).body
      .runId as string;
    await first.until(
      async () => (await first.get(`/hooks/runs/${said}`)).body.run.status === "succeeded",
    );
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

    const tables = await copied();
    expect(tables["events"]?.rows).toBe(6);
    expect(tables["runs"]?.rows).toBe(5);
    expect(tables["collected"]?.rows).toBe(2);
    expect(tables["deliveries"]?.rows).toBe(1);
    expect(tables["knowledge_documents"]?.rows).toBe(2);
    expect(tables["knowledge_files"]?.rows).toBe(2);

    down = false;
    const moved = await createWorld({ dir, config: { hooks, store: { url: schema.url } } });
    for (const id of waiting)
      await moved.until(
        async () => (await moved.get(`/hooks/runs/${id}`)).body.run.status === "succeeded",
      );
    // The same hooks again are answered as they were, and nothing runs anew.
    const again = await moved.post("/hooks/talk", { n: 1 }, { "idempotency-key": "said" });
    expect(again.body).toMatchObject({ runId: said });
    await moved.until(async () => receipts.length === 2);
    expect(receipts.toSorted()).toEqual([said, waiting[0] ?? ""].toSorted());
    await moved.stop();

    const { store } = await openStore({ url: schema.url, clock: systemClock, log: silent });
    const via = { path: "talk", credential: "hooks.token" };
    const turns = await store.list("turns", {
      agentId: "main",
      origin: "hook",
      key: "hook:talk",
      via,
    });
    expect(turns.map(({ runId }) => runId)).toEqual([said, waiting[0]]);
    expect((await store.list("runs", {})).length).toBe(5);
    expect((await store.counts())["runs.succeeded"]).toBe(5);
    await store.close();
    const knowledge = await openDocuments(schema.url);
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
    server.close();
    // What a gateway has worked with is not copied over.
    expect(await copy()).toMatchObject({
      code: 2,
      err: expect.stringContaining("has worked with") as string,
    });
  });

  it("takes the documents that lie beside the store, and a backup's with a backup", async () => {
    await smallStore();
    const { ready, queued } = await addDocuments();
    copyFileSync(file(), join(dir, "kept.db"));
    await backupKnowledge(join(dir, ".rouse"), join(dir, "kept.db"));
    const live = await openDocuments();
    await live.remove("t", ready);
    await live.close();
    const from = async (
      name: string,
      to: Schema,
    ): Promise<{ documents: string; ids: string[] }> => {
      const { code, out } = await cli.rouse([
        "store",
        "copy",
        "--from",
        `sqlite:${join(dir, name)}`,
        "--to",
        to.url,
        "--json",
      ]);
      expect(code).toBe(0);
      const { rows } = await plainly((client) =>
        client.query<{ id: string }>(`SELECT id FROM ${to.name}.knowledge_documents ORDER BY seq`),
      );
      return {
        documents: (JSON.parse(out) as Report).documents ?? "",
        ids: rows.map(({ id }) => id),
      };
    };
    expect(await from(".rouse/rouse.db", schema)).toEqual({
      documents: join(dir, ".rouse/knowledge.db"),
      ids: [queued],
    });
    const other = newSchema();
    onTestFinished(() => other.drop());
    expect(await from("kept.db", other)).toEqual({
      documents: join(dir, "kept.knowledge.db"),
      ids: [ready, queued],
    });
  });

  it("says where there are no documents", async () => {
    await smallStore();
    expect((await copy()).out).toContain("no documents were found beside the store");
  });

  it("brings vectors over: what was near is near, and no endpoint is asked for them again", async () => {
    await smallStore();
    // As a gateway leaves it in its folder.
    (await acquireLock(join(dir, ".rouse"))).release();
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

    expect((await copied())["knowledge_vectors"]?.rows).toBe(3);
    asked.length = 0;
    const target = await openDocuments(schema.url, embed);
    await target.start();
    expect(await areEmbedded(target)).toBe(true);
    expect(await search(target)).toEqual(before);
    expect(asked).toEqual(["life at sea"]);
    await target.close();
  });

  it("brings what happened in runs over: steps, tool calls, stored results and approvals, open ones too", async () => {
    const { store } = await openStore({ url: `sqlite:${file()}`, clock: systemClock, log: silent });
    await store.commit((tx) => {
      tx.add(
        "run",
        run({ id: "run_a", status: "waiting", waiting: { approvalIds: ["apr_run_a"], since: 1 } }),
      );
      tx.add("step", step("run_a", 0));
      tx.add("step", step("run_a", 1, 0));
      tx.add("toolResult", { id: "res_1", runId: "run_a", text: "\u0000 whole \ud800" });
      tx.add("approval", approval("run_a"));
      tx.add("approval", approval("run_b", { code: "other" }));
      tx.add("decision", "apr_run_b", DECISION);
    });
    await store.close();
    const tables = await copied();
    expect(
      ["steps", "tool_calls", "tool_results", "approvals"].map((name) => tables[name]?.rows),
    ).toEqual([2, 2, 1, 2]);
    const opened = await openStore({ url: schema.url, clock: systemClock, log: silent });
    try {
      expect(await opened.store.list("steps", "run_a")).toEqual([
        step("run_a", 0),
        step("run_a", 1, 0),
      ]);
      expect(await opened.store.get("toolResult", "res_1")).toEqual({
        id: "res_1",
        runId: "run_a",
        text: "\u0000 whole \ud800",
      });
      expect(await opened.store.list("approvals", {})).toEqual([
        { ...approval("run_b", { code: "other" }), decision: DECISION },
        approval("run_a"),
      ]);
      expect(await opened.store.counts()).toMatchObject({
        "runs.waiting": 1,
        "approvals.open": 1,
        "approvals.decided": 1,
      });
      // What is added now stands behind what was copied, and an open code is taken.
      await opened.store.commit((tx) => tx.add("step", step("run_a", 2)));
      await expect(
        opened.store.commit((tx) => tx.add("approval", approval("run_c"))),
      ).rejects.toMatchObject({ code: "internal" });
      await opened.store.commit((tx) => tx.add("decision", "apr_run_a", DECISION));
      expect(await opened.store.counts()).toMatchObject({
        "approvals.open": 0,
        "approvals.decided": 2,
      });
    } finally {
      await opened.store.close();
    }
  });

  it("keeps the order of jobs that may start, before those that come later", async () => {
    const { store, queue } = await openStore({
      url: `sqlite:${file()}`,
      clock: systemClock,
      log: silent,
    });
    const add = (id: string, key: string, runAt?: number) =>
      store.commit((tx) =>
        tx.add(
          "job",
          job(id, { key, enqueuedAt: Date.now(), ...(runAt === undefined ? {} : { runAt }) }),
        ),
      );
    await add("a1", "a");
    await add("a2", "a");
    await add("b", "b");
    await add("later", "c", Date.now() + 3_600_000);
    const [first] = await queue.fetch("turn", 1);
    await store.commit((tx) => tx.settle(first!), first);
    await store.close();
    await copied();
    const opened = await openStore({ url: schema.url, clock: systemClock, log: silent });
    try {
      await opened.store.commit((tx) => tx.add("job", job("new", { key: "new" })));
      expect((await opened.queue.fetch("turn", 9)).map((one) => one.id)).toEqual([
        "b",
        "a2",
        "new",
      ]);
    } finally {
      await opened.store.close();
    }
  });

  it("makes the partitions of the days that the source has, but of no others", async () => {
    const { store } = await openStore({ url: `sqlite:${file()}`, clock: systemClock, log: silent });
    const today = Date.now();
    const days = [20, 20, 7, 0].map((age) => today - age * DAY);
    for (const at of days) await store.accept(event({ id: newId("evt", at), receivedAt: at }));
    await store.close();
    expect((await copied())["events"]?.rows).toBe(4);
    const { rows } = await plainly((client) =>
      client.query<{ part: string; n: number }>(
        `SELECT tableoid::regclass::text AS part, count(*)::int AS n FROM ${schema.name}.events GROUP BY tableoid ORDER BY 1`,
      ),
    );
    const partOf = (age: number): string =>
      `${schema.name}.events_${new Date(today - age * DAY).toISOString().slice(0, 10).replaceAll("-", "")}`;
    expect(rows).toEqual([20, 7, 0].map((age) => ({ part: partOf(age), n: age === 20 ? 2 : 1 })));
  });

  it("can be repeated: the same hashes; what has changed in the source since is there too", async () => {
    await smallStore();
    const before = await copied();
    expect(await copied()).toEqual(before);
    const { store } = await openStore({ url: `sqlite:${file()}`, clock: systemClock, log: silent });
    await store.commit((tx) => tx.set("value", "api-keys", { two: 2 }));
    await store.close();
    const after = await copied();
    expect(after["meta"]?.rows).toBe(1);
    expect(after["meta"]?.hash).not.toBe(before["meta"]?.hash);
    const opened = await openStore({ url: schema.url, clock: systemClock, log: silent });
    expect(await opened.store.get("value", "api-keys")).toEqual({ two: 2 });
    await opened.store.close();
  });

  it("goes on after it was interrupted, and no gateway starts on a part of a store", async () => {
    await smallStore();
    const db = new DatabaseSync(file());
    const insert = db.prepare("INSERT INTO collected (run_id, record) VALUES (?, '{}')");
    db.exec("BEGIN");
    for (let n = 0; n < 3500; n++) insert.run(`run_${n}`);
    db.exec("COMMIT");
    db.close();
    const whole = await copied();
    const left = await plainly(async (client) => {
      await client.query(`SET search_path TO "${schema.name}"`);
      await client.query(
        "DELETE FROM collected WHERE seq > 2000; DELETE FROM meta; UPDATE copies SET ended = NULL",
      );
      return (await client.query<{ seq: string }>("SELECT max(seq)::text AS seq FROM collected"))
        .rows[0]?.seq;
    });
    expect(left).toBe("2000");
    await expect(
      openStore({ url: schema.url, clock: systemClock, log: silent }),
    ).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining("rouse store copy again") as string,
    });
    expect(await copied()).toEqual(whole);
    const opened = await openStore({ url: schema.url, clock: systemClock, log: silent });
    expect(await opened.store.get("value", "api-keys")).toEqual({ one: "\u0000 and \u{10FFFF}" });
    await opened.store.close();
  });

  it("waits for what a copy that was killed has still sent: nothing comes twice", async () => {
    await smallStore();
    const db = new DatabaseSync(file());
    db.exec("INSERT INTO collected (run_id, record) VALUES ('run_1', '{}'), ('run_2', '{}')");
    db.close();
    const whole = await copied();
    await plainly(async (client) => {
      await client.query(`SET search_path TO "${schema.name}"`);
      await client.query("DELETE FROM collected WHERE seq > 1; UPDATE copies SET ended = NULL");
      await client.query(
        "BEGIN; INSERT INTO collected (seq, run_id, record) VALUES (2, 'run_2', '{}')",
      );
      const again = copied();
      await new Promise((done) => setTimeout(done, 1500));
      await client.query("COMMIT");
      expect(await again).toEqual(whole);
    });
  });

  it("refuses a source in use, a target with other data or in use, and addresses that are none", async () => {
    await smallStore();
    const lock = await acquireLock(join(dir, ".rouse"));
    expect(await copy()).toMatchObject({
      code: 1,
      err: expect.stringContaining("uses the state folder") as string,
    });
    lock.release();
    const other = await openStore({ url: schema.url, clock: systemClock, log: silent });
    await other.store.commit((tx) => tx.set("value", "mine", 1));
    await other.store.close();
    expect(await copy()).toMatchObject({
      code: 2,
      err: expect.stringContaining("holds data of its own (meta)") as string,
    });
    await plainly((client) =>
      client.query(
        `DELETE FROM "${schema.name}".meta; INSERT INTO "${schema.name}".holders DEFAULT VALUES`,
      ),
    );
    expect(await copy()).toMatchObject({
      code: 2,
      err: expect.stringContaining("a gateway runs on") as string,
    });
    expect(
      await cli.rouse(["store", "copy", "--from", "sqlite:none.db", "--to", schema.url]),
    ).toMatchObject({ code: 2 });
    expect(await cli.rouse(["store", "copy", "--to", "sqlite:x.db"])).toMatchObject({ code: 2 });
  });
});
