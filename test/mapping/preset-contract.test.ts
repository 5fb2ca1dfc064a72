import { readdirSync } from "node:fs";
import { expect, it } from "vitest";
import { presetContract } from "../contract/preset.ts";
import { createWorld } from "../e2e/world.ts";
import { PRESETS } from "./world.ts";

const names = readdirSync(PRESETS)
  .filter((name) => name.endsWith(".json"))
  .map((name) => name.slice(0, -".json".length));

for (const name of names) presetContract(name);

it("all presets work beside each other", async () => {
  const world = await createWorld({ start: false, workers: false, config: { hooks: { presets: names } } });
  expect(world.gateway.status().warnings).toEqual([]);
  await world.stop();
});

it("options choose path, events, agent and recipient; what is left out is recorded", async () => {
  const world = await createWorld({
    workers: false,
    config: {
      agents: { list: [{ id: "main" }, { id: "ops" }] },
      hooks: {
        presets: [
          { use: "healthchecks", path: "hc", events: ["down"], agentId: "ops", channel: "console", to: "ops", deliver: true },
          { use: "pagerduty", events: ["incident"] },
          { use: "pagerduty", path: "pd2" },
        ],
      },
    },
  });
  const down = await world.post("/hooks/hc", { check: "Backup", code: "c", status: "down" });
  expect(down.status).toBe(202);
  const { run } = (await world.admin(`/admin/v1/runs/${down.body.runId}`)).body;
  expect([run.agentId, run.channel, run.to, run.deliver]).toEqual(["ops", "console", "ops", true]);
  const up = await world.post("/hooks/hc", { check: "Backup", code: "c", status: "up" });
  expect(up.status).toBe(204);
  expect((await world.get(`/hooks/events/${up.headers.get("x-request-id")}`)).body.event).toMatchObject({
    outcome: "skipped",
    reason: 'the event "up" is not among the preset\'s `events`',
  });
  expect((await world.post("/hooks/healthchecks", { check: "Backup", code: "c", status: "down" })).status).toBe(404);
  const incident = { event: { event_type: "incident.triggered", data: { type: "incident", id: "1", title: "x", number: 1 } } };
  expect((await world.post("/hooks/pagerduty", incident)).body.mapping).toBe("pagerduty.incident");
  expect((await world.post("/hooks/pd2", incident)).body.mapping).toBe("pagerduty.incident@pd2");
  await world.stop();
});

it.each([
  [{ use: "githbu" }, 'hooks.presets[0]: there is no preset of this name. Did you mean "github"?'],
  [{ use: "github", secret: "short" }, "hooks.presets[0].secret: must have at least 12 characters"],
  [{ use: "healthchecks", secret: "a-long-enough-secret" }, "hooks.presets[0].secret: this preset has no signature"],
  [{ use: "gmail", events: ["x"] }, "hooks.presets[0].events: this preset does not tell its events apart"],
  [{ use: "github", agentId: "nobody" }, "names no agent"],
  [{ use: "github", sekret: "x" }, "hooks.presets[0]"],
])("%j is told when the config is loaded", async (use, message) => {
  await expect(createWorld({ start: false, config: { hooks: { presets: [use] } } })).rejects.toThrow(message);
});

it("a mapping file of one's own may name a scheme and take its secret from the environment", async () => {
  const world = await createWorld({
    workers: false,
    env: { ACME_SECRET: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3" },
    files: {
      "mappings/acme.json": {
        id: "acme",
        version: 1,
        auth: { scheme: "standard-webhooks", secret: "${ACME_SECRET}" },
        mappings: [
          { id: "acme.order", match: { path: "acme", payload: { type: "order.created" } }, messageTemplate: "New order {{data.id}}" },
        ],
      },
    },
  });
  expect((await world.post("/hooks/acme", { type: "order.created" })).status).toBe(401);
  await world.stop();
});
