import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CliIo } from "../../src/cli/io.ts";
import { runCommandLine } from "../../src/cli/run.ts";
import { gate } from "./model.ts";
import { platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
beforeEach(async () => {
  world = await platformWorld();
});
afterEach(() => world.close());

interface Ran {
  code: number;
  out: string;
  err: string;
}

/** Runs a command as in a terminal where `lines` are typed, or in a pipe without. */
async function rouse(
  args: string[],
  { lines, env = {} }: { lines?: string[]; env?: Record<string, string> } = {},
): Promise<Ran> {
  const ran: Ran = { code: 0, out: "", err: "" };
  const isTerminal = lines !== undefined;
  const io: CliIo = {
    out: (text) => void (ran.out += text),
    err: (text) => void (ran.err += text),
    env,
    cwd: world.dir,
    terminal: {
      in: isTerminal,
      out: isTerminal,
      err: isTerminal,
      columns: isTerminal ? 80 : undefined,
    },
    ask: async () => lines?.shift(),
    onInterrupt(listener) {
      interrupt = listener;
      return () => void (interrupt = undefined);
    },
    now: () => Date.now(),
    exitCode: 0,
  };
  ran.code = await runCommandLine(args, io);
  return ran;
}

let interrupt: (() => void) | undefined;
const sessionKeys = async () =>
  (await world.admin("/admin/v1/sessions?origin=api")).body.sessions.map(
    ({ key }: { key: string }) => key,
  );

describe("rouse chat", () => {
  it("says one thing and prints the answer", async () => {
    expect(await rouse(["chat", "ops", "--message", "Say it."])).toEqual({
      code: 0,
      out: "fine\n",
      err: expect.stringMatching(/^config: .*\n$/),
    });
    expect(world.model.asked[0]?.body).toMatchObject({ stream: true });
    expect(await sessionKeys()).toEqual([]);
  });

  it("is one session, line after line, and says how to continue it", async () => {
    world.model.says = (asked) => ({ text: [`${asked.body.messages.length - 1}\u001b[31m`] });
    const first = await rouse(["chat"], { lines: ["one", "", "two"] });
    expect(first.out).toBe("1[31m\n3[31m\n");
    const session = /--session (\S+)/.exec(first.err)?.[1] ?? "";
    expect(await sessionKeys()).toEqual([`api:operator:ops:${session}`]);
    const again = await rouse(["chat", "--session", session, "-m", "three", "--json"]);
    expect(JSON.parse(again.out)).toMatchObject({
      ok: true,
      session,
      runId: expect.stringMatching(/^run_/),
      reply: expect.stringMatching(/^5/),
    });
  });

  it("lists the passages that the answer names in its words, and not those whose number is in its code", async () => {
    for (const [name, text] of [
      ["returns.md", "The warehouse takes returns within thirty days."],
      ["repairs.md", "The warehouse repairs within ninety days."],
    ] as const) {
      writeFileSync(join(world.dir, name), text);
      expect((await rouse(["knowledge", "add", join(world.dir, name)])).code).toBe(0);
    }
    const search = {
      id: "call_1",
      name: "knowledge_search",
      arguments: JSON.stringify({ query: "warehouse days" }),
    };
    world.model.says = (_asked, call) =>
      call === 0 ? { calls: [search] } : { text: ["After [2], not in `a[1]`."] };
    const { code, err } = await rouse(["chat", "sales", "-m", "How long?"]);
    expect(code).toBe(0);
    expect(err.match(/^\[\d\] .*$/gm)).toEqual([
      expect.stringMatching(/^\[2\] (returns|repairs)\.md {2}\S+#0$/),
    ]);
  });

  it("stops a turn on Ctrl-C, and continues", async () => {
    const never = gate();
    world.model.says = (_asked, call) => ({
      text: ["one", "two"],
      wait: (piece) => (call === 0 && piece === 1 ? never.passed : Promise.resolve()),
    });
    const lines = ["first", "second"];
    const chatting = rouse(["chat"], { lines });
    await world.until(
      async () =>
        (await world.admin("/admin/v1/runs?status=running")).body.runs.length === 1 &&
        interrupt !== undefined,
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    interrupt?.();
    const { out, err } = await chatting;
    expect(out).toBe("one\nonetwo\n");
    expect(err).toContain("stopped\n");
    expect(world.model.asked[0]?.gone.aborted).toBe(true);
    const { body } = await world.admin("/admin/v1/runs");
    expect(body.runs.map(({ status }: { status: string }) => status)).toEqual([
      "succeeded",
      "cancelled",
    ]);
    never.open();
  });

  it("reports a failure, and ends with 1, or continues in a terminal", async () => {
    world.model.says = (_asked, call) => {
      if (call < 2) return { status: [404, 400][call] ?? 0 };
      return { text: ["well"] };
    };
    const failed = await rouse(["chat", "-m", "x"]);
    expect([failed.code, failed.err]).toEqual([
      1,
      expect.stringContaining('the provider "local" answered 404'),
    ]);
    const { out, err } = await rouse(["chat"], { lines: ["x", "y"] });
    expect([out, err]).toEqual(["well\n", expect.stringContaining("answered 400")]);
    expect((await rouse(["chat", "nobody", "-m", "x"])).err).toContain("rouse agents");
    expect((await rouse(["chat", "-m", " "])).code).toBe(2);
  });

  it("works where no gateway runs", async () => {
    await world.gateway.stop();
    expect(await rouse(["chat", "-m", "Say it."])).toEqual({ code: 0, out: "fine\n", err: "" });
  });
});

describe("rouse keys", () => {
  it("makes a key that works immediately, shows it once, and takes it back", async () => {
    const made = await rouse([
      "keys",
      "create",
      "phone",
      "--agents",
      "ops,sales",
      "--scopes",
      "chat",
      "--rate",
      "60/1m",
    ]);
    const key = /^rk_\S+$/m.exec(made.out)?.[0] ?? "";
    expect(made.out).toContain("\nagents\n  ops\n  sales\n");
    expect(made.out).toContain("60/60s");
    expect((await world.chat({}, { key })).status).toBe(200);
    const list = await rouse(["keys"]);
    expect(list.out).toMatch(/phone +phone +ops sales +60\/60s/);
    expect(list.out).not.toContain("rk_");
    expect(await rouse(["keys", "revoke", "phone"])).toMatchObject({
      code: 0,
      out: expect.stringContaining("revoked"),
    });
    expect((await world.chat({}, { key })).status).toBe(401);
  });

  it("say what is wrong", async () => {
    expect((await rouse(["keys", "create", "phone", "--rate", "many"])).err).toContain("60/1m");
    expect((await rouse(["keys", "create", "phone", "--clean", "all"])).err).toContain("clean");
    expect((await rouse(["keys", "create", "web"])).code).toBe(2);
    expect((await rouse(["keys", "revoke", "nobody"])).code).toBe(1);
  });

  it("work where no gateway runs; the next one knows the key", async () => {
    await world.gateway.stop();
    const made = await rouse(["keys", "create", "phone", "--json"]);
    expect(made.code).toBe(0);
    expect((await rouse(["keys"])).out).toContain("phone");
  });
});
