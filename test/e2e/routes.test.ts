import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { roomsPlugin, sentTo } from "./rooms.ts";
import { createWorld, TOKEN, type Answer, type World } from "./world.ts";

let world: World;
let provider: Provider;
let folder: string;

const mapping = (id: string, more: object = {}) => ({
  id,
  match: { path: id },
  messageTemplate: "x",
  wakeMode: "next-heartbeat",
  ...more,
});

async function start(rooms: object, spare: object | undefined, hooks: object): Promise<void> {
  provider = await createProvider();
  folder = mkdtempSync(join(tmpdir(), "rouse-routes-"));
  world = await createWorld({
    files: {
      "plugins/rooms.ts": roomsPlugin("rooms"),
      "plugins/spare.ts": roomsPlugin("spare", "fallback: true,"),
    },
    config: {
      ...modelConfig(provider),
      hooks,
      channels: { rooms: { folder, ...rooms }, ...(spare && { spare: { folder, ...spare } }) },
    },
  });
}
async function stop(): Promise<void> {
  await world.stop();
  await provider.close();
  rmSync(folder, { recursive: true, force: true });
}
beforeEach(() => {
  provider.requests.length = 0;
  provider.answer = () => "The reply.";
  for (const name of ["rooms.log", "spare.log", "fault"])
    rmSync(join(folder, name), { force: true });
});

const sent = (id: string) => sentTo(folder, id);
const post = (body: object): Promise<Answer> =>
  world.post("/hooks/agent", { message: "x", wakeMode: "next-heartbeat", ...body });
/** The run of a receipt, when it has ended and its delivery too. */
const ended = (runId: string) =>
  world.until(async () => {
    const { run } = (await world.get(`/hooks/runs/${runId}`)).body;
    return run.endedAt !== null && run.delivery?.status !== "pending" && run;
  });
const deliver = async (body: object) => ended((await post(body)).body.runId);
const refuse = (): void => {
  provider.answer = (_request, response) => void response.writeHead(400).end("{}");
};

describe("replies of a channel with a default recipient", () => {
  beforeAll(() =>
    start({ defaultTo: "lobby" }, undefined, {
      mappings: [
        mapping("named", { channel: "rooms", to: "{{user}}" }),
        mapping("open", { to: "team{{user}}" }),
        mapping("items", {
          forEach: "items",
          messageTemplate: "item {{item}}",
          dedupeKey: "{{item}}",
          deliver: false,
        }),
      ],
    }),
  );
  afterAll(stop);

  it.each([
    ["the channel and the recipient that are named", { channel: "rooms", to: "ops" }, "ops"],
    ["the recipient that is named without a channel", { to: "ops" }, "ops"],
    ["the default recipient of a named channel", { channel: "rooms" }, "lobby"],
    ["the only default recipient", {}, "lobby"],
  ])("go to %s", async (_name, body, to) => {
    expect(await deliver(body)).toMatchObject({
      status: "succeeded",
      delivery: { status: "delivered", channel: "rooms", to, messageIds: ["m-10"], error: null },
    });
    expect(sent("rooms")).toEqual([{ to, text: "The reply." }]);
  });

  it.each([
    ["a recipient that no channel knows", { to: "+1555" }, "write a room in small letters"],
    [
      "a known channel that is not configured",
      { channel: "spare", to: "x" },
      "add `channels.spare`",
    ],
  ])("go nowhere: %s; the run succeeds and says so", async (_name, body, message) => {
    const answer = await post(body);
    expect([answer.status, answer.body.warnings]).toEqual([
      202,
      [expect.stringContaining(message)],
    ]);
    expect(await ended(answer.body.runId)).toMatchObject({
      status: "succeeded",
      delivery: {
        status: "no_route",
        channel: null,
        to: null,
        error: { code: "no_route", message: expect.stringContaining(message) },
      },
    });
    expect(sent("rooms")).toEqual([]);
  });

  it("go nowhere if the recipient of a mapping comes out empty; the sender is answered as ever", async () => {
    for (const id of ["named", "open"]) {
      const { status, body } = await world.post(`/hooks/${id}`, {});
      expect([status, body.warnings]).toEqual([202, [expect.stringContaining("`to` is empty")]]);
      expect((await ended(body.runId)).delivery.status).toBe("no_route");
    }
    const { body } = await world.post("/hooks/open", { user: "ops" });
    expect((await ended(body.runId)).delivery).toMatchObject({ to: "teamops" });
    expect(sent("rooms")).toHaveLength(1);
  });

  it("go nowhere with deliver: false", async () => {
    const run = await deliver({ channel: "rooms", to: "ops", deliver: false });
    expect(run.delivery?.status ?? "skipped").toBe("skipped");
    expect(sent("rooms")).toEqual([]);
  });

  it.each([
    ["rooms", "No Room", "small letters"],
    ["last", "  ", "must not be blank"],
    ["spare", "  ", "must not be blank"],
  ])("are refused before anything runs: %s to %j", async (channel, to, message) => {
    const { status, body } = await post({ channel, to });
    expect([status, body.error.code, body.error.issues]).toEqual([
      400,
      "invalid_recipient",
      [{ path: "to", message: expect.stringContaining(message) }],
    ]);
    expect(provider.requests).toHaveLength(0);
  });

  it("that may have arrived are not repeated", async () => {
    writeFileSync(join(folder, "fault"), "unknown");
    expect((await deliver({ to: "ops" })).delivery.status).toBe("unknown");
  });

  it("that failed are sent again when the sender repeats the event, without a new turn", async () => {
    writeFileSync(join(folder, "fault"), "failed");
    const body = { to: "ops", idempotencyKey: "order-7" };
    const { runId } = (await post(body)).body;
    expect((await ended(runId)).delivery).toMatchObject({
      status: "failed",
      error: { message: "as told" },
    });
    rmSync(join(folder, "fault"));
    expect((await post(body)).body.runId).toBe(runId);
    await world.until(async () => (await ended(runId)).delivery.status === "delivered");
    expect(sent("rooms")).toHaveLength(1);
    expect(provider.requests).toHaveLength(1);
  });

  it("of failed runs come when a repeat starts these again, five times and no more", async () => {
    refuse();
    const body = { deliver: false, idempotencyKey: "k" };
    const { runId } = (await post(body)).body;
    for (let n = 1; n <= 8; n++) {
      const run = await world.until(async () => {
        const one = await ended(runId);
        return one.status === "failed" && one;
      });
      expect(run.error.code).toBe("provider_refused");
      expect(provider.requests).toHaveLength(Math.min(n, 6));
      expect((await post(body)).body.runId).toBe(runId);
      await world.until(async () => provider.requests.length === Math.min(n + 1, 6));
    }
  });

  it("of one action come by its own key, and no other run of its event starts again", async () => {
    refuse();
    const { results } = (await world.post("/hooks/items", { items: ["a", "b"] })).body;
    for (const { runId } of results) await ended(runId);
    provider.answer = () => "now it works";
    const again = await world.post("/hooks/items", { items: ["b", "c"] });
    expect(again.body.results[0]).toMatchObject({ runId: results[1].runId, duplicate: true });
    await world.until(async () => (await ended(results[1].runId)).status === "succeeded");
    expect((await ended(results[0].runId)).status).toBe("failed");
  });
});

describe("replies that the operator alone addresses", () => {
  beforeAll(() =>
    start(
      {},
      { defaultTo: "owner" },
      {
        receipts: "status",
        allowRequestRecipient: false,
        mappings: [mapping("ops", { channel: "rooms", to: "ops" }), mapping("any")],
      },
    ),
  );
  afterAll(stop);

  it("go where the mapping says, and no request may name a recipient or a channel", async () => {
    for (const body of [{ to: "ops" }, { channel: "rooms" }])
      expect((await post(body)).body.error.code).toBe("invalid_recipient");
    await ended((await world.post("/hooks/ops", {})).body.runId);
    expect(sent("rooms")).toEqual([{ to: "ops", text: "The reply." }]);
  });

  it("go by `last` to the fallback as long as nobody has written", async () => {
    await ended((await world.post("/hooks/any", {})).body.runId);
    expect(sent("spare")).toEqual([{ to: "owner", text: "The reply." }]);
  });

  it("are left out of receipts of status alone, and so is the recipient", async () => {
    const body = { message: "x", deliver: false, wakeMode: "next-heartbeat" };
    const headers = { prefer: "wait=10", authorization: `Bearer ${TOKEN}` };
    const held = await world.post("/hooks/agent", body, headers);
    expect([held.status, held.body.status, "reply" in held.body]).toEqual([
      200,
      "succeeded",
      false,
    ]);
    const run = await ended((await world.post("/hooks/ops", {})).body.runId);
    expect(run.delivery).toMatchObject({ status: "delivered", channel: "rooms" });
    expect(run).not.toHaveProperty("reply");
    expect(run.delivery).not.toHaveProperty("to");
  });
});
