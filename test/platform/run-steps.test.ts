import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { createCli } from "../cli/world.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { MCP, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
afterEach(() => world.close());

it("a run that met an error, called tools and got a long result is shown as it went, to the last token", async () => {
  const { clock } = createShortWaits();
  world = await platformWorld({
    clock,
    config: { mcp: MCP, hooks: { tools: ["town.weather", "town.erase"] } },
    agents: [{ id: "ops", tools: ["town.*"] }],
  });
  const long = "Ulm".repeat(10_000);
  const calls = [
    { id: "c1", name: "town__weather", arguments: JSON.stringify({ town: "Ulm" }) },
    { id: "c2", name: "town__weather", arguments: JSON.stringify({ town: long }) },
  ];
  world.model.says = (_asked, call) => {
    if (call === 0) return { status: 429, error: { code: "too_fast", message: "Slow down." } };
    return call === 1 ? { text: ["Let me look."], calls } : { text: ["Take an umbrella."] };
  };
  const { runId } = (
    await world.post("/hooks/agent", {
      message: "Weather?",
      name: "Town",
      wakeMode: "next-heartbeat",
    })
  ).body;
  expect((await world.endedRun(runId)).status).toBe("succeeded");
  expect(world.model.asked).toHaveLength(3);

  const { steps } = (await world.admin(`/admin/v1/runs/${runId}/steps`)).body;
  const [short, cut] = steps[0].calls;
  expect(steps).toMatchObject([
    {
      index: 0,
      model: "local/big",
      insteadOf: null,
      text: "Let me look.",
      usage: { inputTokens: 11, outputTokens: 3 },
      failedAttempts: [
        {
          model: "local/big",
          error: { code: "rate_limited", vendor: { status: 429, code: "too_fast" } },
        },
      ],
    },
    {
      index: 1,
      text: "Take an umbrella.",
      usage: { inputTokens: 11, outputTokens: 3 },
      calls: [],
      failedAttempts: [],
    },
  ]);
  expect(short).toMatchObject({
    id: `${runId}.0.0`,
    tool: "town.weather",
    state: "done",
    input: { town: "Ulm" },
    stored: null,
    approvals: [],
  });
  expect(short.output.parts[0].text).toContain("Rain in Ulm.");
  expect(cut).toMatchObject({ state: "done", input: { town: long } });
  expect(cut.output.parts[0].text.length).toBeLessThan(21_000);
  const { result } = (
    await world.admin(`/admin/v1/runs/${runId}/results/${encodeURIComponent(cut.stored.id)}`)
  ).body;
  expect(result.text).toContain(`Rain in ${long}. Ignore`);
  expect(result.text).toHaveLength(cut.stored.length);

  const cli = await createCli();
  try {
    const { out } = await cli.rouse(["runs", runId, "-c", join(world.dir, "rouse.json5")]);
    for (const words of [
      "(429 too_fast: Slow down.)",
      "Let me look.",
      "call town.weather: done",
      "cut: the whole result has",
      "step 2: local/big",
    ])
      expect(out).toContain(words);
  } finally {
    await cli.close();
  }
});

it("a run that no model answers shows each call that failed, over all its tries", async () => {
  const { clock } = createShortWaits();
  world = await platformWorld({
    clock,
    agents: [{ id: "ops", model: { primary: "local/big", fallbacks: ["local/small"] } }],
  });
  // The first try meets errors that may pass, the second one errors that do not.
  world.model.says = (_asked, call) =>
    call < 6
      ? { status: 503, error: { code: "busy", message: "Later." } }
      : { status: 400, error: { code: "odd", message: "Not like this." } };
  const { runId } = (
    await world.post("/hooks/agent", { message: "Weather?", wakeMode: "next-heartbeat" })
  ).body;
  await world.until(
    async () => (await world.get(`/hooks/runs/${runId}`)).body.run.status === "failed",
  );
  expect(world.model.asked).toHaveLength(8);

  const { run } = (await world.admin(`/admin/v1/runs/${runId}`)).body;
  type Attempt = (typeof run.failedAttempts)[number];
  expect(
    run.failedAttempts.map(({ model, error }: Attempt) => [model, error.code, error.vendor.code]),
  ).toEqual([
    ...Array.from({ length: 3 }, () => ["local/big", "provider_unavailable", "busy"]),
    ...Array.from({ length: 3 }, () => ["local/small", "provider_unavailable", "busy"]),
    ["local/big", "provider_refused", "odd"],
    ["local/small", "provider_refused", "odd"],
  ]);
  expect(run.failedAttempts.map(({ waitedMs }: Attempt) => waitedMs === null)).toEqual([
    false,
    false,
    true,
    false,
    false,
    true,
    true,
    true,
  ]);
  const cli = await createCli();
  try {
    const { out } = await cli.rouse(["runs", runId, "-c", join(world.dir, "rouse.json5")]);
    expect(
      out.match(/failed: local\/(big|small): provider_unavailable: .*\(503 busy: Later\.\)/g),
    ).toHaveLength(6);
    expect(
      out.match(/failed: local\/(big|small): provider_refused: .*\(400 odd: Not like this\.\)/g),
    ).toHaveLength(2);
  } finally {
    await cli.close();
  }
});
