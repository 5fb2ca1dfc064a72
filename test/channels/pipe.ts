import { expect } from "vitest";
import type { MessagePart } from "../../src/plugin/api.ts";
import { createProvider } from "../e2e/provider.ts";
import type { World } from "../e2e/world.ts";
import { gate } from "../platform/model.ts";

/** A channel as a user would write it: what is posted to its address is what somebody wrote; what it sends is printed. */
export const PIPE = `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "pipe",
  config: z.strictObject({ name: z.string().default("pipe"), allowFrom: z.array(z.string()).default([]), dmPolicy: z.string().default("allowlist"), defaultTo: z.string().optional(), limit: z.number().default(1000) }),
  channel: ({ config, print }) => ({
    limit: config.limit,
    allowFrom: config.allowFrom,
    ...(config.defaultTo === undefined ? {} : { defaultTo: config.defaultTo }),
    lengthOf: (text) => text.replaceAll("<", "&lt;").length,
    async send(message) {
      print("PIPE " + JSON.stringify({ name: config.name, ...message, idempotencyKey: undefined }));
      return { status: "sent", messageIds: ["m1"] };
    },
    async listen(signal, host) {
      const at = Number((await host.cursor()) ?? 0);
      await host.saveCursor(String(at + 1));
      host.report({ ok: true, message: "listens for the " + (at + 1) + ". time" });
      if (!signal.aborted) await new Promise((done) => signal.addEventListener("abort", done, { once: true }));
    },
    async request(request, host) {
      await host.receive(await request.json());
      return new Response(null, { status: 204 });
    },
  }),
});
`;

let count = 0;
/** A direct message of Ann's, with an id of its own: her words, and what others said. */
export function message(text: string, more: object = {}) {
  const { parts = [], ...about } = more as { parts?: readonly MessagePart[] };
  const own = text === "" ? [] : [{ kind: "own" as const, text }];
  const from = { id: `msg-${++count}`, from: "ann", to: "room-1", direct: true };
  return { ...from, parts: [...own, ...parts], ...about };
}

/** Hands a message to the channel, once it listens. */
export async function sayOn(world: World, body: object, channel = "pipe"): Promise<void> {
  await world.until(async () =>
    (await world.admin("/admin/v1/status")).body.status.services.some(
      (one: { id: string }) => one.id === channel,
    ),
  );
  const request = new Request(`http://127.0.0.1/channels/${channel}/in`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  expect((await world.gateway.fetch(request)).status).toBe(204);
}

/** The messages that the channel sent, oldest first. */
export const sentOn = (world: World): Record<string, unknown>[] =>
  world.printed
    .filter((text) => text.startsWith("PIPE "))
    .map((text) => JSON.parse(text.slice(5)) as Record<string, unknown>);

/** Waits until no turn and no delivery is left to do. */
export const whenIdle = (world: World): Promise<boolean> =>
  world.until(async () => {
    const { counts } = (await world.admin("/admin/v1/status")).body.status;
    return (
      !counts["jobs.turn"] &&
      !counts["jobs.delivery"] &&
      !counts["runs.queued"] &&
      !counts["runs.running"]
    );
  });

/** A model that says "done"; to what has the word "slow" in it only once the gate is open. */
export async function createSlowProvider() {
  const provider = await createProvider();
  const slow = gate();
  provider.answer = async (request, response) => {
    if (String(request.body.messages.at(-1)?.content).includes("slow")) {
      const gone = new Promise((resolve) => response.on("close", resolve));
      await Promise.race([slow.passed, gone]);
    }
    return "done";
  };
  return { provider, slow };
}
