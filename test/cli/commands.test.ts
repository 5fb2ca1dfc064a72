import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { newId } from "../../src/core/ids.ts";
import { openStore } from "../../src/store/open.ts";
import type { EventRecord } from "../../src/store/types.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

/** Puts events into the store that the next command will open. */
async function keep(...events: Partial<EventRecord>[]): Promise<string[]> {
  const { store } = await openStore({
    url: `sqlite:${join(cli.dir, ".rouse", "rouse.db")}`,
    clock: { now: () => Date.now() },
    log: createLogger("silent"),
  });
  const ids: string[] = [];
  for (const [index, event] of events.entries()) {
    const id = newId("evt", Date.now() - 1000 + index);
    const request = { method: "POST", headers: {}, query: {}, body: Buffer.from('{"type":"order","id":7}') };
    await store.accept({
      id,
      receivedAt: Date.now() - 1000 + index,
      path: "shop",
      credential: "hooks.token",
      outcome: "unmatched",
      actions: [],
      request,
      ...event,
    });
    ids.push(id);
  }
  await store.close();
  return ids;
}

const COMMANDS = [
  "start",
  "init",
  ...["list", "test", "send"].map((name) => `hooks ${name}`),
  ...["list", "show", "replay"].map((name) => `events ${name}`),
  ...["list", "show", "cancel", "retry"].map((name) => `runs ${name}`),
  ...["list", "show", "reset", "delete"].map((name) => `sessions ${name}`),
  ...["list", "retry"].map((name) => `deliveries ${name}`),
  "chat",
  ...["create", "list", "revoke"].map((name) => `keys ${name}`),
  "token rotate",
  ...["backup", "status", "migrate"].map((name) => `store ${name}`),
  "agents list",
  "plugins list",
  ...["validate", "schema", "show"].map((name) => `config ${name}`),
  "doctor",
];

describe("help", () => {
  it.each(COMMANDS)("%s teaches with an example", async (command) => {
    const { code, out, err } = await cli.rouse([...command.split(" "), "--help"]);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(new RegExp(`Examples?:\\n.*rouse ${command}`));
  });

  it("names every command", async () => {
    const { code, out } = await cli.rouse(["--help"]);
    expect(code).toBe(0);
    for (const command of COMMANDS) expect(out).toMatch(new RegExp(`^  ${command.split(" ")[0]} `, "m"));
  });

  it("prints the version of the package", async () => {
    const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
    expect(await cli.rouse(["--version"])).toEqual({ code: 0, out: `${version}\n`, err: "" });
  });
});

describe("wrong usage ends with 2 and says what to write", () => {
  it.each([
    [["evnts"], "events"],
    [["events", "list", "--limit", "0"], "1 to 500"],
    [["events", "list", "--since", "yesterday"], "2d"],
    [["events", "list", "--outcome", "lost"], "outcome"],
    [["events", "replay"], "--failed or --unmatched"],
    [["events", "replay", "evt_1", "--failed"], "--failed or --unmatched"],
    [["events", "replay", "evt_1", "--path", "shop"], "--path goes with --failed or --unmatched"],
    [["events", "show"], "event"],
    [["runs", "list", "--statu", "failed"], "--status"],
    [["hooks", "test", "shop.order"], "--payload"],
    [["hooks", "test", "--payload", "package.json"], "rouse hooks list"],
    [["hooks", "test", "shop.order", "--payload", "missing.json"], "missing.json"],
    [["start", "--port", "99999"], "65535"],
    [["store", "backup", "no/such/folder.db"], "ENOENT"],
    [["hooks"], "Usage: rouse hooks"],
  ])("%j", async (args, hint) => {
    const { code, out, err } = await cli.rouse(args);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(hint);
    expect(err).not.toMatch(/^\s+at /m);
  });
});

describe("a wrong config", () => {
  it("ends with 3 and names every problem with its path, without the value", async () => {
    await cli.write("rouse.json5", { hooks: { enabled: true, token: "canary", pth: "/x" } });
    const { code, out, err } = await cli.rouse(["agents", "list"]);
    expect([code, out]).toEqual([3, ""]);
    expect(err).toContain("hooks.");
    expect(err).not.toContain("canary");
  });

  it("ends with 3 where the named file is not there", async () => {
    expect(await cli.rouse(["doctor", "--config", "nope.json5"])).toMatchObject({ code: 3, err: expect.stringContaining("nope.json5") });
  });
});

describe("hooks test", () => {
  it("shows conditions, the rendered action, and what is missing", async () => {
    await cli.write("rouse.json5", shopConfig());
    await cli.write("order.json", { type: "order", id: 7 });
    const { code, out } = await cli.rouse(["hooks", "test", "shop.order", "--payload", "order.json"]);
    expect(code).toBe(0);
    expect(out).toContain("✓ match.payload.type");
    expect(out).toMatch(/sessionKey\s+hook:shop:7/);
    expect(out).toMatch(/missing\s+payload\.customer\.name/);
    expect(out).toContain("New order ⟦7⟧ from");
  });

  it("says which condition fails, and ends with 1", async () => {
    await cli.write("rouse.json5", shopConfig());
    await cli.write("refund.json", { type: "refund" });
    const { code, out } = await cli.rouse(["hooks", "test", "shop.order", "--payload", "refund.json"]);
    expect(code).toBe(1);
    expect(out).toContain("✗ match.payload.type  does not hold");
    const json = await cli.rouse(["hooks", "test", "--path", "shop", "--payload", "refund.json", "--json"]);
    expect(JSON.parse(json.out)).toMatchObject({
      outcome: "unmatched",
      nearest: { mapping: "shop.order", condition: "match.payload.type" },
    });
  });

  it("takes $contains of a list as membership, parses JSON inside a text, and leaves out lines without values", async () => {
    const mapping = {
      id: "alarm",
      match: { path: "alarm", payload: { "labels.name": { $contains: "bug" } } },
      messageTemplate: ["Incident {{ $parseJson(Message).detail.id }}", "Owner: {{owner}}", "Labels: {{labels.name}}"],
    };
    await cli.write("rouse.json5", shopConfig({ hooks: { enabled: true, token: TOKEN, mappings: [mapping] } }));
    const Message = JSON.stringify({ detail: { id: "i-1" } });
    await cli.write("alarm.json", { labels: [{ name: "bug" }], Message });
    await cli.write("other.json", { labels: [{ name: "debugging" }], Message });
    const { code, out } = await cli.rouse(["hooks", "test", "alarm", "--payload", "alarm.json"]);
    expect([code, out]).toEqual([0, expect.stringMatching(/Incident ⟦i-1⟧\n *Labels: ⟦bug⟧/)]);
    const other = await cli.rouse(["hooks", "test", "alarm", "--payload", "other.json"]);
    expect([other.code, other.out]).toEqual([1, expect.stringContaining("✗ match.payload.labels.name")]);
  });

  it("keeps nothing", async () => {
    await cli.write("rouse.json5", shopConfig());
    await cli.write("order.json", { type: "order", id: 7 });
    await cli.rouse(["hooks", "test", "shop.order", "--payload", "order.json"]);
    expect(JSON.parse((await cli.rouse(["events", "list", "--json"])).out)).toEqual({ events: [], next: null });
  });
});

describe("without a running gateway", () => {
  it("lists and shows events, without letting a body steer the terminal", async () => {
    const request = { method: "POST", headers: { "x-a": "b\u001b[31m" }, query: {}, body: Buffer.from('{"a":"\u001b]0;owned\u0007"}') };
    const [id = ""] = await keep({ outcome: "failed", reason: "a transform failed\u001b[2J", request });
    const listed = await cli.rouse(["events", "list"]);
    expect(listed.out).toContain(id);
    expect(listed.out).toContain("a transform failed");
    const shown = await cli.rouse(["events", "show", id]);
    expect(shown.out).toContain('"a":"]0;owned"');
    expect(listed.out + shown.out).not.toContain("\u001b");
    const { event } = JSON.parse((await cli.rouse(["events", "show", id, "--json"])).out) as { event: { request: { body: string } } };
    expect(event.request.body).toBe(request.body.toString());
  });

  it("pages through a list", async () => {
    const ids = await keep({}, {}, {});
    const { out } = await cli.rouse(["events", "list", "--limit", "2"]);
    const next = /--before (\S+)/.exec(out)?.[1];
    expect(next).toBe(ids[1]);
    const rest = await cli.rouse(["events", "list", "--limit", "2", "--before", String(next)]);
    expect(rest.out).toContain(ids[0]);
    expect(rest.out).not.toContain("more:");
  });

  it("replays all that matched nothing, once, with a bar on a terminal only", async () => {
    await keep({}, {});
    await cli.write("rouse.json5", shopConfig());
    const dry = await cli.rouse(["events", "replay", "--unmatched", "--dry-run"], { terminal: true });
    expect(dry.out).toContain("2 would be replayed");
    expect(dry.err).toContain("2/2");
    const done = await cli.rouse(["events", "replay", "--unmatched"]);
    expect([done.code, done.err]).toEqual([0, ""]);
    expect(done.out).toContain("2 replayed: 2 accepted\n");
    expect((await cli.rouse(["events", "replay", "--unmatched"])).out).toBe("0 replayed\n");
    const { runs } = JSON.parse((await cli.rouse(["runs", "list", "--json"])).out) as { runs: { sessionKey: string; status: string }[] };
    expect(runs.map((run) => [run.sessionKey, run.status])).toEqual([
      ["hook:shop:7", "queued"],
      ["hook:shop:7", "queued"],
    ]);
  });

  it("replays the unmatched events of one path, and counts what became of them", async () => {
    const refund = { method: "POST", headers: {}, query: {}, body: Buffer.from('{"type":"refund"}') };
    const [shop = "", other = "", still = ""] = await keep({}, { path: "other" }, { request: refund });
    await cli.write("rouse.json5", shopConfig());
    const dry = await cli.rouse(["events", "replay", "--unmatched", "--path", "shop", "--dry-run"]);
    expect(dry.out).toContain("2 would be replayed: 1 accepted, 1 unmatched\n");
    expect(dry.out).not.toContain(other);
    const done = await cli.rouse(["events", "replay", "--unmatched", "--path", "shop"]);
    expect(done.out).toMatch(
      new RegExp(`${shop} → evt_\\w+  accepted[^]*${still} → evt_\\w+  unmatched[^]*2 replayed: 1 accepted, 1 unmatched\n$`),
    );
    const shown = await cli.rouse(["events", "show", /(evt_\w+)  unmatched/.exec(done.out)?.[1] ?? ""]);
    expect(shown.out).toMatch(/nearest\s+shop\.order \(match\.payload\.type does not hold\)/);
  });

  it("cancels a run that waits, and does not lose the order of what is asked at once", async () => {
    const [id = ""] = await keep({});
    await cli.write("rouse.json5", shopConfig());
    const { out } = await cli.rouse(["events", "replay", id, "--json"]);
    const run = (JSON.parse(out) as { result: { actions: { id: string }[] } }).result.actions[0]?.id ?? "";
    const [cancelled, listed] = await Promise.all([cli.rouse(["runs", "cancel", run]), cli.rouse(["agents", "list"])]);
    expect([cancelled.code, cancelled.out, listed.code]).toEqual([0, `${run}  cancelled\n`, 0]);
    expect(await cli.rouse(["runs", "cancel", run])).toMatchObject({ code: 1, err: expect.stringContaining("ended") });
  });

  it.each([
    ["events", "show", "evt_x"],
    ["runs", "show", "run_x"],
    ["deliveries", "retry", "dlv_x"],
    ["sessions", "show", "hook:x"],
    ["sessions", "reset", "hook:x"],
    ["sessions", "delete", "hook:x"],
  ])("%s %s of something that is not there ends with 1", async (...args) => {
    const { code, out, err } = await cli.rouse(args);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(/^rouse: there is no/);
  });

  it("prints one JSON document on every reading command", async () => {
    await cli.write("rouse.json5", shopConfig());
    for (const command of [
      "hooks list",
      "events list",
      "runs list",
      "sessions list",
      "sessions show main",
      "deliveries list",
      "agents list",
      "plugins list",
      "doctor",
      "config show",
      "config schema",
    ]) {
      const args = command === "config schema" ? command.split(" ") : [...command.split(" "), "--json"];
      const { code, out, err } = await cli.rouse(args);
      expect([command, code, err]).toEqual([command, 0, ""]);
      expect([command, typeof JSON.parse(out)]).toEqual([command, "object"]);
      expect(out).not.toContain(TOKEN);
    }
  });

  it("copies the store, and never over a file", async () => {
    const [id] = await keep({});
    const { code, out } = await cli.rouse(["store", "backup", "copy.db"]);
    expect([code, out.startsWith(join(cli.dir, "copy.db"))]).toEqual([0, true]);
    expect((await readFile(join(cli.dir, "copy.db"))).includes(String(id))).toBe(true);
    expect(await cli.rouse(["store", "backup", "copy.db"])).toMatchObject({ code: 2, err: expect.stringContaining("already") });
  });
});

describe("token rotate", () => {
  it("makes a new token in the state folder and prints it nowhere", async () => {
    await cli.rouse(["doctor"]);
    const file = join(cli.dir, ".rouse", "hook-token");
    const before = await readFile(file, "utf8");
    const { code, out, err } = await cli.rouse(["token", "rotate"]);
    const after = await readFile(file, "utf8");
    expect([code, after === before, (await stat(file)).mode & 0o777]).toEqual([0, false, 0o600]);
    expect(out).toContain(file);
    expect(out + err).not.toContain(after.trim());
  });

  it("names the field where the config gives the token", async () => {
    const file = await cli.write("rouse.json5", shopConfig());
    const { code, err } = await cli.rouse(["token", "rotate"]);
    expect(code).toBe(1);
    expect(err).toContain(`hooks.token in ${file}`);
    expect(err).not.toContain(TOKEN);
  });
});
