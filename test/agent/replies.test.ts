import { describe, expect, it } from "vitest";
import anthropic from "../../plugins/anthropic/index.ts";
import google from "../../plugins/google/index.ts";
import openai from "../../plugins/openai/index.ts";
import compatible from "../../plugins/openai-compatible/index.ts";
import { parseAck, stripAck } from "../../src/turns/heartbeat.ts";
import { cleanReply, createReplyCleaner } from "../../src/agent/reply/disarm.ts";
import { createModels } from "../../src/agent/models.ts";
import { configSchema } from "../../src/config/schema/index.ts";
import { batchSize, isHopeless, selectBatch } from "../../src/queue/heartbeat.ts";
import type { SystemEvent } from "../../src/store/types.ts";

describe("heartbeat acknowledgements", () => {
  it.each([
    ["HEARTBEAT_OK", true],
    ["**HEARTBEAT_OK**", true],
    ["HEARTBEAT_OK.", true],
    ["`HEARTBEAT_OK`!!!", true],
    ["<b>HEARTBEAT_OK</b>", true],
    ["HEARTBEAT_OK nothing new", true],
    ["All quiet. HEARTBEAT_OK", true],
    [`HEARTBEAT_OK ${"x".repeat(300)}`, true],
    [`HEARTBEAT_OK ${"x".repeat(301)}`, false],
    ["I said HEARTBEAT_OK in the middle of it", false],
    ["HEARTBEAT_OKAY", false],
    ["Look at the disk!", false],
  ])("%s", (reply, acknowledged) => expect(parseAck(reply, 300).acknowledged).toBe(acknowledged));

  it("are cut off a hook run's reply, and the rest is delivered", () => {
    expect(stripAck("HEARTBEAT_OK")).toBe("");
    expect(stripAck("Done. HEARTBEAT_OK")).toBe("Done.");
    expect(stripAck("Nothing of it")).toBe("Nothing of it");
  });
});

describe("replies", () => {
  it("keep links to listed hosts only, and count the others", () => {
    const { text, removedLinks } = cleanReply(
      "[a](https://ok.example/x) [b](https://bad.example/x) https://bad.example/?d=1 https://sub.ok.example/ <https://bad.example> ![i](https://bad.example/i.png)",
      ["ok.example", "*.ok.example"],
    );
    expect(text).not.toContain("bad.example");
    expect(text).toContain("[a](https://ok.example/x)");
    expect(text).toContain("https://sub.ok.example/");
    expect(removedLinks).toBe(4);
  });
  it("keep links in code, whatever their host", () => {
    const code =
      "`https://bad.example` and ``[a](https://bad.example)``\n\n```\n[a](//bad.example)\nhttps://bad.example\n```";
    expect(cleanReply(code, ["ok.example"])).toEqual({ text: code, removedLinks: 0 });
    expect(cleanReply("[a `b` c](//bad.example)", ["ok.example"]).text).toBe("a `b` c");
    const cleaner = createReplyCleaner(["ok.example"]);
    expect([...code].map((sign) => cleaner.push(sign)).join("") + cleaner.end()).toBe(code);
  });
});

describe("models", () => {
  const kinds = [openai, anthropic, google, compatible].flatMap(({ providers }) => providers);
  const models = (config: object, env = {}) =>
    createModels({ config: configSchema.parse(config), env, kinds });
  const local = {
    models: {
      providers: { local: { type: "openai-compatible", baseUrl: "http://127.0.0.1:1/v1" } },
      aliases: { quick: "local/small" },
    },
  };

  it("come from the config, then from keys in the environment, then there is the echo", () => {
    expect(models({}).models.default.ref).toBe("builtin/echo");
    expect(models({}, { ANTHROPIC_API_KEY: "k" }).models.default.provider).toBe("anthropic");
    expect(
      models({ ...local, agents: { defaults: { model: "quick" } } }, { OPENAI_API_KEY: "k" }).models
        .default.ref,
    ).toBe("local/small");
  });
  it("are compared with the allow-list once both are resolved", () => {
    const { models: set } = models({ ...local, agents: { defaults: { models: ["quick"] } } });
    expect(set.resolveRequested("local/small")).toMatchObject({ ok: true });
    expect(set.resolveRequested("local/big")).toMatchObject({
      ok: false,
      code: "model_not_allowed",
    });
    expect(set.resolve("local/big")).toMatchObject({ ok: true });
    expect(
      models({ ...local, agents: { defaults: { models: [] } } }).models.resolveRequested("quick"),
    ).toMatchObject({
      code: "model_not_allowed",
    });
    expect(set.resolveRequested("locla/x")).toMatchObject({
      code: "unknown_model",
      message: expect.stringContaining('"local"'),
    });
    expect(set.resolveRequested("local/a/b:c")).toMatchObject({ code: "model_not_allowed" });
  });
  it("that the config names wrongly are problems with their paths", () => {
    const { issues } = models({
      models: {
        providers: { p: { type: "openai-compatible" } },
        aliases: { a: "gone/x", b: { primary: "p/x", fallbacks: ["gone/y"] } },
        prices: { a: { input: 1, output: 1 } },
      },
      agents: {
        defaults: { model: "c" },
        list: [
          { id: "x", model: "q/y" },
          { id: "z", model: { primary: "p/x", fallbacks: ["d", "builtin/echo"] } },
        ],
      },
    });
    expect(issues.map((issue) => issue.path)).toEqual([
      "models.providers.p.baseUrl",
      "models.aliases.a",
      "models.aliases.b",
      "models.prices.a",
      "agents.defaults.model",
      "agents.list[0].model",
      "agents.list[1].model.fallbacks[0]",
      "agents.list[1].model.fallbacks[1]",
    ]);
  });
});

describe("heartbeat batches", () => {
  const event = (failures: number, chars = 10): SystemEvent => ({
    seq: 1,
    id: "s",
    agentId: "main",
    at: 0,
    text: [{ text: "x".repeat(chars), outside: true }],
    source: "h",
    mode: "now",
    unsafe: false,
    state: "queued",
    failures,
  });
  it("hold at most 50 events and 16,000 characters, and one at least", () => {
    expect(selectBatch(Array.from({ length: 80 }, () => event(0)))).toHaveLength(50);
    expect(selectBatch([event(0, 9000), event(0, 9000)])).toHaveLength(1);
    expect(selectBatch([event(0, 99_000)])).toHaveLength(1);
  });
  it("are halved after three failures, until one event alone is hopeless", () => {
    expect([0, 2, 3, 4, 8, 9].map(batchSize)).toEqual([50, 50, 25, 12, 1, 1]);
    expect(isHopeless([event(9)])).toBe(true);
    expect(isHopeless([event(2)])).toBe(false);
    expect(isHopeless([event(9), event(9)])).toBe(false);
  });
});
