import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createDiffWorld, ORDER, type DiffWorld } from "./hooks-diff-world.ts";

const QUIET = {
  id: "shop.quiet",
  match: { path: "quiet" },
  messageTemplate: "Order {{id}}",
  deliver: false,
};
const REFUND = {
  id: "shop.refund",
  match: { path: "shop", payload: { type: "refund" } },
  messageTemplate: "Refund {{id}}",
  deliver: false,
};

/** Tests what-if beside a running gateway, with its runs in the store. */
function gatewayTests(url: () => string | undefined, isWhole = true): void {
  let files: DiffWorld;
  let provider: Provider;
  let world: World;
  // Without summaries no heartbeat follows a run: nothing happens by itself while the test counts.
  const config = (...mappings: object[]): object =>
    files.config(mappings, {
      hooks: { summary: "quiet" },
      ...modelConfig(provider, { list: [{ id: "main" }, { id: "other" }] }),
    });
  beforeEach(async () => {
    provider = await createProvider();
    files = await createDiffWorld(url());
    world = await createWorld({ dir: files.cli.dir, config: config(ORDER, QUIET) });
  });
  afterEach(async () => {
    await world.stop();
    await files.close();
    await provider.close();
  });

  const post = async (type: string, count: number, path = "shop"): Promise<void> => {
    for (let id = 0; id < count; id++)
      await world.post(`/hooks/${path}`, { type, id, customer: { name: "Ann" } });
  };
  const list = async (what: string): Promise<{ id: string; status: string }[]> =>
    (await world.admin(`/admin/v1/${what}?limit=500`)).body[what] as {
      id: string;
      status: string;
    }[];
  const idle = () =>
    world.until(async () =>
      (await list("runs")).every(({ status }) => ["succeeded", "failed"].includes(status)),
    );
  const next = async (...mappings: object[]): Promise<void> =>
    void (await files.cli.write("next.json5", config(...mappings)));

  it("starts no run and sends nothing while a gateway runs, and counts tokens by what was used", async () => {
    await post("order", 5);
    await post("refund", 14);
    await idle();
    await world.until(async () =>
      (await list("deliveries")).every(({ status }) => status === "delivered"),
    );
    expect(await files.sent()).toBe(5);
    const before = [
      await list("events"),
      await list("runs"),
      await list("deliveries"),
      provider.requests.length,
      await files.sent(),
    ];
    await next(
      { ...ORDER, match: { path: "shop", payload: { type: { $in: ["order", "refund"] } } } },
      QUIET,
    );
    const diff = (...args: string[]) =>
      files.cli.rouse(["hooks", "diff", "--config", "next.json5", "--since", "7d", ...args]);
    const { code, out, err } = await diff();
    expect([code, err]).toEqual([0, ""]);
    // The fake model counts 14 tokens a call.
    expect(out.split("\n")[0]).toBe(
      "19 events of 7 days: 14 change. 14 would run that did not (+2 runs a day, about 28 tokens a day).",
    );
    // No run of this mapping has used any: those of all hooks say it.
    await next(ORDER, QUIET, REFUND);
    expect((await diff()).out).toContain("(+2 runs a day, about 28 tokens a day)");
    expect([
      await list("events"),
      await list("runs"),
      await list("deliveries"),
      provider.requests.length,
      await files.sent(),
    ]).toEqual(before);
  });

  // No store has a part in the outcome of a replay.
  if (!isWhole) return;

  it("says what a replay of many events would do, and does none of it", async () => {
    await post("refund", 3);
    provider.answer = (_request, response) => {
      response.statusCode = 400;
      response.end("{}");
      return undefined;
    };
    await post("order", 1, "quiet");
    await world.post("/hooks/shop", { type: "sale", id: 9 });
    await idle();
    const requests = provider.requests.length;
    world.write("rouse.json5", config(ORDER, REFUND, QUIET));
    await world.gateway.reload();
    const events = await list("events");
    const replay = (...args: string[]) =>
      files.cli.rouse(["events", "replay", "--dry-run", ...args]);
    const unmatched = await replay("--unmatched");
    expect([unmatched.code, unmatched.out.trimEnd().split("\n").at(-1)]).toEqual([
      0,
      "4 would be replayed: 3 accepted, 1 unmatched",
    ]);
    expect(unmatched.out.match(/ {2}accepted {2}shop\.refund; /g)).toHaveLength(3);
    const failed = await replay("--failed");
    expect(failed.out).toContain('the failed run of "Hook" starts again\n');
    expect(failed.out).toContain("1 would be replayed: 1 accepted\n");
    expect((await replay("--unmatched", "--since", "never")).code).toBe(2);
    expect([await list("events"), provider.requests.length]).toEqual([events, requests]);
  });

  it("names events of a replay whose body is gone, and ends with 1", async () => {
    await world.stop();
    await files.keep({ body: null }, { body: { type: "order", id: 1, customer: { name: "Ann" } } });
    const { code, out } = await files.cli.rouse("events replay --dry-run --unmatched");
    expect([code, out.trimEnd().split("\n").at(-1)]).toEqual([
      1,
      "1 would be replayed: 1 accepted; 1 could not be replayed",
    ]);
    expect(out).toContain("not replayed: the body of this event is no longer kept");
  });
}

describe("what-if beside a gateway", () => gatewayTests(() => undefined));

describePostgres("what-if beside a gateway on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  afterEach(() => schema.drop());
  gatewayTests(() => schema.url, false);
});
