import type { Failure } from "../../core/errors.ts";
import type { LoadedChannel } from "../../delivery/channels.ts";
import type { Snapshot } from "../../intake/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { unwrap } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso } from "../records/views.ts";

export type ChannelView = ReturnType<typeof listChannels>["channels"][number];

/** Returns who answers on a channel: the bindings up to the first that fits all, else the default agent last. */
function agentViews(
  id: string,
  { rooms, agents }: Snapshot,
): { agent: string; room: string | null; person: string | null }[] {
  const bound = rooms
    .bindingsOn(id)
    .map(({ agent, room = null, person = null }) => ({ agent: agent.id, room, person }));
  const all = [...bound, { agent: agents.default.id, room: null, person: null }];
  return all.slice(0, all.findIndex(({ room, person }) => room === null && person === null) + 1);
}

/** Says who may write: those in allowFrom, and whom dmPolicy adds. */
function renderSenders({
  allowFrom = [],
  dmPolicy = "allowlist",
}: LoadedChannel["channel"]): string {
  const allowed = `${allowFrom.length || "no"} allowed ${allowFrom.length === 1 ? "sender" : "senders"}`;
  if (dmPolicy === "open") return "everybody";
  if (dmPolicy === "pairing") return `${allowed}, and approved people`;
  return dmPolicy === "closed" ? `${allowed}, in groups only` : allowed;
}

/** Lists the channels that are known, loaded or not. */
export function listChannels({ snapshot }: AdminDeps) {
  const { channels: known } = snapshot();
  const channels = known.names.map((name) => {
    const resolved = known.resolve(name);
    const channel = resolved?.loaded ? known.get(resolved.id)?.channel : undefined;
    const receives = channel?.listen !== undefined || channel?.request !== undefined;
    return {
      name,
      id: resolved?.id ?? name,
      loaded: resolved?.loaded ?? false,
      defaultTo: channel?.defaultTo ?? null,
      /** True if replies go there that name no recipient while there is no last route. */
      fallback: channel?.defaultTo !== undefined && channel === known.fallback?.channel,
      limit: channel?.limit ?? null,
      /** True if people can write to the agent there; `allowFrom` counts those who may. */
      receives,
      allowFrom: channel?.allowFrom?.length ?? 0,
      dmPolicy: channel?.dmPolicy ?? ("allowlist" as const),
      /** The people who may write, in words; null if it does not receive. */
      mayWrite: receives && channel ? renderSenders(channel) : null,
      /** The agents that answer: the first that fits a message's room and sender; null fits all. */
      agents: resolved?.loaded ? agentViews(resolved.id, snapshot()) : [],
    };
  });
  return { channels };
}

/** Returns whether no person may write on a channel. */
const isForNobody = ({
  allowFrom = [],
  dmPolicy = "allowlist",
}: LoadedChannel["channel"]): boolean =>
  allowFrom.length === 0 && dmPolicy !== "pairing" && dmPolicy !== "open";

/** Probes the channels in use, and returns the state of their receiving. */
export async function probeChannels(deps: AdminDeps) {
  const [probes, services] = [await deps.health.probeAll(), deps.status().services];
  const { breakers } = deps.status();
  const channels = deps.snapshot().channels.loaded.map(({ id, channel }) => {
    const probe = probes.find((state) => state.id === id);
    const service = services.find((state) => state.id === id);
    return {
      id,
      /** Null if the channel cannot tell. */
      reach: probe ? { ok: probe.ok, message: probe.message } : null,
      /** Null if nothing listens: the channel only sends, or no gateway with workers runs. */
      receive: service
        ? { ok: service.ok, message: service.message, since: iso(service.since) }
        : null,
      /** Set if its last sends failed: deliveries wait, and one at a time tests it. */
      away: breakers.find(({ of, state }) => of === id && state !== "closed") ?? null,
      /** It receives, and no message is answered: allowFrom is empty, and dmPolicy lets no other person write. */
      nobody: (channel.listen ?? channel.request) !== undefined && isForNobody(channel),
    };
  });
  return { channels };
}

/** Finds the channel and the recipient of a message; without `to` its default one. Fails with `not_found` or `invalid_recipient`. */
export function findRecipient(
  { channels }: Snapshot,
  name: string,
  to: string | undefined,
): { ok: true; id: string; to: string } | { ok: false; failure: Failure } {
  const resolved = channels.resolve(name);
  const channel = resolved?.loaded ? channels.get(resolved.id)?.channel : undefined;
  if (!resolved || !channel) return { ok: false, failure: unknownId("channel", name) };
  const { id } = resolved;
  const recipient = to ?? channel.defaultTo;
  const checked =
    recipient === undefined
      ? { ok: false as const, message: "name a recipient, the channel has no defaultTo" }
      : channels.checkRecipient(id, recipient);
  if (checked.ok) return { ok: true, id, to: checked.to };
  return { ok: false, failure: { code: "invalid_recipient", message: `to: ${checked.message}` } };
}

/**
 * Sends a message immediately, bypassing the outbox.
 * @throws RouseError `not_found` or `invalid_recipient`
 */
export async function sendTestMessage(
  { snapshot, health }: AdminDeps,
  name: string,
  { to: asked, text }: { to?: string | undefined; text: string },
) {
  const { id, to } = unwrap(findRecipient(snapshot(), name, asked));
  return { channel: id, to, result: await health.test(id, to, text) };
}
