import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { readMappings } from "../../src/mapping/catalog.ts";
import { listJson } from "../../src/core/files.ts";
import { PRESETS_DIR } from "../../src/mapping/presets.ts";
import { sampleNames } from "../../src/mapping/samples.ts";
import { createCli, shopConfig, type CliWorld } from "./world.ts";

const signs = (preset: string): boolean =>
  "auth" in (JSON.parse(readFileSync(join(PRESETS_DIR, `${preset}.json`), "utf8")) as object);

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

describe("with a running gateway", () => {
  let gateway: StartedGateway;
  let url: string;
  beforeEach(async () => {
    await cli.write("rouse.json5", shopConfig({ log: { level: "silent" } }));
    gateway = await createGateway({
      cwd: cli.dir,
      env: {},
      workers: true,
    });
    ({ url } = await gateway.start());
  });
  afterEach(() => gateway.stop());

  it("posts a hook with the path's token, and then finds its event and its run", async () => {
    await cli.write("order.json", { type: "order", id: 7, customer: { name: "Ada" } });
    const sent = await cli.rouse(
      "hooks send /hooks/shop --payload order.json --idempotency-key №1 --json",
    );
    expect([sent.code, sent.err]).toEqual([0, ""]);
    const { status, answer, requestId } = JSON.parse(sent.out) as {
      status: number;
      requestId: string;
      answer: { runId: string; mapping: string };
    };
    expect([status, answer.mapping]).toEqual([202, "shop.order"]);
    const again = await cli.rouse("hooks send shop --payload order.json --idempotency-key №1");
    expect(again.out).toContain("answered before");
    expect(again.out).toContain(answer.runId);
    expect((await cli.rouse(`explain ${requestId} --request`)).out).toContain(answer.runId);
    expect((await cli.rouse(["runs", answer.runId])).out).toContain("New order 7 from Ada");
    expect((await cli.rouse("events --path /hooks/shop")).out).toContain(requestId);
    expect((await cli.rouse("-crouse.json5 hooks /hooks/shop")).out).toContain("shop.order");
  });

  it("ends with 1 where no mapping matches the hook", async () => {
    await cli.write("refund.json", { type: "refund" });
    const { code, out } = await cli.rouse("hooks send shop --payload refund.json");
    expect(code).toBe(1);
    expect(out).toContain('"outcome": "unmatched"');
  });

  it("waits for the reply of an agent run", async () => {
    await cli.write("hello.json", { message: "Hello" });
    const { code, out } = await cli.rouse("hooks send agent --payload hello.json --wait 20 --json");
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      status: 200,
      answer: { status: "succeeded", reply: expect.stringContaining("[no model]") },
    });
  });

  it("is still reached while the config on disk is broken, and the command says so", async () => {
    await cli.write("rouse.json5", "{ hooks: ");
    await gateway.reload();
    const { code, out } = await cli.rouse("doctor");
    expect(code).toBe(1);
    expect(out).toMatch(/FAIL\s+config\s+the last change could not be taken over/);
    expect((await cli.rouse("agents")).code).toBe(0);
  });

  it("says whose config answers, and tests the file that is named instead", async () => {
    const config = join(cli.dir, "rouse.json5");
    expect(await cli.rouse("runs")).toMatchObject({
      code: 0,
      err: `config: ${config} (the running gateway)\n`,
    });
    const json = await cli.rouse("runs --json");
    expect([json.err, JSON.parse(json.out)]).toEqual([
      "",
      { runs: [], next: null, searchedTo: null, answeredBy: { config } },
    ]);
    await cli.write("hello.json", { message: "Hello" });
    const sent = await cli.rouse("hooks send agent --payload hello.json --json");
    const { requestId } = JSON.parse(sent.out) as { requestId: string };
    const mapping = {
      id: "draft",
      match: { payload: { message: "Hello" } },
      messageTemplate: "by the draft",
    };
    const draft = await cli.write(
      "draft.json5",
      shopConfig({ hooks: { enabled: true, token: "${UNSET}", mappings: [mapping] } }),
    );
    const tested = await cli.rouse(`hooks test draft -c ${draft} --event ${requestId}`);
    expect(tested).toMatchObject({ code: 0, out: expect.stringContaining("by the draft") });
    expect(tested.err).toContain(`config: ${draft} (as it is in the file)`);
  });

  it("follows what comes in, one line each, until Ctrl-C", async () => {
    const post = async (id: number): Promise<void> => {
      await cli.write("order.json", { type: id === 3 ? "refund" : "order", id });
      await cli.rouse("hooks send shop --payload order.json");
    };
    await post(1);
    const follow = (args: string[], count: number) =>
      cli.rouse(["events", "--follow", ...args], {
        onOut(out, interrupt) {
          const lines = out.split("\n").length - 1;
          if (lines === 1) void post(2).then(() => post(3));
          if (lines === count) interrupt();
        },
      });
    const { code, out } = await follow([], 3);
    expect(code).toBe(0);
    const lines = out.trimEnd().split("\n");
    expect(
      lines.map((line) =>
        /^\d\d:\d\d:\d\d {2}evt_\w+ {2}(\w+) +shop {2}(\S+)/.exec(line)?.slice(1),
      ),
    ).toEqual([
      ["accepted", "shop.order"],
      ["accepted", "shop.order"],
      ["unmatched", expect.any(String)],
    ]);
    const json = await follow(
      ["--json", "--outcome", "accepted", "--path", "shop", "--limit", "1"],
      2,
    );
    const events = json.out
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { outcome: string });
    expect(events.map(({ outcome }) => outcome)).toEqual(["accepted", "accepted"]);
  });

  it("ends to follow when the gateway ends", async () => {
    await cli.write("order.json", { type: "order", id: 1 });
    await cli.rouse("hooks send shop --payload order.json");
    const followed = await cli.rouse("events --follow", { onOut: () => void gateway.stop() });
    expect(followed).toMatchObject({
      code: 1,
      err: expect.stringContaining("the gateway has ended"),
    });
  });

  it("ends with a clear error if there are too many readers, or if a filter means nothing", async () => {
    const ended = new AbortController();
    const open = (query = "") =>
      fetch(`${url}/admin/v1/stream${query}`, {
        headers: { authorization: `Bearer ${gateway.operatorToken}` },
        signal: ended.signal,
      });
    expect((await open("?lines=51")).status).toBe(400);
    const readers = await Promise.all(Array.from({ length: 20 }, () => open()));
    expect(readers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(await cli.rouse("events --follow")).toMatchObject({
      code: 1,
      err: expect.stringContaining("20 readers follow the events already; end one of them"),
    });
    ended.abort();
    for (const args of [
      ["--limit", "x"],
      ["--outcome", "done"],
    ]) {
      const { code, out, err } = await cli.rouse(["events", "--follow", ...args]);
      expect([args.join(" "), code > 0, out, err]).toEqual([
        args.join(" "),
        true,
        "",
        expect.stringMatching(/--limit|outcome/),
      ]);
    }
  });

  it("says who holds the state folder when a second one starts", async () => {
    const { code, err } = await cli.rouse("start");
    expect(code).toBe(1);
    expect(err).toContain(`process ${process.pid}`);
  });
});

describe("hooks send to senders that sign", () => {
  const SECRETS: Record<string, string> = {
    notion: "secret_of-the-sender-0123456789",
    "standard-webhooks": "c2VjcmV0LW9mLXRoZS1zZW5kZXItMDE=",
  };
  const own = (id: string, auth: object) => ({
    id,
    match: { path: id },
    auth,
    messageTemplate: "{{n}}",
  });
  let cli: CliWorld;
  let gateway: StartedGateway;
  beforeAll(async () => {
    cli = await createCli();
    const presets = listJson(PRESETS_DIR).map((use) =>
      signs(use) ? { use, secret: SECRETS[use] ?? "a-secret-of-the-sender-0123456789" } : use,
    );
    const mappings = [
      own("basic", { user: "ann", password: "a-password-of-some-length" }),
      own("discord", { scheme: "discord", secret: "d".repeat(64) }),
      own("teams", { scheme: "microsoft-graph", secret: "a-client-state-0123456789" }),
    ];
    await cli.write(
      "rouse.json5",
      shopConfig({
        gateway: { port: 0, publicUrl: "https://hooks.example.com" },
        hooks: { enabled: true, token: "hook-token-0123456789", presets, mappings },
      }),
    );
    gateway = await createGateway({
      cwd: cli.dir,
      env: {},
      workers: false,
    });
    await gateway.start();
  });
  afterAll(async () => {
    await gateway.stop();
    await cli.close();
  });

  it("posts every sample that ships to its preset, each time as a new event", async () => {
    const problems: string[] = [];
    const catalog = readMappings({ presetsDir: PRESETS_DIR, mappingsDir: PRESETS_DIR });
    for (const [preset, entries] of catalog.presets) {
      const samples = entries.flatMap(sampleNames);
      if (samples.length === 0) problems.push(`${preset}: no sample`);
      for (const sample of samples) {
        const events = new Set<string>();
        for (const _ of [1, 2]) {
          const sent = await cli.rouse(`hooks send ${preset} --sample ${sample} --json`);
          const { status, answer, requestId } = JSON.parse(sent.out) as {
            status: number;
            answer: { mapping?: string; results?: object[] };
            requestId: string;
          };
          events.add(requestId);
          if (status !== 202 || !(answer.results || answer.mapping?.startsWith(preset)))
            problems.push(`${preset} ${sample}: ${sent.out}`);
        }
        if (events.size !== 2)
          problems.push(`${preset} ${sample}: the second one was answered as a repeat`);
      }
    }
    expect(problems).toEqual([]);
  });

  it("sets the headers by which the sender names its event", async () => {
    await cli.write("issue.json", {
      action: "opened",
      issue: { number: 1, title: "t" },
      repository: { full_name: "a/b" },
    });
    const { code, out } = await cli.rouse(
      "hooks send github --payload issue.json --event issues.opened --json",
    );
    expect(code).toBe(0);
    const { requestId } = JSON.parse(out) as { requestId: string };
    const explanation = await cli.explain(requestId);
    expect(explanation.event.request.headers).toMatchObject({ "x-github-event": "issues" });
  });

  it("signs in with a name and a password, and puts a secret into a body that has to hold it", async () => {
    await cli.write("n.json", { n: 1, value: [{ clientState: "?" }] });
    for (const path of ["basic", "teams"])
      expect(await cli.rouse(`hooks send ${path} --payload n.json`)).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^202/),
      });
  });

  it("says what it cannot do", async () => {
    await cli.write("n.json", { n: 1 });
    for (const [args, message] of [
      [
        ["discord", "--payload", "n.json"],
        "its sender signs with a private key, and the config holds only the public one",
      ],
      [["teams", "--payload", "n.json"], "the body has no place for the secret"],
      [["basic", "--payload", "n.json", "--event", "x"], "no preset on the path"],
      [
        ["github", "--sample", "issues.open"],
        'has no sample "issues.open". Did you mean "issues.opened"?',
      ],
      [["github"], "--payload, or a recorded one with --sample"],
    ] as const)
      await cli.fails(["hooks", "send", ...args], 2, message);
  });

  it("lists the samples as commands to paste", async () => {
    const { out } = await cli.rouse("hooks send github --sample");
    expect(out).toContain("rouse hooks send github --sample issues.opened\n");
  });
});

it("rouse secrets rotate: a running gateway accepts the new token and rejects the old one", async () => {
  const gateway = await createGateway({
    cwd: cli.dir,
    env: {},
    workers: false,
    port: 0,
  });
  const { url } = await gateway.start();
  const file = join(cli.dir, ".rouse", "hook-token");
  const wake = async (token: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token.trim()}`, "content-type": "application/json" };
    return (await fetch(`${url}/hooks/wake`, { method: "POST", headers, body: '{"text":"hi"}' }))
      .status;
  };
  const before = await readFile(file, "utf8");
  expect(await wake(before)).toBe(200);
  const { code, out, err } = await cli.rouse("secrets rotate hooks.token");
  const after = await readFile(file, "utf8");
  const statuses = [await wake(before), await wake(after)];
  await gateway.stop();
  expect([code, statuses, statSync(file).mode & 0o777]).toEqual([0, [401, 200], 0o600]);
  expect(out).toContain(file);
  expect(out + err).not.toContain(after.trim());
});

it("rouse agents: the command works without a gateway, also if adminPort separates the operator's routes", async () => {
  await cli.write("rouse.json5", shopConfig({ gateway: { port: 0, adminPort: 0 } }));
  expect(await cli.rouse("agents")).toMatchObject({ code: 0, err: "" });
});

it("rouse events --follow: without a gateway, the error names `rouse start`", async () => {
  await cli.fails("events --follow", 1, "rouse start");
});

it("rouse hooks send: without a gateway, the error names `rouse start`", async () => {
  await cli.write("a.json", {});
  expect(await cli.rouse("hooks send wake --payload a.json")).toMatchObject({
    code: 1,
    out: "",
    err: expect.stringContaining("rouse start"),
  });
});

describe("rouse start", () => {
  const bin = fileURLToPath(new URL("../../bin/rouse.js", import.meta.url));
  let child: ChildProcess | undefined;
  afterEach(() => void child?.kill("SIGKILL"));

  async function start(
    ...args: string[]
  ): Promise<{ out: () => string; until(text: string): Promise<void> }> {
    const started = spawn(process.execPath, [bin, "start", "--port", "0", ...args], {
      cwd: cli.dir,
      env: { PATH: process.env["PATH"], ROUSE_LOG_LEVEL: "silent" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = started;
    let out = "";
    for (const stream of [started.stdout, started.stderr])
      stream.on("data", (chunk: Buffer) => void (out += chunk.toString()));
    const until = async (text: string): Promise<void> => {
      while (!out.includes(text)) {
        if (started.exitCode !== null) throw new Error(`ended early: ${out}`);
        await new Promise((done) => setTimeout(done, 20));
      }
    };
    await until("listens on");
    return { out: () => out, until };
  }

  it("prints a line to paste that works, whose reply appears, and ends with success on SIGTERM", async () => {
    const gateway = await start();
    await gateway.until("-d '");
    const token = (await readFile(join(cli.dir, ".rouse", "hook-token"), "utf8")).trim();
    const line = /^ {2}(curl .*)$/m.exec(gateway.out())?.[1] ?? "";
    expect(line).toContain("hook-token");
    if (spawnSync("curl", ["--version"]).status === 0) {
      const answer = spawnSync("sh", ["-c", line], { encoding: "utf8" });
      expect(JSON.parse(answer.stdout)).toMatchObject({ ok: true, status: "queued" });
      await gateway.until("[no model]");
    }
    expect(gateway.out()).not.toContain(token);
    child?.kill("SIGTERM");
    expect(await once(child as ChildProcess, "exit")).toEqual([0, null]);
  });

  it("takes a changed config over on SIGHUP, and keeps the old one if the new one is broken", async () => {
    await cli.write("rouse.json5", shopConfig());
    const gateway = await start("--no-workers");
    await gateway.until("hooks send agent");
    // The printed line works as it is, from any folder.
    const line = /^ {2}(echo .*)$/m.exec(gateway.out())?.[1] ?? "";
    const sent = spawnSync("sh", ["-c", line], { cwd: "/", encoding: "utf8" });
    expect([sent.stderr, sent.stdout]).toEqual(["", expect.stringMatching(/^202 /)]);
    expect(gateway.out()).toMatch(/^ {2}console http:\/\/127\.0\.0\.1:\d+\/console /m);
    await cli.write("rouse.json5", "{ hooks: ");
    child?.kill("SIGHUP");
    await gateway.until("the one before it stays in use");
    expect((await cli.rouse("hooks")).out).toContain("shop.order");
    child?.kill("SIGINT");
    expect(await once(child as ChildProcess, "exit")).toEqual([0, null]);
  });
});
