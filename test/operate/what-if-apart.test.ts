import { existsSync, readFileSync } from "node:fs";
import { constants, getPriority } from "node:os";
import { afterEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import type { WhatIfEnd } from "../../src/operate/what-if/what-if.ts";
import { createWorld, type World } from "../e2e/world.ts";
import {
  askEnd,
  begin,
  CHANNEL,
  countSent,
  listChildren,
  ORDER,
  REFUND,
  REFUND_TEXT,
} from "./what-if-world.ts";

let world: World;
afterEach(() => world.stop());

const post = async (types: readonly string[]): Promise<void> => {
  for (const [id, type] of types.entries())
    await world.post("/hooks/shop", { type, id, customer: { name: "Ann" } });
};
const add = (mapping: object) => ({ kind: "add", text: JSON.stringify({ ...REFUND, ...mapping }) });
const live = { ...ORDER, deliver: false, channel: undefined, to: undefined };

describe("what a proposed mapping does to the gateway", () => {
  it("is nothing, if its modules loop or never answer: they end within their bounds, and with the process that compares", async () => {
    world = await createWorld({
      workers: false,
      config: { hooks: { mappings: [live], transformTimeoutSeconds: 0.5 } },
      files: {
        "transforms/loop.js": "export default () => { for (;;); };\n",
        "transforms/never.js":
          "export default () => new Promise(() => setInterval(() => undefined, 1000));\n",
      },
    });
    await post(["refund"]);
    for (const module of ["loop.js", "never.js"])
      expect(await askEnd(world, { change: add({ transform: { module } }) })).toMatchObject({
        events: 1,
        changed: 1,
        outcomes: { failed: 1 },
        groups: [{ kind: "rejected", mapping: "shop.refund", count: 1 }],
      });
    // Killed while its module loops, it takes that along: a loop would stay for ever.
    await world.reload({ hooks: { mappings: [live], transformTimeoutSeconds: 600 } });
    const reader = await begin(world, { change: add({ transform: { module: "loop.js" } }) });
    const [child] = listChildren("what-if-child");
    const { pid, group } = child as NonNullable<typeof child>;
    expect(group).toBe(pid);
    expect(getPriority(pid)).toBe(constants.priority.PRIORITY_LOW);
    // Linux may count the priority inside of the group alone.
    if (existsSync(`/proc/${pid}/autogroup`))
      expect(readFileSync(`/proc/${pid}/autogroup`, "latin1")).toMatch(/ nice 5\n$/);
    await world.until(async () => listChildren("transform-worker", group).length > 0);
    process.kill(pid, "SIGKILL");
    expect(await reader.rest()).toMatch(
      /"type":"error","code":"internal","message":"the process that compared ended/,
    );
    await world.until(async () => listChildren("transform-worker", group).length === 0);
    expect(await askEnd(world, { change: { kind: "add", text: REFUND_TEXT } })).toMatchObject({
      events: 1,
      changed: 1,
    });
  });

  it("is nothing, if its expressions loop: they are evaluated elsewhere, and hooks are answered meanwhile", async () => {
    world = await createWorld({
      workers: false,
      config: { hooks: { mappings: [live], transformTimeoutSeconds: 0.5 } },
    });
    await post(["refund", "refund"]);
    const when = "($f := function($n) { $f($n + 1) }; $f(0))";
    let end: WhatIfEnd | undefined;
    const reading = askEnd(world, { change: add({ match: { path: "shop", when } }), last: 2 }).then(
      (found) => (end = found),
    );
    for (let id = 0; !end; id++) {
      expect((await world.post("/hooks/shop", { type: "none", id })).body).toMatchObject({
        outcome: "unmatched",
      });
      // Nothing of the change is evaluated by this process, which is the gateway's, or by children of its own.
      expect(listChildren("transform-worker")).toEqual([]);
      await Promise.race([reading, new Promise((done) => setTimeout(done, 50))]);
    }
    expect(end).toMatchObject({ groups: [{ kind: "rejected", count: 2 }] });
  });

  it("is nothing over 240 events: no run, no message, no other outcome, no metric and no log line", async () => {
    const provider = await createProvider();
    try {
      world = await createWorld({
        logLevel: "trace",
        config: {
          plugins: ["./own.js"],
          channels: { own: {} },
          hooks: { mappings: [ORDER], summary: "quiet" },
          ...modelConfig(provider, { list: [{ id: "main" }] }),
        },
        files: {
          "own.js": CHANNEL,
          "mappings/refunds.json": {
            id: "refunds",
            mappings: [{ ...REFUND, shadow: true, deliver: true, channel: "own", to: "x" }],
          },
        },
      });
      await post(
        Array.from({ length: 240 }, (_, index) => (index % 60 === 0 ? "order" : "refund")),
      );
      await world.until(async () => countSent(world.dir) === 4);
      const read = async (path: string): Promise<unknown> => (await world.admin(path)).body;
      const metrics = async (): Promise<string[]> =>
        String(await read("/metrics"))
          .split("\n")
          .filter((line) => line.startsWith("rouse_") && !/event_loop|overdue/.test(line));
      const look = async (): Promise<unknown[]> => [
        await Promise.all(
          ["events", "runs", "deliveries"].map((what) => read(`/admin/v1/${what}?limit=500`)),
        ),
        await metrics(),
        world.logged.length,
        [provider.requests.length, countSent(world.dir)],
      ];
      const before = await look();
      expect(before.at(-1)).toEqual([4, 4]);
      const change = { kind: "enable", mapping: REFUND.id };
      expect(await askEnd(world, { change })).toMatchObject({
        events: 240,
        changed: 236,
        wouldRun: 236,
      });
      const checked = await world.admin("/admin/v1/changes/check", {
        method: "POST",
        body: JSON.stringify({ change }),
      });
      expect(checked.body.check.whatIf).toMatchObject({ events: 240, wouldRun: 236 });
      const [event] = ((await read("/admin/v1/events?limit=1")) as { events: { id: string }[] })
        .events;
      expect(await read(`/admin/v1/events/${event?.id}/explain`)).toMatchObject({ ok: true });
      expect(await look()).toEqual(before);
    } finally {
      await provider.close();
    }
  });
});
