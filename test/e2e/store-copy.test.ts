import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { CopiedCount } from "../../src/store/copied-table.ts";
import { openStore } from "../../src/store/open.ts";
import { dedupe, event, runAction, turn } from "../store/suite/make.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWatchingProxy, type WatchingProxy } from "./watching-proxy.ts";
import { createWorld, type Answer, type World } from "./world.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
/** More than one statement copies. */
const EVENTS = 1100;
const DESK = {
  authorization: "Bearer rk_desk-key-0123456789-0123456789",
  "content-type": "application/json",
};
/** Statements at which the command is killed: it has sent them, and hears of them no more. */
const KILLS = [
  "CREATE TABLE meta",
  "INSERT INTO events",
  "INSERT INTO runs",
  "INSERT INTO jobs",
  "CREATE TABLE knowledge_documents",
  "INSERT INTO knowledge_file_parts",
  "INSERT INTO knowledge_passages",
  "UPDATE copies SET ended",
];

interface Ended {
  code: number | null;
  signal: string | null;
  out: string;
  err: string;
}

describePostgres("rouse store copy that is killed", () => {
  let dir: string;
  let schemas: Schema[];
  let provider: Provider;
  let proxy: WatchingProxy;
  let worlds: World[] = [];
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "rouse-copy-kill-"));
    schemas = [newSchema(), newSchema()];
    provider = await createProvider();
    proxy = await createWatchingProxy(new URL((schemas[0] as Schema).url));
  });
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    proxy.close();
    await provider.close();
    await Promise.all(schemas.map((schema) => schema.drop()));
    rmSync(dir, { recursive: true, force: true });
  });

  const open = async (more: object = {}, workers = true): Promise<World> => {
    const common = (id: string) => ({
      id,
      match: { path: id },
      sessionKey: `hook:${id}`,
      deliver: false,
      messageTemplate: `${id} {{n}}`,
      allowUnsafeExternalContent: true,
    });
    const config = {
      hooks: {
        mappings: [common("talk"), common("later"), { ...common("narrow"), limits: { queue: 2 } }],
      },
      platform: {
        apiKeys: [
          {
            id: "desk",
            key: "rk_desk-key-0123456789-0123456789",
            scopes: ["knowledge:read", "knowledge:write"],
          },
        ],
      },
      ...modelConfig(provider),
      ...more,
    };
    const world = await createWorld({ dir, config, workers });
    worlds.push(world);
    return world;
  };
  const close = async (world: World): Promise<void> => {
    worlds = worlds.filter((one) => one !== world);
    await world.stop();
  };
  const succeeds = (world: World, runId: string): Promise<boolean> =>
    world.until(
      async () => (await world.get(`/hooks/runs/${runId}`)).body.run.status === "succeeded",
    );
  const asked = (text: string): string[] =>
    provider.requests.map((one) => provider.text(one)).filter((said) => said.includes(text));
  const keyed = (world: World, path: string, n: number): Promise<Answer> =>
    world.post(`/hooks/${path}`, { n }, { "idempotency-key": `${path}-${n}` });

  /** The command as a shell runs it, killed at a statement. */
  const copy = async (schema: Schema, killAt?: string): Promise<Ended> => {
    const to = new URL(schema.url);
    to.port = String(proxy.port);
    const args = [
      ROUSE,
      "store",
      "copy",
      "--json",
      "--from",
      `sqlite:${join(dir, ".rouse/rouse.db")}`,
      "--to",
      to.href,
    ];
    const child = spawn(process.execPath, args, { cwd: dir, stdio: ["ignore", "pipe", "pipe"] });
    const ended: Ended = { code: null, signal: null, out: "", err: "" };
    child.stdout.on("data", (chunk: Buffer) => void (ended.out += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => void (ended.err += chunk.toString()));
    proxy.watch(killAt, () => child.kill("SIGKILL"));
    [ended.code, ended.signal] = (await once(child, "close")) as [number | null, string | null];
    return ended;
  };
  const tablesOf = ({ code, err, out }: Ended): CopiedCount[] => {
    expect([code, err]).toEqual([0, ""]);
    return (JSON.parse(out) as { tables: CopiedCount[] }).tables;
  };

  /** All that is in the state folder, as it would be read. */
  const source = (): string => {
    const hash = createHash("sha256");
    for (const name of ["rouse.db", "knowledge.db"]) {
      const db = new DatabaseSync(join(dir, ".rouse", name), { readOnly: true });
      expect(db.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
      const tables = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .all() as { name: string }[];
      for (const table of tables)
        for (const row of db.prepare(`SELECT * FROM "${table.name}"`).iterate())
          hash.update(JSON.stringify([table.name, row]));
      db.close();
    }
    return hash.digest("hex");
  };

  /** How far a copy has come: rows by table; undefined before it begins. */
  const rowsOf = ({ name }: Schema): Promise<string | undefined> =>
    plainly(async (client) => {
      const tables = [
        "copies",
        "events",
        "runs",
        "turns",
        "jobs",
        "marks",
        "knowledge_passages",
        "knowledge_file_parts",
      ];
      const counts: string[] = [];
      for (const table of tables) {
        const { rows } = await client.query<{ there: boolean }>(
          "SELECT to_regclass($1) IS NOT NULL AS there",
          [`"${name}".${table}`],
        );
        if (!rows[0]?.there) counts.push("-");
        else
          counts.push(
            (await client.query<{ n: string }>(`SELECT count(*) AS n FROM "${name}".${table}`))
              .rows[0]?.n ?? "",
          );
      }
      return ["-", "0"].includes(counts[0] ?? "-") ? undefined : counts.slice(1).join(" ");
    });

  /** Events, runs and sessions by the thousand, that have ended long ago; their numbers have a gap where some were forgotten. */
  const fill = async (): Promise<void> => {
    const { store } = await openStore({
      url: `sqlite:${join(dir, ".rouse/rouse.db")}`,
      clock: systemClock,
      log: silent,
    });
    const at = Date.now();
    for (let from = 0; from < EVENTS; from += 100)
      await Promise.all(
        Array.from({ length: 100 }, async (_, index) => {
          const n = from + index;
          const action = runAction(`hook:old:${n}`);
          const body = Buffer.from(`${n} `.repeat(300));
          const given = event({
            receivedAt: at,
            actions: [action],
            request: { method: "POST", headers: {}, query: {}, body },
          });
          await store.accept(given, [
            dedupe({ scope: "old", key: `old-${n}`, expiresAt: at + 86_400_000 }),
          ]);
          const session = { agentId: "main", origin: "hook" as const, key: `hook:old:${n}` };
          await store.commit((tx) => tx.add("turn", session, turn(action.runId, { at })));
        }),
      );
    await store.close();
    const db = new DatabaseSync(join(dir, ".rouse/rouse.db"));
    db.exec(
      "UPDATE runs SET status = 'succeeded', ended = created, record = json_set(record, '$.status', 'succeeded'); DELETE FROM jobs",
    );
    db.close();
  };

  it(
    "leaves the source as it was; again and again it comes to the same, and a gateway goes on from there",
    { timeout: 240_000 },
    async () => {
      const before = await open();
      const said = (await keyed(before, "talk", 1)).body.runId as string;
      await succeeds(before, said);
      for (let n = 0; n < 6; n++) {
        const form = new FormData();
        form.append(
          "file",
          new Blob([
            `# Note ${n}\n\nThe walrus ${n} sleeps in the harbour. ${`word${n} `.repeat(4000)}`,
          ]),
          `note-${n}.md`,
        );
        form.append("wait", "25");
        const request = new Request("http://127.0.0.1/v1/knowledge/upload", {
          method: "POST",
          body: form,
          headers: { authorization: DESK.authorization },
        });
        expect((await before.gateway.fetch(request)).status).toBeLessThan(300);
      }
      await close(before);
      await fill();
      const acceptor = await open({}, false);
      const waiting: string[] = [];
      for (const [path, n] of [
        ["later", 1],
        ["later", 2],
        ["talk", 2],
        ["narrow", 1],
        ["narrow", 2],
      ] as const)
        waiting.push((await keyed(acceptor, path, n)).body.runId as string);
      expect(await keyed(acceptor, "narrow", 3)).toMatchObject({
        status: 503,
        body: { error: { code: "overloaded" } },
      });
      await close(acceptor);

      const [undisturbed, target] = schemas as [Schema, Schema];
      const whole = tablesOf(await copy(undisturbed));
      const unharmed = source();
      // What was refused has a record as well.
      expect(whole.find(({ table }) => table === "events")?.rows).toBe(EVENTS + 7);

      const states: (string | undefined)[] = [];
      for (const statement of KILLS) {
        expect([statement, (await copy(target, statement)).signal]).toEqual([statement, "SIGKILL"]);
        const state = await rowsOf(target);
        states.push(state);
        if (state === undefined || statement === KILLS.at(-1)) continue;
        await expect(
          openStore({ url: target.url, clock: systemClock, log: silent }),
        ).rejects.toMatchObject({
          code: "config_invalid",
          message: expect.stringContaining("has not ended") as string,
        });
      }
      // Each time it has come further.
      expect(new Set(states).size).toBeGreaterThanOrEqual(6);
      expect(tablesOf(await copy(target))).toEqual(whole);
      expect(source()).toBe(unharmed);

      // The first one only takes hooks: what was waiting counts for limits, duplicates are known.
      const store = { url: target.url };
      const front = await open({ store }, false);
      expect((await keyed(front, "talk", 1)).body).toMatchObject({ runId: said });
      expect((await keyed(front, "later", 2)).body).toMatchObject({ runId: waiting[1] });
      expect(await keyed(front, "narrow", 3)).toMatchObject({
        status: 503,
        body: { error: { code: "overloaded" } },
      });
      await close(front);
      const moved = await open({ store });
      for (const id of waiting) await succeeds(moved, id);
      const next = (await keyed(moved, "talk", 3)).body.runId as string;
      await succeeds(moved, next);
      for (const message of ["later 1", "later 2", "talk 2", "narrow 1", "narrow 2"])
        expect(
          asked(message).filter((text) => text.lastIndexOf(message) > text.lastIndexOf("talk 1")),
        ).not.toEqual([]);
      for (const id of [...waiting, next])
        expect((await moved.admin(`/admin/v1/runs/${id}`)).body.run).toMatchObject({ attempts: 1 });
      // The conversation goes on where it stopped.
      expect(asked("talk 3")).toEqual([expect.stringMatching(/talk 1[^]*talk 2[^]*talk 3/)]);
      const found = await moved.gateway.fetch(
        new Request("http://127.0.0.1/v1/knowledge/search", {
          method: "POST",
          headers: DESK,
          body: JSON.stringify({ query: "walrus harbour" }),
        }),
      );
      expect(((await found.json()) as { data: unknown[] }).data).toHaveLength(6);
      const old = await moved.admin("/admin/v1/sessions/show?key=hook:old:7");
      expect(old.status).toBe(200);
      expect(source()).toBe(unharmed);
    },
  );
});
