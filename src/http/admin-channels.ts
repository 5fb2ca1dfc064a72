import { Hono } from "hono";
import { z } from "zod";
import type { Failure } from "../core/errors.ts";
import { answer, fail } from "./admin-answer.ts";
import { parseJson } from "./admin-query.ts";
import type { ChannelStatusView, ChannelView } from "./admin-types.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "./types.ts";

const testBody = z.strictObject({
  to: z.string().min(1).optional(),
  text: z.string().min(1).max(2000).default("This is a test from Rouse: the channel works."),
});

/** Who answers on a channel: the bindings up to the first that fits all, else the default agent last. */
function agentViews(id: string, { rooms, agents }: Snapshot): ChannelView["agents"] {
  const bound = rooms.bindingsOn(id).map(({ agent, room = null, person = null }) => ({ agent: agent.id, room, person }));
  const all = [...bound, { agent: agents.standard.id, room: null, person: null }];
  return all.slice(0, all.findIndex(({ room, person }) => room === null && person === null) + 1);
}

function channelViews(snapshot: Snapshot): ChannelView[] {
  const { channels: known } = snapshot;
  return known.names.map((name) => {
    const resolved = known.resolve(name);
    const channel = resolved?.loaded ? known.get(resolved.id)?.channel : undefined;
    return {
      name,
      id: resolved?.id ?? name,
      loaded: resolved?.loaded ?? false,
      defaultTo: channel?.defaultTo ?? null,
      fallback: channel?.defaultTo !== undefined && channel === known.fallback?.channel,
      limit: channel?.limit ?? null,
      receives: channel?.listen !== undefined || channel?.request !== undefined,
      allowFrom: channel?.allowFrom?.length ?? 0,
      agents: resolved?.loaded ? agentViews(resolved.id, snapshot) : [],
    };
  });
}

/** What is known of each channel that is in use: whether it can be reached, and how its listening does. */
async function statusViews(deps: AdminDeps): Promise<ChannelStatusView[]> {
  const [probes, services] = [await deps.channels.look(), deps.status().services];
  return deps.snapshot().channels.loaded.map(({ id, channel }) => {
    const probe = probes.find((state) => state.id === id);
    const service = services.find((state) => state.id === id);
    return {
      id,
      reach: probe ? { ok: probe.ok, message: probe.message } : null,
      receive: service ? { ok: service.ok, message: service.message, since: new Date(service.since).toISOString() } : null,
      nobody: (channel.listen ?? channel.request) !== undefined && (channel.allowFrom?.length ?? 0) === 0,
    };
  });
}

const notFound: Failure = { code: "not_found", message: "no channel of this name is configured; `rouse channels list` shows which are" };
const noRecipient: Failure = { code: "invalid_recipient", message: "to: name a recipient, the channel has no defaultTo" };

/** `/channels`: which there are, how they do, and a test message. */
export function channelRoutes(deps: AdminDeps): Hono {
  const app = new Hono();
  app.get("/", (c) => answer(c, "channels", { channels: channelViews(deps.snapshot()) }));
  app.get("/status", async (c) => answer(c, "channelStatus", { channels: await statusViews(deps) }));
  app.post("/:id/test", async (c) => {
    const body = await parseJson(c, testBody);
    if (!body.ok) return fail(c, body.failure);
    const { channels } = deps.snapshot();
    const resolved = channels.resolve(c.req.param("id"));
    const channel = resolved?.loaded ? channels.get(resolved.id)?.channel : undefined;
    if (!resolved || !channel) return fail(c, notFound);
    const to = body.value.to ?? channel.defaultTo;
    if (to === undefined) return fail(c, noRecipient);
    const checked = channels.checkRecipient(resolved.id, to);
    if (!checked.ok) return fail(c, { code: "invalid_recipient", message: `to: ${checked.message}` });
    return answer(c, "channelTest", {
      channel: resolved.id,
      to: checked.to,
      result: await deps.channels.test(resolved.id, checked.to, body.value.text),
    });
  });
  return app;
}
