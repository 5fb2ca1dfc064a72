import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { BODY_GONE } from "../../src/vocabulary/body-gone.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

const MAPPING = {
  id: "shop.order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}}",
  deliver: false,
};

/** Bodies are removed every few minutes: here ten times a second. */
const clock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 100), signal),
};

let cli: CliWorld;
let world: World;
let id: string;
/** An event that was in a list, and whose body `hooks.retention` removed before it was chosen. */
beforeAll(async () => {
  cli = await createCli();
  world = await createWorld({
    dir: cli.dir,
    clock,
    config: { hooks: { mappings: [MAPPING], retention: "1s" } },
  });
  await cli.write("next.json5", {
    hooks: { mappings: [{ ...MAPPING, messageTemplate: "Changed {{id}}" }] },
  });
  await world.post("/hooks/shop", { type: "refund", id: 1 });
  const { events } = await cli.json<{
    events: { id: string }[];
  }>("events");
  id = events[0]?.id ?? "";
  await world.until(async () => {
    const { body } = await world.admin(`/admin/v1/events/${id}`);
    return (body as { event: { request: { body: string | null } } }).event.request.body === null;
  });
});
afterAll(async () => {
  await world.stop();
  await cli.close();
});

describe("an event whose body was removed between list and click", () => {
  it.each([
    ["test add EVENT", 1],
    ["hooks test --event EVENT", 1],
    ["propose fresh --event EVENT", 1],
    ["events replay EVENT", 1],
    ["explain EVENT", 0],
    ["explain EVENT --json", 0],
    ["hooks diff --config next.json5 --path shop", 0],
    ["events replay --path shop --dry-run", 1],
    ["explain EVENT --request", 0],
  ])("rouse %s says so, and what to do", async (command, expected) => {
    const { code, out, err } = await cli.rouse(
      command.split(" ").map((word) => (word === "EVENT" ? id : word)),
    );
    expect([code, out + err]).toEqual([expected, expect.stringMatching(/no longer kept/)]);
    if (!command.includes("diff") && !/--dry-run|explain/.test(command))
      expect(out + err).toContain(
        `${BODY_GONE}: choose a newer event, or raise hooks.retention for events to come`,
      );
    expect(readdirSync(cli.dir)).not.toContain("tests");
    expect(readdirSync(cli.dir)).not.toContain("mappings");
  });
});
