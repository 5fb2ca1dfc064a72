import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, type World } from "./world.ts";

const mapping = (id: string, more: object = {}) => ({
  id,
  match: { path: id },
  name: id,
  messageTemplate: "work on {{n}}",
  deliver: false,
  ...more,
});
const RUN_AND_HEARTBEAT = ["run", "heartbeat"];

let provider: Provider;
let world: World | undefined;
beforeEach(async () => {
  provider = await createProvider();
  provider.answer = (request) =>
    provider.text(request).includes("This is a heartbeat") ? "HEARTBEAT_OK" : "done";
});
afterEach(async () => {
  await world?.stop();
  await provider.close();
});

/** One turn at a time: what a run sets going comes before the run that is posted after its end. */
async function start(hooks: object, files: Record<string, string> = {}): Promise<World> {
  const { agents, ...rest } = modelConfig(provider) as { agents: { defaults: object } };
  const defaults = { ...agents.defaults, maxConcurrent: 1 };
  return (world = await createWorld({ config: { ...rest, agents: { defaults }, hooks }, files }));
}

const calls = (): string[] =>
  provider.requests.map((request) =>
    provider.text(request).includes("This is a heartbeat") ? "heartbeat" : "run",
  );

/** The model calls that a hook leads to. */
async function callsOf(
  here: World,
  path: string,
  body: object,
): Promise<{ calls: string[]; warnings?: string[] }> {
  provider.requests.length = 0;
  const run = async (to: string, what: object) => {
    const { body: answer } = await here.post(`/hooks/${to}`, what);
    await here.endedRun(answer.runId);
    return answer;
  };
  const { warnings } = await run(path, body);
  await run("agent", { message: "the last one", deliver: false, wakeMode: "next-heartbeat" });
  const last = provider.requests.findIndex((request) =>
    provider.text(request).includes("the last one"),
  );
  return { calls: calls().slice(0, last), ...(warnings === undefined ? {} : { warnings }) };
}

const queued = async (here: World): Promise<string[]> =>
  (await here.admin("/admin/v1/sessions/show?key=main")).body.queued.map(
    ({ text }: { text: { text: string }[] }) => text.map((part) => part.text).join(""),
  );

describe("the summary of a hook's run", () => {
  it("starts a heartbeat, a second model call, unless the caller or the mapping says otherwise", async () => {
    const here = await start({
      mappings: [mapping("loud"), mapping("later", { wakeMode: "next-heartbeat" })],
    });
    expect(await callsOf(here, "agent", { message: "x", deliver: false })).toEqual({
      calls: RUN_AND_HEARTBEAT,
    });
    expect(await callsOf(here, "loud", { n: 1 })).toEqual({ calls: RUN_AND_HEARTBEAT });
    expect(await callsOf(here, "later", { n: 1 })).toEqual({ calls: ["run"] });
  });

  it("with `hooks.summary` quiet waits for the next heartbeat, whoever calls, also where the run failed", async () => {
    const here = await start({ summary: "quiet", mappings: [mapping("calm")] });
    expect(await callsOf(here, "agent", { message: "x", deliver: false })).toEqual({
      calls: ["run"],
    });
    expect(await callsOf(here, "calm", { n: 1 })).toEqual({ calls: ["run"] });
    const asked = await callsOf(here, "agent", { message: "x", deliver: false, wakeMode: "now" });
    expect(asked).toEqual({
      calls: ["run"],
      warnings: [expect.stringContaining("`summary` is `quiet`")],
    });
    const { answer } = provider;
    provider.answer = (request, response) =>
      provider.text(request).includes("break")
        ? void response.writeHead(400).end("{}")
        : answer(request, response);
    expect(await callsOf(here, "agent", { message: "break", name: "Bad", deliver: false })).toEqual(
      { calls: ["run"] },
    );
    expect(await queued(here)).toEqual(
      expect.arrayContaining(["Hook calm: done", expect.stringMatching(/^Hook Bad failed: /)]),
    );
    provider.requests.length = 0;
    await here.post("/hooks/wake", { text: "look now" });
    await here.until(async () => calls().includes("heartbeat"));
    expect(provider.text(provider.requests[0] as never)).toContain("Hook calm: done");
  });

  it("follows the mapping's own `summary`; a preset's run makes one call unless its options say `now`", async () => {
    const presets = [
      { use: "uptime-kuma", deliver: false },
      { use: "uptime-kuma", path: "alarm", wakeMode: "now", deliver: false },
      { use: "uptime-kuma", path: "calm", wakeMode: "now", summary: "quiet", deliver: false },
    ];
    const here = await start({
      presets,
      mappings: [mapping("quiet", { summary: "quiet" }), mapping("loud", { summary: "heartbeat" })],
    });
    expect(await callsOf(here, "quiet", { n: 1 })).toEqual({ calls: ["run"] });
    expect(await callsOf(here, "loud", { n: 1 })).toEqual({ calls: RUN_AND_HEARTBEAT });
    const event = {
      monitor: { id: 1, name: "shop", url: "https://shop.example" },
      heartbeat: { status: 0, msg: "timeout" },
      msg: "down",
    };
    expect(await callsOf(here, "uptime-kuma", event)).toEqual({ calls: ["run"] });
    expect(await callsOf(here, "alarm", event)).toEqual({ calls: RUN_AND_HEARTBEAT });
    expect((await callsOf(here, "calm", event)).calls).toEqual(["run"]);
    await world?.stop();
    const opposite = await start({
      summary: "quiet",
      mappings: [mapping("loud", { summary: "heartbeat" })],
    });
    expect(await callsOf(opposite, "loud", { n: 1 })).toEqual({ calls: RUN_AND_HEARTBEAT });
  });

  it("is the operator's alone: no request, template or transform sets it", async () => {
    const here = await start(
      { mappings: [mapping("plain"), mapping("made", { transform: { module: "made.ts" } })] },
      { "transforms/made.ts": `export default () => ({ message: "x", summary: "quiet" });` },
    );
    const asked = await callsOf(here, "agent", { message: "x", deliver: false, summary: "quiet" });
    expect(asked).toEqual({
      calls: RUN_AND_HEARTBEAT,
      warnings: [expect.stringContaining('"summary" is not known')],
    });
    expect(await callsOf(here, "plain", { n: 1, summary: "quiet" })).toEqual({
      calls: RUN_AND_HEARTBEAT,
    });
    expect((await here.post("/hooks/made", {})).body.error.code).toBe("transform_failed");
  });

  it("has no effect for a wake, and loading says so", async () => {
    const wake = {
      id: "w",
      match: { path: "w" },
      action: "wake",
      textTemplate: "x",
      summary: "quiet",
    };
    await expect(createWorld({ config: { hooks: { mappings: [wake] } } })).rejects.toThrow(
      /mappings\[0\]\.summary: has no effect/,
    );
  });
});
