import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Command } from "commander";
import { processIo } from "../../src/cli/io.ts";
import { takesShared } from "../../src/cli/options.ts";
import { describeCommands } from "../../src/cli/run.ts";
import { newId } from "../../src/core/ids.ts";
import type { StepView } from "../../src/operate/records/views.ts";
import { run } from "../store/suite/make.ts";
import type {
  EventRecord,
  HeartbeatRun,
  RunRecord,
  ScheduleRun,
  ScheduleSpec,
} from "../../src/store/types.ts";
import { actIn, shownSteps } from "../store/acted.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "./world.ts";
import { openStoreIn } from "../store/home.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

const open = () => openStoreIn(cli.dir);

/** Puts events into the store that the next command will open. */
async function keep(...events: Partial<EventRecord>[]): Promise<string[]> {
  const { store } = await open();
  const ids: string[] = [];
  for (const [index, event] of events.entries()) {
    const id = event.id ?? newId("evt", Date.now() - 1000 + index);
    const request = {
      method: "POST",
      headers: {},
      query: {},
      body: Buffer.from('{"type":"order","id":7}'),
    };
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

/** The names of all commands that can be run. */
function listNames({ commands }: Command, path: readonly string[] = []): string[] {
  return commands.flatMap((one) => {
    const name = [...path, one.name()];
    const own = takesShared(one, "verbose") ? [name.join(" ")] : [];
    return [...own, ...listNames(one, name)];
  });
}

describe("help", () => {
  it("teaches every command with an example", async () => {
    const names = listNames(await describeCommands(processIo()));
    expect(names.length).toBeGreaterThan(50);
    for (const name of names) {
      const { code, out, err } = await cli.rouse([...name.split(" "), "--help"]);
      expect([name, code, err]).toEqual([name, 0, ""]);
      expect(out).toMatch(new RegExp(`Examples?:\\n(?:.*\\n)*.*rouse ${name}`));
    }
  });

  it("shows the commands in groups, by what they are for", async () => {
    const { out } = await cli.rouse("--help");
    expect(out.match(/^[A-Z][a-z ]+:$/gm)).toEqual(
      ["Options:", "Start:", "Watch:", "Shape:", "Agents:"].concat([
        "People and keys:",
        "Operate:",
        "Examples:",
      ]),
    );
  });

  it("takes the options that all have before and behind a command, and shows them in its help", async () => {
    await cli.write("other.json5", shopConfig());
    const before = await cli.rouse("-c other.json5 --json agents");
    const behind = await cli.rouse("agents --json -c other.json5");
    expect([before.code, before.out]).toEqual([0, behind.out]);
    const { out } = await cli.rouse("runs --help");
    expect(out).toMatch(/^ +-c, --config <file>[^]*^ +--json[^]*^ +--verbose/m);
    expect((await cli.rouse("start --help")).out).not.toContain("--json");
  });

  it("prints the version of the package", async () => {
    const { version } = JSON.parse(
      await readFile(new URL("../../package.json", import.meta.url), "utf8"),
    ) as { version: string };
    for (const flag of ["--version", "-v"])
      expect(await cli.rouse([flag])).toEqual({ code: 0, out: `${version}\n`, err: "" });
  });
});

it("takes the words list and show behind a noun for its forms", async () => {
  for (const [long, short] of [
    ["runs list --limit 3", "runs --limit 3"],
    ["--json events list", "--json events"],
    ["runs show run_absent", "runs run_absent"],
    ["runs list --status odd", "runs --status odd"],
  ] as const)
    expect(await cli.rouse(long.split(" "))).toEqual(await cli.rouse(short.split(" ")));
  expect((await cli.rouse("runs list")).code).toBe(0);
});

describe("wrong usage ends with 2 and says what to write", () => {
  it.each([
    [["evnts"], "events"],
    [["events", "--limit", "0"], "1 to 500"],
    [["events", "--since", "yesterday"], "2d"],
    [["events", "--outcome", "lost"], "outcome"],
    [["events", "replay"], "choose several with --failed, --unmatched"],
    [["events", "replay", "evt_1", "--path", "shop"], "--path cannot be used beside an id"],
    [["explain"], "event"],
    [["start", "--json"], "unknown option '--json'"],
    [["init", "--config", "rouse.json5"], "unknown option '--config'"],
    [["approvals", "decide", "7f3", "aprove"], "approve, deny, repeat, done, give-up"],
    [["failures", "set", "fgr_1", "--resolve", "--reopen"], "use one of --resolve"],
    [["runs", "--statu", "failed"], "--status"],
    [["hooks", "test", "shop.order"], "--payload"],
    [["hooks", "test", "--payload", "package.json"], "rouse hooks"],
    [["start", "--port", "99999"], "65535"],
    [["backup", "--store", "no/such/folder.db"], "ENOENT"],
    [["webhooks"], "Usage: rouse webhooks"],
    [["runs", "run_x", "--status", "failed"], "--status cannot be used with a name"],
    [["sessions", "--credential", "x"], "--credential cannot be used with a list"],
    [["events", "--follow", "--search", "x"], "--search cannot be used with --follow"],
    [["approvals", "7f3", "--rules"], "--rules takes no name"],
    [["events", "--outcome", "parked"], "outcome"],
    [["explain", "run_1k80"], "evt_"],
    [["hooks", "--accept"], "--accept goes with a path"],
    [["hooks", "shop", "--accept", "first"], "is no number"],
    [["backup", "--store", "--passphrase-file", "x", "copy.db"], "leave --passphrase-file away"],
    [["schedules", "set", "tick"], "use one of --run and --remove"],
    [["channels", "--test", "console", "--status"], "--test cannot be used with --status"],
    [["knowledge", "--search", "x", "--status", "ready"], "--status cannot be used with --search"],
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
    const { code, out, err } = await cli.rouse("agents");
    expect([code, out]).toEqual([3, ""]);
    expect(err).toContain("hooks.");
    expect(err).not.toContain("canary");
  });

  it("ends with 3 where the named file is not there", async () => {
    await cli.fails("doctor --config nope.json5", 3, "nope.json5");
  });
});

describe("hooks test", () => {
  it("shows conditions, the rendered action, and what is missing", async () => {
    await cli.write("rouse.json5", shopConfig());
    await cli.write("order.json", { type: "order", id: 7 });
    const { code, out } = await cli.rouse("hooks test shop.order --payload order.json");
    expect(code).toBe(0);
    expect(out).toContain("✓ match.payload.type");
    expect(out).toMatch(/sessionKey\s+hook:shop:7/);
    expect(out).toMatch(/missing\s+payload\.customer\.name/);
    expect(out).toContain("New order ⟦7⟧ from");
  });

  it("says which condition fails, and ends with 1", async () => {
    await cli.write("rouse.json5", shopConfig());
    await cli.write("refund.json", { type: "refund" });
    const { code, out } = await cli.rouse("hooks test shop.order --payload refund.json");
    expect(code).toBe(1);
    expect(out).toMatch(
      /✗ match\.payload\.type {2}\$eq "order" +type is the text "refund", which does not equal "order"\n/,
    );
    const json = await cli.rouse("hooks test --path shop --payload refund.json --json");
    expect(JSON.parse(json.out)).toMatchObject({
      outcome: "unmatched",
      nearest: { mapping: "shop.order", condition: "match.payload.type" },
    });
  });

  it("needs no secret and no store, and leaves no file", async () => {
    const { hooks } = shopConfig() as { hooks: { mappings: object[] } };
    const secrets = {
      gateway: { port: "${PORT}", token: { file: "gone" } },
      hooks: {
        ...hooks,
        token: "${HOOK_TOKEN}",
        presets: [
          { use: "github", secret: "${GITHUB_SECRET}" },
          { use: "stripe", secret: { file: "no" } },
        ],
      },
      models: { providers: { p: { type: "openai", apiKey: "${KEY}" } } },
      agents: { defaults: { model: "p/x" } },
      channels: {
        telegram: { token: "${TELEGRAM}", mode: "webhook", webhookSecret: { file: "gone" } },
        msteams: { appId: "${APP}", appSecret: "${SECRET}" },
        whatsapp: { phoneNumberId: "${PHONE}", accessToken: "${ACCESS}" },
      },
      store: { url: "${DATABASE_URL}" },
    };
    await cli.write("rouse.json5", shopConfig(secrets));
    await cli.write("order.json", { type: "order", id: 7 });
    const { code, out, err } = await cli.rouse("hooks test shop.order --payload order.json");
    expect([code, out]).toEqual([0, expect.stringContaining("New order ⟦7⟧ from")]);
    expect(err).toBe(`config: ${join(cli.dir, "rouse.json5")} (as it is in the file)\n`);
    expect((await readdir(cli.dir)).toSorted()).toEqual(["order.json", "rouse.json5"]);
    // All else still wants them.
    await cli.fails("config validate", 3, "HOOK_TOKEN");
  });

  it("names what is wrong with the config, secrets aside", async () => {
    await cli.write("rouse.json5", { hooks: { enabled: true, token: "${HOOK_TOKEN}", pth: [] } });
    await cli.write("order.json", {});
    const { code, err } = await cli.rouse("hooks test --path shop --payload order.json");
    expect([code, err]).toEqual([
      3,
      expect.stringMatching(/rouse\.json5:1:\d+ {2}hooks\.pth: is not known/),
    ]);
    expect(err).not.toContain("HOOK_TOKEN");
  });

  it("takes a recorded event with its headers and its query, in whatever form its body was sent", async () => {
    const request = {
      method: "POST",
      headers: { "x-kind": "a" },
      query: { q: "b" },
      contentType: "application/x-www-form-urlencoded",
      body: Buffer.from("type=order&id=8"),
    };
    const [id = "", gone = ""] = await keep({ request }, { request: { ...request, body: null } });
    const match = {
      path: "shop",
      headers: { "x-kind": "a" },
      query: { q: "b" },
      payload: { type: "order" },
    };
    const mapping = { id: "draft", match, messageTemplate: "order {{payload.id}}" };
    const draft = await cli.write(
      "draft.json5",
      shopConfig({ hooks: { enabled: true, token: "${NOT_SET_HERE}", mappings: [mapping] } }),
    );
    const { code, out } = await cli.rouse(`hooks test -c ${draft} --event ${id} --json`, {
      env: { NOT_SET_HERE: TOKEN },
    });
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      outcome: "actions",
      answeredBy: { config: draft },
      actions: [{ mapping: "draft" }],
    });
    expect(out).toContain('"8"');
    await cli.fails(`hooks test --event ${gone}`, 1, "hooks.retention");
    expect(await cli.rouse(`hooks test --event ${id} --payload x`)).toMatchObject({
      code: 2,
    });
  });
});

describe("rouse runs, with an id", () => {
  it("shows what happened in each step of a run", async () => {
    await keep({});
    await cli.write("rouse.json5", shopConfig());
    const replayed = await cli.rouse("events replay latest --json");
    const run =
      (JSON.parse(replayed.out) as { result: { actions: { id: string }[] } }).result.actions[0]
        ?.id ?? "";
    expect((await cli.rouse(`runs ${run}`)).out).not.toContain("step 1");
    const { store } = await open();
    await actIn(store, run);
    await store.close();
    expect((await cli.rouse("runs --status waiting")).out).toContain(run);
    const { code, out, err } = await cli.rouse(`runs ${run}`);
    expect([code, err]).toEqual([0, ""]);
    const local = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`;
    expect(out).toMatch(new RegExp(`waits for +a person \\(apr_${run}_2\\), until ${local}`));
    const shown = out
      .slice(out.indexOf("\nstep 1"))
      .replaceAll(new RegExp(local, "g"), "<time>")
      .replaceAll(run, "<run>");
    expect(shown).toBe(`
step 1: acme/large, 1.2 s, 1,200 in (800 cached), 30 out (10 reasoning), tool-calls
  tools offered: shop.read, bank.refund, mail.send; left out by hooks.tools: <b>crm</b>.*
  failed: acme/small: rate_limited: slow down (429 too_fast); tried again after 2 s
  failed: acme/small: provider_unavailable: no answer
  acme/large answered instead of acme/small
  thinking: The order is large.
  I look at the order.
  call shop.read: done, 0.3 s (<run>.0.0)
    arguments: {"order":7,"note":"a <b>bold</b> note"}
    result: order 7: two cups
    [image/png cups.png, 6 bytes]
    cut: the whole result has 120,000 characters and is stored as res_<run>
  call bank.refund: denied (<run>.0.1)
    arguments: {"amount":240}
    approval 7f3 (apr_<run>_1), asked <time>: the rule "bank.*" names the tool; deny by console:ann, <time>: too much
  call mail.send: failed, 0.1 s (<run>.0.2)
    arguments: {"to":"ann@example.com"}
    error: the mailbox is full

step 2: acme/large, 1.0 s, 1,400 in, 12 out, tool-calls
  I try the bank again.
  call bank.refund: waiting (<run>.1.0)
    arguments: {"amount":100}
    approval 8a1 (apr_<run>_2), asked <time>: the rule "bank.*" names the tool; open until <time>
`);
    const answer = await cli.json<{
      steps: StepView[];
    }>(`runs ${run}`);
    expect(answer).toMatchObject({ run: { id: run, status: "waiting" }, steps: shownSteps(run) });
  });
});

describe("an id", () => {
  it("may be the beginning of one alone, or `latest`", async () => {
    const [one = "", two = ""] = await keep(
      { id: "evt_1k80aaaa" + "1".repeat(27) },
      { id: "evt_1k80bbbb" + "2".repeat(27) },
    );
    const show = async (id: string) => {
      const { code, out, err } = await cli.rouse(`explain ${id} --request`);
      return [code, /^event +(\S+)/.exec(out)?.[1] ?? err];
    };
    expect(await show("evt_1k80a")).toEqual([0, one]);
    expect(await show("1k80b")).toEqual([0, two]);
    expect(await show("latest")).toEqual([0, two]);
    expect(await show(`/hooks/events/${one}`)).toEqual([0, one]);
    expect(await show(`"${two}",`)).toEqual([0, two]);
    expect(await show("evt_1k80c")).toEqual([
      1,
      'rouse: there is no event "evt_1k80c"; `rouse events` lists them\n',
    ]);
    expect(await show("evt_1k8")).toEqual([
      1,
      'rouse: there is no event "evt_1k8"; `rouse events` lists them\n',
    ]);
    const [code, err] = await show("evt_1k80");
    expect(code).toBe(2);
    expect(err).toMatch(
      new RegExp(
        `several events begin with evt_1k80[^]*${two} +\\d\\d:\\d\\d:\\d\\d  shop[^]*${one}`,
      ),
    );
    await cli.write("rouse.json5", shopConfig());
    const replayed = await cli.rouse("events replay evt_1k80a --json");
    const run =
      (JSON.parse(replayed.out) as { result: { actions: { id: string }[] } }).result.actions[0]
        ?.id ?? "";
    expect((await cli.rouse("runs latest --json")).out).toContain(run);
    expect((await cli.rouse("runs --event latest")).out).toContain(run);
    expect((await cli.rouse(["runs", "cancel", run.slice(0, 12)])).out).toBe(`${run}  cancelled\n`);
    expect((await cli.rouse("hooks test --event evt_1k80b")).code).toBe(0);
    expect(await cli.rouse("deliveries retry latest")).toMatchObject({
      code: 1,
      err: "rouse: there is no delivery yet\n",
    });
  });

  it("stands beside a local time in 24 hours", async () => {
    await keep({ receivedAt: new Date(2026, 0, 2, 15, 4, 5).getTime() });
    expect((await cli.rouse("explain latest --request")).out).toMatch(
      /received +2026-01-02 15:04:05\n/,
    );
  });
});

describe("without a running gateway", () => {
  it("pages through a list", async () => {
    const ids = await keep({}, {}, {});
    const { out } = await cli.rouse("events --limit 2");
    const next = /--before (\S+)/.exec(out)?.[1];
    expect(next).toBe(ids[1]);
    const rest = await cli.rouse(["events", "--limit", "2", "--before", String(next)]);
    expect(rest.out).toContain(ids[0]);
    expect(rest.out).not.toContain("more:");
  });

  it("discards an event that failed: doctor and replays of all that failed leave it out, and its reason is kept", async () => {
    const [broken = "", accepted = ""] = await keep(
      { outcome: "failed", reason: "broken: its work could not be queued" },
      { outcome: "accepted" },
    );
    await cli.write("rouse.json5", shopConfig());
    const check = async (): Promise<string> =>
      /^\S+ +events .*$/m.exec((await cli.rouse("doctor")).out)?.[0] ?? "";
    expect(await check()).toContain(broken);
    await cli.fails(`events set ${broken}`, 2, "--discard");
    expect(
      (await cli.rouse(["events", "set", broken, "--discard", "ordered again"])).out,
    ).toContain(`${broken}  discarded`);
    expect(await check()).not.toContain(broken);
    expect((await cli.rouse("events replay --failed")).out).toBe("0 replayed\n");
    expect((await cli.rouse(`explain ${broken} --request`)).out).toMatch(
      /handled +discarded .*: ordered again/,
    );
    const refused = await cli.rouse(`events set ${accepted} --discard wrong`);
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringContaining("only an event that failed can be discarded"),
    });
  });

  it("lists runs without heartbeats, unless a kind or another filter asks for them", async () => {
    const { store } = await open();
    const at = Date.now() - 1000;
    const scheduled: ScheduleSpec = {
      session: { agentId: "main", origin: "schedule", key: "schedule:s" },
      name: "s",
      hook: "schedules/s",
      input: [],
      instructions: "",
      schedule: { id: "s", dueAt: at },
    };
    const [hook, schedule, beat] = [
      run({ kind: "hook" }),
      run<ScheduleRun>({ kind: "schedule", status: "failed", spec: scheduled }),
      run<HeartbeatRun>({ kind: "heartbeat", status: "failed" }),
    ].map((one, n) => ({ ...one, createdAt: at + n, endedAt: at + n }));
    await store.commit((tx) => {
      for (const one of [hook, schedule, beat]) tx.runs.add(one as RunRecord);
    });
    await store.close();
    const list = async (...options: string[]): Promise<string[]> => {
      const { out } = await cli.rouse(["runs", "--json", ...options]);
      return (JSON.parse(out) as { runs: { id: string }[] }).runs.map(({ id }) => id);
    };
    expect(await list("--since", "1h")).toEqual([schedule?.id, hook?.id]);
    expect(await list("--kind", "heartbeat")).toEqual([beat?.id]);
    expect(await list("--kind", "all")).toEqual([beat?.id, schedule?.id, hook?.id]);
    expect(await list("--status", "failed")).toEqual([beat?.id, schedule?.id]);
    expect(await list("--status", "failed", "--kind", "schedule")).toEqual([schedule?.id]);
    const latest = await cli.rouse("runs latest --json");
    expect(JSON.parse(latest.out)).toMatchObject({ run: { id: schedule?.id } });
    expect((await cli.rouse(["runs", beat?.id ?? ""])).code).toBe(0);
  });

  it("replays all that matched nothing, once, with a bar on a terminal only", async () => {
    await keep({}, {});
    await cli.write("rouse.json5", shopConfig());
    const dry = await cli.rouse("events replay --unmatched --dry-run", {
      terminal: true,
    });
    expect(dry.out).toContain("2 would be replayed: 2 accepted\n");
    expect(dry.err).toContain("2/2");
    const done = await cli.rouse("events replay --unmatched");
    expect([done.code, done.err]).toEqual([0, ""]);
    expect(done.out).toContain("2 replayed: 2 accepted\n");
    expect((await cli.rouse("events replay --unmatched")).out).toBe("0 replayed\n");
    const { runs } = await cli.json<{
      runs: { sessionKey: string; status: string }[];
    }>("runs");
    expect(runs.map((run) => [run.sessionKey, run.status])).toEqual([
      ["hook:shop:7", "queued"],
      ["hook:shop:7", "queued"],
    ]);
  });

  it("cancels a run that waits, and keeps the order of requests that arrive together", async () => {
    const [id = ""] = await keep({});
    await cli.write("rouse.json5", shopConfig());
    const { out } = await cli.rouse(`events replay ${id} --json`);
    const run =
      (JSON.parse(out) as { result: { actions: { id: string }[] } }).result.actions[0]?.id ?? "";
    const [cancelled, listed] = await Promise.all([
      cli.rouse(`runs cancel ${run}`),
      cli.rouse("agents"),
    ]);
    expect([cancelled.code, cancelled.out, listed.code]).toEqual([0, `${run}  cancelled\n`, 0]);
    await cli.fails(`runs cancel ${run}`, 1, "ended");
    const instead = `the run has ended already (cancelled), so it cannot be cancelled; to start it again, use \`rouse runs retry ${run}\``;
    expect((await cli.rouse(`runs cancel ${run}`)).err).toBe(`rouse: ${instead}\n`);
  });

  it.each([
    ["explain", "evt_x"],
    ["runs", "run_x"],
    ["deliveries", "retry", "dlv_x"],
    ["sessions", "hook:x"],
    ["sessions", "remove", "hook:x", "--history"],
    ["sessions", "remove", "hook:x"],
  ])("%s %s of something that is not there ends with 1", async (...args) => {
    const { code, out, err } = await cli.rouse(args);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(/^rouse: there is no/);
  });

  it("prints one JSON document on every reading command", async () => {
    await cli.write("rouse.json5", shopConfig());
    for (const command of [
      "hooks",
      "events",
      "runs",
      "sessions",
      "sessions main",
      "deliveries",
      "agents",
      "plugins",
      "doctor",
      "config",
      "config --schema",
    ]) {
      const args = [...command.split(" "), "--json"];
      const { code, out, err } = await cli.rouse(args);
      expect([command, code, err]).toEqual([command, 0, ""]);
      expect([command, typeof JSON.parse(out)]).toEqual([command, "object"]);
      expect(out).not.toContain(TOKEN);
    }
  });

  it("copies the store, and never over a file", async () => {
    const [id] = await keep({});
    const { code, out } = await cli.rouse("backup --store copy.db");
    expect([code, out.startsWith(join(cli.dir, "copy.db"))]).toEqual([0, true]);
    expect((await readFile(join(cli.dir, "copy.db"))).includes(String(id))).toBe(true);
    await cli.fails("backup --store copy.db", 2, "already");
  });
});

describe("secrets rotate hooks.token", () => {
  it("names the field where the config gives the token", async () => {
    const file = await cli.write("rouse.json5", shopConfig());
    const { code, err } = await cli.rouse("secrets rotate hooks.token");
    expect(code).toBe(1);
    expect(err).toContain(`hooks.token in ${file}`);
    expect(err).not.toContain(TOKEN);
  });
});

describe("wrong usage", () => {
  it.each([
    ["evnts", "rouse: unknown command 'evnts' (Did you mean events?)\n  `rouse --help`"],
    ["help evnts", "rouse: unknown command 'evnts' (Did you mean events?)\n  `rouse --help`"],
    ["evnts --help", "rouse: unknown command 'evnts' (Did you mean events?)\n  `rouse --help`"],
    ["explain", "rouse: missing required argument 'event'\n  `rouse explain --help`"],
    ["runs cancel", "rouse: missing required argument 'run'\n  `rouse runs cancel --help`"],
    ["events --nope", "rouse: unknown option '--nope'\n  `rouse events --help`"],
    ["--nope", "rouse: unknown option '--nope'\n  `rouse --help`"],
    ["webhooks nope", "rouse: unknown command 'nope'\n  `rouse webhooks --help`"],
  ])("%s: names what is wrong, and the command that shows the usage", async (line, message) => {
    expect(await cli.rouse(line.split(" "))).toMatchObject({
      code: 2,
      out: "",
      err: `${message} shows the usage\n`,
    });
  });

  it("is no name of what is not there: that ends with exit code 1, whatever is named", async () => {
    await cli.write("rouse.json5", shopConfig());
    await cli.rouse(["events"]);
    for (const line of [
      "explain evt_00000000",
      "runs run_00000000",
      "deliveries retry dlv_00000000",
      "failures fgr_nope",
      "failures set fgr_nope --resolve",
      "sessions nope",
      "hooks nope",
      "hooks test nope --path shop --payload rouse.json5",
      "hooks test shop.order --payload none.json",
      "hooks send shop --payload none.json",
      "hooks enable nope",
      "presets nope",
      "test add evt_00000000",
      "test none",
      "tools test nope",
      "approvals nope",
      "approvals decide nope approve",
      "schedules nope",
      "schedules set nope --run",
      "memory set nope text",
      "memory remove nope",
      "knowledge nope",
      "knowledge add none.txt",
      "people decide nope approve",
      "people decide nope revoke",
      "people decide nope unlink",
      "keys revoke nope",
      "secrets rotate nope",
      "plugins add ./none.tgz",
      "store import none.jsonl",
      "restore none",
    ]) {
      const { code, err } = await cli.rouse(line.split(" "));
      expect([line, code]).toEqual([line, 1]);
      expect(err, line).toMatch(/^rouse: /m);
    }
  });

  it("of a file names the file and the reason", async () => {
    await cli.write("rouse.json5", "{}");
    await cli.write("pass", "correct horse battery staple");
    await cli.rouse(["events"]);
    const none = "there is no such file or folder";
    const cases: [string[], string][] = [
      [["restore", "none"], `none cannot be used: ${none}`],
      [
        ["backup", `${cli.dir}-none/x`, "--passphrase-file", "pass"],
        `none/x cannot be used: ${none}`,
      ],
      [
        ["backup", `${cli.dir}.backup`, "--passphrase-file", "."],
        ". cannot be read: it is a folder",
      ],
      [
        ["hooks", "test", "shop.order", "--payload", "none.json"],
        `none.json cannot be read: ${none}`,
      ],
      [["knowledge", "add", "none.txt"], `none.txt cannot be read: ${none}`],
      [["config", "validate", "-c", "none.json5"], `none.json5 cannot be read: ${none}`],
      [["config", "validate", "-c", "."], " cannot be read: it is a folder"],
    ];
    for (const [line, message] of cases)
      expect((await cli.rouse(line)).err, line.join(" ")).toContain(`${message}\n`);
  });
});

describe("help", () => {
  it("is the same behind a command and after the word help", async () => {
    for (const command of [["runs"], ["runs", "cancel"], ["webhooks", "gmail", "setup"]]) {
      const { code, out } = await cli.rouse([...command, "--help"]);
      expect(out).toContain(`Usage: rouse ${command.join(" ")}`);
      expect(await cli.rouse(["help", ...command])).toMatchObject({ code, out });
    }
  });

  it("of a group lists its own commands alone", async () => {
    expect((await cli.rouse(["webhooks", "--help"])).out).not.toContain("Operate:");
  });
});

describe("a list without rows", () => {
  it("says so, and which options chose nothing", async () => {
    await cli.write("rouse.json5", shopConfig());
    const cases: [string, string][] = [
      ["events", "no events\n"],
      ["events --path nope --since 2d", "no events with --path nope --since 2d\n"],
      ["events --refused", "no rejected requests\n"],
      ["runs --status failed", "no runs with --status failed\n"],
      ["deliveries", "no deliveries\n"],
      ["sessions", "no sessions\n"],
      ["approvals", "no approvals\n"],
      [
        "approvals --rules",
        "no rules; `rouse approvals decide <code> approve --always` saves one\n",
      ],
      ["memory", "no notes\n"],
      ["knowledge", "no documents\n"],
      ["keys", "no keys; `rouse keys create <id>` makes one\n"],
      ["people", "no person has linked a channel, and none waits to write\n"],
    ];
    for (const [line, out] of cases)
      expect(await cli.rouse(line.split(" ")), line).toMatchObject({ code: 0, out });
  });

  it("of hooks is an error if no mapping and no event has the path", async () => {
    await cli.write("rouse.json5", shopConfig());
    expect(await cli.rouse(["hooks", "nope"])).toMatchObject({
      code: 1,
      err: 'rouse: no mapping names the path "nope", and no event that came to it is kept; `rouse hooks` shows all paths\n',
    });
    expect((await cli.rouse(["hooks", "shop", "--accept"])).out).toBe(
      "no gateway runs: such secrets are kept in its memory only\n",
    );
  });
});
