import type { GroupIds } from "../admin/failure-states.ts";
import { readGroups } from "../admin/failures.ts";
import type { FailureGroup } from "../admin/watch-views.ts";
import type { Config } from "../config/schema/index.ts";
import type { Channel, SendResult } from "../contract/channel.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { oneLine } from "../core/text.ts";
import { createCallbackChannel } from "../delivery/callback.ts";
import type { Channels } from "../delivery/types.ts";
import type { Held, Ms, Store } from "../store/types.ts";

const EVERY_MS = 30_000;
/** Failures that are older when alerts are set up are not reported. */
const RECENT_MS = 15 * 60_000;

export interface FailureAlertsOptions {
  store: Store;
  clock: Clock;
  log: Logger;
  config(): Config;
  channels(): Channels;
  /** Sends a text immediately, bypassing the outbox. */
  send(channel: string, to: string, text: string): Promise<SendResult>;
}

/** When a group was reported last, by where. */
type Reported = Partial<Record<"channel" | "callback", Ms>>;

const toKey = (id: string): string => `failures.reported.${id}`;
/** What an earlier version noted, whose causes had no sender. */
const toEarlierKey = (id: string): string => `failures.alerted.${id}`;

/** Whether a group has to be reported: it never was, or it came back after it had been resolved. */
function isDue({ status, resolved }: FailureGroup, at: Ms | undefined): boolean {
  return (
    status === "open" && (at === undefined || (resolved !== null && Date.parse(resolved.at) > at))
  );
}

function renderText({ id, title, isReopened, count, example, sender }: FailureGroup): string {
  const what = `${isReopened ? "Came back after it was resolved" : "Something fails"}: ${title}`;
  const from = sender === null ? "" : `, from ${sender}`;
  return oneLine(
    `${what} (${count} in the last 15 minutes${from}, for example ${example}). See \`rouse failures show ${id}\`.`,
  );
}

/** Creates what sends a group to the channel of the config; undefined if none is set. */
function toChannelSender({
  config,
  channels,
  send,
}: FailureAlertsOptions): ((group: FailureGroup) => Promise<SendResult>) | undefined {
  const { channel: name, to } = config().alerts.failures;
  if (name === undefined) return undefined;
  return async (group) => {
    const resolved = channels().resolve(name);
    const recipient =
      to ?? (resolved?.loaded ? channels().get(resolved.id)?.channel.defaultTo : undefined);
    if (!resolved?.loaded)
      return {
        status: "failed",
        reason: `alerts.failures.channel: no channel "${name}" is configured`,
      };
    if (recipient === undefined)
      return {
        status: "failed",
        reason: "alerts.failures.to: name a recipient, the channel has no defaultTo",
      };
    const checked = channels().checkRecipient(resolved.id, recipient);
    if (!checked.ok) return { status: "failed", reason: `alerts.failures.to: ${checked.message}` };
    return send(resolved.id, checked.to, renderText(group));
  };
}

/** Reports groups of failures, each once. Runs on one gateway at a time. */
export function createFailureAlerts(options: FailureAlertsOptions): {
  run(held: Held): Promise<void>;
} {
  const { store, clock, log, config } = options;
  const callback: Channel = createCallbackChannel({
    getCallback: () => config().alerts.failures.callback,
    hosts: () => config().hooks.callbackHosts,
    clock,
  });
  const readReported = async ({ id, earlierId }: GroupIds): Promise<Reported> =>
    (await store.get("value", toKey(id))) ??
    (await store.get("value", toEarlierKey(earlierId))) ??
    {};
  const report = async (
    group: FailureGroup,
    earlierId: string,
    { signal, fencingToken }: Held,
  ): Promise<void> => {
    const reported = { ...(await readReported({ id: group.id, earlierId })) };
    const text = JSON.stringify({ type: "failure", failure: group });
    // The same for every try, and another one after the group has come back.
    const idempotencyKey = `${group.id}_${group.resolved ? Date.parse(group.resolved.at) : 0}.0`;
    const post = (): Promise<SendResult> => callback.send({ to: "", text, idempotencyKey }, signal);
    const senders = {
      channel: toChannelSender(options),
      callback: config().alerts.failures.callback ? () => post() : undefined,
    };
    for (const [where, send] of Object.entries(senders) as [
      keyof Reported,
      (typeof senders)["channel"],
    ][]) {
      if (!send || !isDue(group, reported[where])) continue;
      const result = await send(group);
      if (result.status === "retry" || result.status === "failed")
        log.warn(
          { failure: group.id, where, reason: result.reason },
          "a failure could not be reported; it is tried again",
        );
      else reported[where] = clock.now();
      await store.commit((tx) => tx.set("value", toKey(group.id), reported), fencingToken);
    }
  };
  return {
    async run(held) {
      while (!held.signal.aborted) {
        try {
          const { channel, callback: to } = config().alerts.failures;
          if (channel !== undefined || to) {
            const { groups, earlierIds } = await readGroups(options, clock.now() - RECENT_MS);
            for (const group of groups)
              await report(group, earlierIds.get(group.id) ?? group.id, held);
          }
        } catch (error) {
          log.warn(
            { err: safeError(error) },
            "failures could not be looked at for alerts; it is tried again",
          );
        }
        await clock.sleep(EVERY_MS, held.signal);
      }
    },
  };
}
