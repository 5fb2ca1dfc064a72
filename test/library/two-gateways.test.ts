import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { definePlugin, type DeliveryView, type EventView } from "rouse";
import { embed, hook, keepingLog, ownFolder, until } from "./support.ts";

/** One of two gateways that have nothing in common but the process, and names: of plugins, paths, mappings and schemas. */
async function createSide(name: string, startedAt: number) {
  const cwd = ownFolder();
  const log = keepingLog();
  const sent: string[] = [];
  const requested: string[] = [];
  const acme = definePlugin({
    id: "acme",
    channel: ({ stateDir, clock, fetch }) => ({
      defaultTo: name,
      async send({ to, text }) {
        sent.push(`${to} ${text}`);
        await writeFile(join(await stateDir(), "last"), `${name} ${clock.now()}`);
        await fetch("https://vendor.example/send");
        return { status: "sent" };
      },
    }),
  });
  mkdirSync(join(cwd, "transforms"));
  writeFileSync(
    join(cwd, "transforms", "own.ts"),
    `export default ({ payload }) => ({ message: ${JSON.stringify(name)} + payload.text });\n`,
  );
  const validate = { $id: "https://schemas.example/own", type: "object", required: [name] };
  let now = startedAt;
  const gateway = await embed({
    cwd,
    log,
    plugins: [acme],
    clock: {
      now: () => now++,
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          const timer = setTimeout(resolve, ms).unref();
          signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
        }),
    },
    fetch: async (input) => {
      requested.push(new Request(input).url);
      return new Response();
    },
    env: { TOKEN: `token-of-${name}-0123456789` },
    config: {
      gateway: { drainSeconds: 1, token: `operator-of-${name}-0123456789` },
      hooks: {
        enabled: true,
        token: "${TOKEN}",
        mappings: [
          { id: "own", match: { path: "own" }, validate, transform: { module: "own.ts" } },
        ],
      },
    },
  });
  const recorded: EventView[] = [];
  const deliveries: DeliveryView[] = [];
  gateway.on("event.recorded", (event) => void recorded.push(event));
  gateway.on("delivery.ended", (delivery) => void deliveries.push(delivery));
  await gateway.start();
  const operator = async (path: string): Promise<string> => {
    const headers = { authorization: `Bearer operator-of-${name}-0123456789` };
    return (await gateway.fetch(new Request(`http://localhost${path}`, { headers }))).text();
  };
  const post = (body: object, token = `token-of-${name}-0123456789`) =>
    gateway.fetch(hook("own", body, token));
  return { name, cwd, log, sent, requested, gateway, recorded, deliveries, operator, post };
}

it("two gateways in one process do not see each other", async () => {
  const [left, right] = [
    await createSide("left", 1_000_000_000_000),
    await createSide("right", 2_000_000_000_000),
  ];
  const sides = [
    { own: left, other: right, time: "2001", events: 3 },
    { own: right, other: left, time: "2033", events: 1 },
  ];
  for (const { own, other, events } of sides) {
    for (let n = 0; n < events; n++)
      expect((await own.post({ [own.name]: 1, text: `-text-${n}` })).status).toBe(202);
    expect((await own.post({ [other.name]: 1 })).status).toBe(400);
    expect((await own.post({}, `token-of-${other.name}-0123456789`)).status).toBe(401);
  }
  for (const { own, other, time, events } of sides) {
    await until(() => own.deliveries.length === events);
    expect(own.sent.toSorted()).toEqual(
      Array.from({ length: events }, (_, n) =>
        expect.stringMatching(new RegExp(`^${own.name} .*${own.name}-text-${n}`, "s")),
      ),
    );
    expect(own.requested).toEqual(
      Array.from({ length: events }, () => "https://vendor.example/send"),
    );
    expect(own.recorded.filter(({ outcome }) => outcome === "accepted")).toHaveLength(events);
    expect(own.recorded.filter(({ outcome }) => outcome === "rejected")).toHaveLength(1);
    for (const { receivedAt } of own.recorded) expect(receivedAt).toContain(time);
    expect(readFileSync(join(own.cwd, ".rouse", "plugins", "acme", "last"), "utf8")).toMatch(
      `${own.name} ${time === "2001" ? 1 : 2}`,
    );
    expect(readdirSync(own.cwd).toSorted()).toEqual([".rouse", "transforms"]);

    const metrics = await own.operator("/metrics");
    expect(metrics).toContain(`rouse_hooks_total{path="own",outcome="accepted"} ${events}`);
    expect(metrics).toContain(
      `rouse_deliveries_total{channel="acme",status="delivered"} ${events}`,
    );
    const listed =
      (await own.operator("/admin/v1/events")) +
      (await own.operator("/admin/v1/runs")) +
      (await own.operator("/admin/v1/deliveries"));
    const lines = JSON.stringify(own.log.lines);
    for (const { id, actions } of other.recorded)
      for (const foreign of [id, ...actions.map((one) => one.id)])
        expect(listed + lines).not.toContain(foreign);
    for (const { id, actions } of own.recorded)
      for (const mine of [id, ...actions.map((one) => one.id)]) expect(listed).toContain(mine);
    for (const { actions } of own.recorded)
      for (const { id: mine } of actions) expect(lines).toContain(mine);
    expect(listed).not.toContain(other.name);
    expect(await own.operator("/admin/v1/refusals")).toContain("own");
  }
  await left.gateway.stop();
  expect((await right.post({ right: 1, text: "-still" })).status).toBe(202);
  await until(() => right.sent.length === 2);
  expect(left.sent).toHaveLength(3);
});
