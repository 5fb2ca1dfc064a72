import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FailureGroup } from "../../src/operate/watch/failures.ts";
import { roomsPlugin } from "../e2e/rooms.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createCli, type CliWorld } from "./world.ts";

const MAPPINGS = [
  {
    id: "order",
    match: { path: "shop", payload: { type: "order" } },
    messageTemplate: "{{id}}",
    deliver: false,
  },
  {
    id: "broken",
    match: { path: "billing" },
    messageTemplate: "{{ $number(id) }}",
    deliver: false,
  },
  {
    id: "items",
    match: { path: "items" },
    forEach: "items",
    agentId: "{{item.agent}}",
    messageTemplate: "{{item.id}}",
    dedupeKey: "{{item.id}}",
    deliver: false,
  },
  ...["pager", "ops"].map((id) => ({
    id,
    match: { path: id },
    messageTemplate: "{{id}}",
    model: "acme/large",
    deliver: false,
  })),
  {
    id: "lost",
    match: { path: "lost" },
    messageTemplate: "{{id}}",
    channel: "rooms",
    model: "builtin/echo",
  },
];

const PROVIDER = {
  type: "openai-compatible",
  baseUrl: "http://127.0.0.1:9/v1",
  apiKey: "k-0123456789",
};

interface Answer {
  failures: FailureGroup[];
  total: number;
  counts: Record<string, number>;
  isComplete: boolean;
}

function failureTests(
  begin: () => Promise<{ world: World; cli: CliWorld; end(): Promise<void> }>,
): void {
  let world: World;
  let cli: CliWorld;
  let end: () => Promise<void>;
  beforeAll(async () => {
    ({ world, cli, end } = await begin());
    // Its condition leaves this one out, as it should: that is no failure.
    await world.post("/hooks/shop", { type: "refund" });
    for (let n = 0; n < 3; n++) await world.post("/hooks/nowhere", { id: n });
    for (const id of ["a17", "b18"]) await world.post("/hooks/billing", { id });
  });
  afterAll(() => end?.());

  const list = async (query = ""): Promise<Answer> =>
    (await world.admin(`/admin/v1/failures${query}`)).body;
  const find = async (path: string): Promise<FailureGroup> => {
    const group = (await list(`?path=${path}`)).failures[0];
    if (!group) throw new Error(`nothing of ${path} has failed`);
    return group;
  };
  const post = (id: string, body: object) =>
    world.admin(`/admin/v1/failures/${id}`, { method: "POST", body: JSON.stringify(body) });
  const rouse = async (...args: string[]) => {
    const { code, out, err } = await cli.rouse(["failures", ...args]);
    return { code, out: out.replaceAll(/[ \t]+/g, " "), err };
  };

  it("groups failures by cause, with their count, their hours, and an example that leads on", async () => {
    const { failures, counts, isComplete } = await list();
    expect(
      failures.map(({ path, state, mapping, count, from }) => [path, state, mapping, count, from]),
    ).toEqual([
      [null, "failed", "broken", 2, "hook billing (hooks.token)"],
      ["nowhere", "unmatched", null, 3, "hook nowhere (hooks.token)"],
    ]);
    expect([counts, isComplete]).toEqual([{ open: 2, resolved: 0 }, true]);
    const nowhere = await find("nowhere");
    expect(nowhere).toMatchObject({
      kind: "event",
      status: "open",
      isReopened: false,
      resolvedAt: null,
    });
    expect(nowhere.title).toBe("No mapping matches hooks on nowhere");
    expect(nowhere.hours).toHaveLength(24);
    expect(nowhere.hours.reduce((sum, count) => sum + count)).toBe(3);
    expect(nowhere.firstSeen <= nowhere.lastSeen).toBe(true);
    const example = (await world.admin(`/admin/v1/events/${nowhere.example}`)).body.event;
    expect([example.path, example.outcome]).toEqual(["nowhere", "unmatched"]);
    expect((await list("?mapping=broken")).failures).toHaveLength(1);
    expect((await list("?kind=run")).failures).toEqual([]);
    expect(await list("?limit=1")).toMatchObject({ total: 2, failures: [{ mapping: "broken" }] });
  });

  it("resolves a group, and opens it again when it comes back", async () => {
    const { id } = await find("billing");
    const resolved = (await post(id, { action: "resolve" })).body.failure as FailureGroup;
    expect(resolved).toMatchObject({ status: "resolved", isReopened: false });
    expect((await list("?status=open")).failures.map(({ path }) => path)).toEqual(["nowhere"]);
    expect((await list("?status=resolved")).failures.map(({ mapping }) => mapping)).toEqual([
      "broken",
    ]);
    // Times are of milliseconds: the next one comes later.
    await new Promise((done) => setTimeout(done, 5));
    await world.post("/hooks/billing", { id: "c19" });
    const back = (await world.admin(`/admin/v1/failures/${id}`)).body.failure as FailureGroup;
    const { resolvedAt } = resolved;
    expect(back).toMatchObject({ status: "open", isReopened: true, count: 3, resolvedAt });
    expect((await post(id, { action: "resolve" })).body.failure).toMatchObject({
      status: "resolved",
      isReopened: false,
    });
    expect((await post(id, { action: "close" })).body.error.message).toMatch(/^action: /);
    expect((await post("fgr_none", { action: "resolve" })).status).toBe(404);
  });

  it("has one group of what fails at a provider, with its senders, and others of replies", async () => {
    for (const path of ["pager", "ops", "ops"]) await world.post(`/hooks/${path}`, { id: 1 });
    await world.post("/hooks/lost", { id: 1 });
    const found = await world.until(async () => {
      const { failures } = await list();
      const rest = failures.filter(({ kind }) => kind !== "event");
      return rest.reduce((sum, { count }) => sum + count, 0) >= 4 && rest;
    });
    const run = found.find(({ kind }) => kind === "run");
    expect(run).toMatchObject({
      state: "failed",
      title: "Runs failed at the provider acme: provider_refused",
      provider: "acme",
      mapping: null,
      path: null,
      count: 3,
      from: "2 senders",
      senders: [
        { name: "hook ops (hooks.token)", path: "ops", mapping: "ops", count: 2 },
        { name: "hook pager (hooks.token)", path: "pager", mapping: "pager", count: 1 },
      ],
    });
    expect(found).toHaveLength(2);
    expect((await list("?path=ops&sender=hooks.token")).failures).toHaveLength(1);
    expect((await list("?path=ops&mapping=pager")).failures).toEqual([]);
    expect((await rouse(run?.id ?? "")).out).toMatch(
      /provider acme\n[^]*\nsenders\n NAME PATH MAPPING SENDER COUNT LAST SEEN\n hook ops \(hooks\.token\) ops ops hooks\.token 2 \S+\n hook pager/,
    );
    expect((await world.admin(`/admin/v1/runs/${run?.example}`)).body.run.status).toBe("failed");
    expect(found.find(({ kind }) => kind === "delivery")).toMatchObject({
      state: "no_route",
      title: "Replies have no route",
    });
  });

  it("lists, shows and changes groups from the command line, by the beginning of their id", async () => {
    const { id, example } = await find("nowhere");
    const listed = await rouse("--path", "nowhere");
    expect(listed.out).toMatch(
      new RegExp(
        `ID COUNT LAST SEEN 24 HOURS STATUS FROM TITLE\n${id} 3 \\S+ ·+█ open hook nowhere \\(hooks.token\\) No mapping`,
      ),
    );
    const shown = await rouse(id.slice(0, 12));
    for (const line of ["status open", "count 3", `example ${example}`])
      expect(shown.out).toContain(`\n${line}\n`);
    expect((await rouse("set", id, "--resolve")).out).toMatch(/ resolved No mapping/);
    expect((await rouse("set", id, "--reopen")).out).toMatch(/ open No mapping/);
    await rouse("set", id, "--resolve");
    expect((await rouse(id)).out).toMatch(/\nresolved \S.*/);
    expect(
      JSON.parse((await rouse("--status", "resolved", "--json")).out).failures.map(
        (one: FailureGroup) => one.id,
      ),
    ).toContain(id);
    expect((await rouse("fgr_none")).code).toBe(1);
    expect((await rouse("--sender", "hooks.token", "--path", "nowhere")).out).toContain(id);
    expect((await rouse("--sender", "path:nowhere")).out).toBe("no failures\n");
  });

  it("shows how the gateway does from the command line", async () => {
    const { code, out } = await cli.rouse("status --since 1h");
    const text = out.replaceAll(/[ \t]+/g, " ");
    expect(code).toBe(0);
    expect(text).toMatch(/^gateway running, version/);
    expect(text).toMatch(/answers p50 [\d.]+ m?s, p95/);
    expect(text).toMatch(/\nhooks 4 accepted, 4 unmatched, 3 failed since /);
    // A group that a person has resolved is not part of it.
    expect(text).toMatch(/failures 3 runs, 1 delivery failed in the last 24 hours\n/);
    expect(text).toMatch(/ID COUNT LAST SEEN TITLE\n/);
    const json = JSON.parse((await cli.rouse("status --json")).out);
    expect(json.activity.hooks).toMatchObject({ stepSeconds: 60, total: 11, isComplete: true });
  });

  describe("of an event of which some actions failed", () => {
    const send = async (...agents: string[]): Promise<string> => {
      const items = agents.map((agent, index) => ({ id: `${agent} ${index}`, agent }));
      return (await world.post("/hooks/items", { items })).body.eventId;
    };
    const group = async (): Promise<FailureGroup | undefined> =>
      (await list("?mapping=items")).failures[0];

    it("has the reason, and is not there once the event was discarded", async () => {
      const first = await send("main", "gone");
      expect((await world.admin(`/admin/v1/events/${first}`)).body.event).toMatchObject({
        outcome: "accepted",
        failedActions: 1,
      });
      const failed = await group();
      expect(failed).toMatchObject({
        kind: "event",
        state: "accepted",
        title: expect.stringMatching(
          /^Hooks of items failed in part: # of # actions failed: action #: agentId: names no agent/,
        ),
        message: expect.stringMatching(/^1 of 2 actions failed: action 2: agentId: names no agent/),
        count: 1,
        example: first,
        status: "open",
      });
      // Its actions that were done are repeats of the earlier event; the same action fails again.
      const again = await send("main", "gone");
      expect((await world.admin(`/admin/v1/events/${again}`)).body.event.outcome).toBe("duplicate");
      expect(await group()).toMatchObject({ id: failed?.id, count: 2, example: again });
      expect((await rouse("--mapping", "items")).out).toMatch(/ open .* failed in part: /);
      for (const id of [first, again]) {
        const { code } = await cli.rouse(["events", "set", id, "--discard", "known"]);
        expect(code).toBe(0);
      }
      expect(await group()).toBeUndefined();
    });

    it("is not there once a replay has done all of it, and stays if the replay fails in part again", async () => {
      const id = await send("main", "gone", "other");
      const body = Buffer.from(JSON.stringify({ items: [{ id: "x", agent: "main" }] }));
      const replay = (edited: object) =>
        world.admin(`/admin/v1/events/${id}/replay`, {
          method: "POST",
          body: JSON.stringify(edited),
        });
      const { newEventId } = (await replay({})).body.result;
      expect((await group())?.count).toBe(2);
      await cli.rouse(["events", "set", newEventId, "--discard", "known"]);
      await replay({ body: body.toString("base64") });
      expect(await group()).toBeUndefined();
    });
  });
}

async function begin(
  config: object,
): Promise<{ world: World; cli: CliWorld; end(): Promise<void> }> {
  const cli = await createCli();
  const world = await createWorld({
    dir: cli.dir,
    config: {
      hooks: { mappings: MAPPINGS },
      models: { providers: { acme: PROVIDER } },
      channels: { rooms: { folder: cli.dir } },
      ...config,
    },
    // Without defaultTo the channel has no route for replies that name no recipient.
    files: { "plugins/rooms.ts": roomsPlugin("rooms") },
    // The provider refuses the key, and nothing else is asked.
    fetch: async () => Response.json({ error: { message: "no such key" } }, { status: 401 }),
  });
  return {
    world,
    cli,
    async end() {
      await world.stop();
      await cli.close();
    },
  };
}

describe("groups of failures on SQLite", () => failureTests(() => begin({})));

describePostgres("with a schema of its own", () => {
  describe("groups of failures on PostgreSQL", () =>
    failureTests(async () => {
      const schema = newSchema();
      const begun = await begin({ store: { url: schema.url } });
      return {
        ...begun,
        async end() {
          await begun.end();
          await schema.drop();
        },
      };
    }));
});
