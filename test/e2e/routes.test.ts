import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { roomsPlugin, sentTo } from "./rooms.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

let world: World;
let provider: Provider;
let folder: string;
afterEach(async () => {
  await world.stop();
  await provider.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Setup {
  rooms?: object | false;
  spare?: object | false;
  hooks?: object;
}

async function start({ rooms = {}, spare = false, hooks = {} }: Setup = {}): Promise<void> {
  provider = await createProvider();
  provider.answer = () => "The reply.";
  folder = mkdtempSync(join(tmpdir(), "rouse-routes-"));
  const channels = {
    ...(rooms === false ? {} : { rooms: { folder, ...rooms } }),
    ...(spare === false ? {} : { spare: { folder, ...spare } }),
  };
  world = await createWorld({
    files: {
      "plugins/rooms.ts": roomsPlugin("rooms"),
      "plugins/spare.ts": roomsPlugin("spare", "fallback: true,"),
    },
    config: { ...modelConfig(provider), hooks, channels },
  });
}

interface Delivery {
  status: string;
  channel: string | null;
  to: string | null;
  messageIds: string[];
  error: { code: string; message: string } | null;
}

/** Runs a hook and waits until its delivery has come to an end. */
async function deliver(body: object): Promise<{ status: string; delivery: Delivery }> {
  const { body: answer } = await world.post("/hooks/agent", {
    message: "x",
    wakeMode: "next-heartbeat",
    ...body,
  });
  return ended(answer.runId);
}

function ended(runId: string): Promise<{ status: string; delivery: Delivery }> {
  return world.until(async () => {
    const { run } = (await world.get(`/hooks/runs/${runId}`)).body;
    return run.endedAt !== null && run.delivery?.status !== "pending" && run;
  });
}

const sent = (id: string) => sentTo(folder, id);

describe("where a reply goes", () => {
  it("to the channel and recipient that are named", async () => {
    await start();
    expect(await deliver({ channel: "rooms", to: "ops" })).toMatchObject({
      status: "succeeded",
      delivery: {
        status: "delivered",
        channel: "rooms",
        to: "ops",
        messageIds: ["m-10"],
        error: null,
      },
    });
    expect(sent("rooms")).toEqual([{ to: "ops", text: "The reply." }]);
  });

  it("to the default recipient of a named channel", async () => {
    await start({ rooms: { defaultTo: "lobby" } });
    expect((await deliver({ channel: "rooms" })).delivery).toMatchObject({
      status: "delivered",
      to: "lobby",
    });
  });

  it("by `last` to the fallback where nobody has written yet", async () => {
    await start({ spare: { defaultTo: "owner" } });
    expect((await deliver({})).delivery).toMatchObject({
      status: "delivered",
      channel: "spare",
      to: "owner",
    });
  });

  it("by `last` to the only configured channel that has a default recipient", async () => {
    await start({ rooms: { defaultTo: "lobby" } });
    expect((await deliver({})).delivery).toMatchObject({
      status: "delivered",
      channel: "rooms",
      to: "lobby",
    });
  });

  it("to the recipient that is named without a channel, and to no other one", async () => {
    await start({ rooms: { defaultTo: "lobby" } });
    expect((await deliver({ to: "ops" })).delivery).toMatchObject({
      status: "delivered",
      channel: "rooms",
      to: "ops",
    });
    const refused = await world.post("/hooks/agent", {
      message: "x",
      wakeMode: "next-heartbeat",
      to: "+1555",
      channel: "last",
    });
    expect([refused.status, refused.body.warnings]).toEqual([
      202,
      [expect.stringContaining("write a room in small letters")],
    ]);
    expect((await ended(refused.body.runId)).delivery).toMatchObject({
      status: "no_route",
      channel: null,
      to: null,
    });
    expect(sent("rooms")).toEqual([{ to: "ops", text: "The reply." }]);
  });

  it("to the named recipient on the fallback, never to its default one", async () => {
    await start({ spare: { defaultTo: "owner" } });
    expect((await deliver({ to: "ops" })).delivery).toMatchObject({
      status: "delivered",
      channel: "spare",
      to: "ops",
    });
    expect((await deliver({ to: "+1555" })).delivery.status).toBe("no_route");
    expect([...sent("rooms"), ...sent("spare")]).toEqual([{ to: "ops", text: "The reply." }]);
  });

  it("nowhere if the recipient of a mapping comes out empty; the sender is answered as ever", async () => {
    const mapping = (id: string, more: object) => ({
      id,
      match: { path: id },
      messageTemplate: "x",
      wakeMode: "next-heartbeat",
      ...more,
    });
    const mappings = [
      mapping("named", { channel: "rooms", to: "{{user}}" }),
      mapping("open", { to: "team{{user}}" }),
    ];
    await start({ rooms: { defaultTo: "lobby" }, hooks: { mappings } });
    for (const id of ["named", "open"]) {
      const { status, body } = await world.post(`/hooks/${id}`, {});
      expect([status, body.warnings]).toEqual([202, [expect.stringContaining("`to` is empty")]]);
      expect((await ended(body.runId)).delivery.status).toBe("no_route");
    }
    const { body } = await world.post("/hooks/open", { user: "ops" });
    expect((await ended(body.runId)).delivery).toMatchObject({
      status: "delivered",
      to: "teamops",
    });
    expect(sent("rooms")).toHaveLength(1);
  });

  it.each([
    ["a named channel without a recipient", {}, { channel: "rooms" }, "name `to`"],
    ["`last` without any route", {}, {}, "the owner has not written"],
    [
      "a known channel that is not configured",
      {},
      { channel: "spare", to: "owner" },
      "add `channels.spare`",
    ],
  ])("nowhere: %s; the run succeeds and says so", async (_name, setup, body, message) => {
    await start(setup);
    const answer = await world.post("/hooks/agent", {
      message: "x",
      wakeMode: "next-heartbeat",
      ...body,
    });
    expect(await ended(answer.body.runId)).toMatchObject({
      status: "succeeded",
      delivery: {
        status: "no_route",
        error: { code: "no_route", message: expect.stringContaining(message) },
      },
    });
  });

  it("nowhere with deliver: false", async () => {
    await start();
    expect(
      (await deliver({ channel: "rooms", to: "ops", deliver: false })).delivery?.status ??
        "skipped",
    ).toBe("skipped");
    expect(sent("rooms")).toEqual([]);
  });

  it("refuses a recipient that the channel does not know, before anything runs", async () => {
    await start();
    const { status, body } = await world.post("/hooks/agent", {
      message: "x",
      channel: "rooms",
      to: "No Room",
    });
    expect([status, body.error.code, body.error.issues]).toEqual([
      400,
      "invalid_recipient",
      [{ path: "to", message: expect.stringContaining("small letters") }],
    ]);
    expect(provider.requests).toHaveLength(0);
  });

  it("refuses a blank recipient, whatever the channel", async () => {
    await start();
    for (const channel of ["last", "rooms", "spare"]) {
      const { status, body } = await world.post("/hooks/agent", {
        message: "x",
        channel,
        to: "  ",
      });
      expect([status, body.error.code]).toEqual([400, "invalid_recipient"]);
    }
  });

  it("keeps `to` and `channel` to the operator with allowRequestRecipient: false", async () => {
    await start({
      rooms: { defaultTo: "lobby" },
      hooks: {
        allowRequestRecipient: false,
        mappings: [
          { id: "m", match: { path: "m" }, messageTemplate: "x", channel: "rooms", to: "ops" },
        ],
      },
    });
    expect((await world.post("/hooks/agent", { message: "x", to: "ops" })).body.error.code).toBe(
      "invalid_recipient",
    );
    const { body } = await world.post("/hooks/m", {});
    expect((await ended(body.runId)).delivery).toMatchObject({ status: "delivered", to: "ops" });
  });
});

describe("sending", () => {
  it("goes in pieces that fit the channel, in order", async () => {
    await start();
    provider.answer = () => Array.from({ length: 12 }, (_, n) => `sentence number ${n}.`).join(" ");
    await deliver({ channel: "rooms", to: "ops" });
    const pieces = sent("rooms").map((one) => one.text);
    expect(pieces.length).toBeGreaterThan(3);
    expect(pieces.every((piece) => piece.length <= 50)).toBe(true);
    expect(pieces.join(" ")).toBe(
      await Promise.resolve(provider.answer(provider.requests[0] as never, undefined as never)),
    );
  });

  it("that failed is sent again when the sender repeats the event, without a new turn", async () => {
    await start();
    writeFileSync(join(folder, "fault"), "failed");
    const body = {
      message: "x",
      channel: "rooms",
      to: "ops",
      wakeMode: "next-heartbeat",
      idempotencyKey: "order-7",
    };
    const first = await world.post("/hooks/agent", body);
    expect((await ended(first.body.runId)).delivery).toMatchObject({
      status: "failed",
      error: { message: "as told" },
    });
    rmSync(join(folder, "fault"));
    const again = await world.post("/hooks/agent", body);
    expect(again.body.runId).toBe(first.body.runId);
    await world.until(
      async () =>
        (await world.get(`/hooks/runs/${first.body.runId}`)).body.run.delivery.status ===
        "delivered",
    );
    expect(sent("rooms")).toHaveLength(1);
    expect(provider.requests).toHaveLength(1);
  });

  it("that may have arrived is not repeated", async () => {
    await start();
    writeFileSync(join(folder, "fault"), "unknown");
    expect((await deliver({ channel: "rooms", to: "ops" })).delivery.status).toBe("unknown");
  });
});

it("a repeat starts failed runs again under the same id, five times and no more", async () => {
  await start();
  provider.answer = (_request, response) => void response.writeHead(400).end("{}");
  const body = { message: "x", deliver: false, wakeMode: "next-heartbeat", idempotencyKey: "k" };
  const { body: first } = await world.post("/hooks/agent", body);
  for (let n = 1; n <= 8; n++) {
    const { run } = (
      await world.until(async () => {
        const receipt = await world.get(`/hooks/runs/${first.runId}`);
        return receipt.body.run.status === "failed" && receipt;
      })
    ).body;
    expect(run.error.code).toBe("provider_refused");
    expect(provider.requests).toHaveLength(Math.min(n, 6));
    expect((await world.post("/hooks/agent", body)).body.runId).toBe(first.runId);
    await world.until(async () => provider.requests.length === Math.min(n + 1, 6));
  }
});

it("an action's key starts that failed run again, and no other of its event", async () => {
  const mapping = {
    id: "m",
    match: { path: "m" },
    forEach: "items",
    messageTemplate: "item {{item}}",
    dedupeKey: "{{item}}",
    deliver: false,
    wakeMode: "next-heartbeat",
  };
  await start({ hooks: { mappings: [mapping] } });
  provider.answer = (_request, response) => void response.writeHead(400).end("{}");
  const first = await world.post("/hooks/m", { items: ["a", "b"] });
  for (const { runId } of first.body.results) await ended(runId);
  provider.answer = () => "now it works";
  const again = await world.post("/hooks/m", { items: ["b", "c"] });
  expect(again.body.results[0]).toMatchObject({
    runId: first.body.results[1].runId,
    duplicate: true,
  });
  await world.until(
    async () =>
      (await world.get(`/hooks/runs/${first.body.results[1].runId}`)).body.run.status ===
      "succeeded",
  );
  expect((await world.get(`/hooks/runs/${first.body.results[0].runId}`)).body.run.status).toBe(
    "failed",
  );
});

it("receipts of status alone leave out the reply and the recipient", async () => {
  await start({ hooks: { receipts: "status" } });
  const run = await deliver({ channel: "rooms", to: "ops" });
  expect(run).toMatchObject({
    status: "succeeded",
    delivery: { status: "delivered", channel: "rooms" },
  });
  expect(run).not.toHaveProperty("reply");
  expect(run.delivery).not.toHaveProperty("to");
  const held = await world.post(
    "/hooks/agent",
    { message: "x", deliver: false, wakeMode: "next-heartbeat" },
    { prefer: "wait=10", authorization: `Bearer ${TOKEN}` },
  );
  expect([held.status, held.body.status, "reply" in held.body]).toEqual([200, "succeeded", false]);
});
