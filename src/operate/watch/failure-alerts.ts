import { readGroups, type FailureGroup } from "./failures.ts";
import { findLostRequests, type LostRequests } from "./lost-requests.ts";
import { findRecipient } from "../people/channels.ts";
import { safeError } from "../../core/errors.ts";
import { oneLine } from "../../core/text.ts";
import { createCallbackChannel } from "../../delivery/callback.ts";
import type { ChannelHealth } from "../../delivery/health.ts";
import type { Denials } from "../../intake/callers.ts";
import type { Held, Ms } from "../../store/types.ts";
import type { GatewayContext } from "../records/config-log.ts";

const EVERY_MS = 30_000;
/** Failures that are older when alerts are set up are not reported. */
const RECENT_MS = 15 * 60_000;

type SendResult = Awaited<ReturnType<ChannelHealth["test"]>>;

interface FailureAlertsOptions extends GatewayContext {
  /** The requests that this gateway has refused. */
  denials: Denials;
  health: ChannelHealth;
}

/** A report, with the key of the value that notes it. */
interface Report {
  key: string;
  isDue(at: Ms | undefined): boolean;
  text: string;
  body: object;
  /** The same for every try. */
  idempotencyKey: string;
  /** For the log. */
  name: string;
}

/** The times of the last reports, by where they went. */
type Reported = Partial<Record<"channel" | "callback", Ms>>;

/** Refused requests of a path are reported again after this time. */
const AGAIN_MS = 24 * 3_600_000;

/** Returns whether a group has to be reported: it never was, or it came back after it had been resolved. */
function isDue({ status, resolvedAt }: FailureGroup, at: Ms | undefined): boolean {
  const cameBack = at !== undefined && resolvedAt !== null && Date.parse(resolvedAt) > at;
  return status === "open" && (at === undefined || cameBack);
}

function renderText({ id, title, isReopened, count, example, from }: FailureGroup): string {
  const what = `${isReopened ? "Came back after it was resolved" : "Something fails"}: ${title}`;
  const by = from === null ? "" : `, from ${from}`;
  return oneLine(
    `${what} (${count} in the last 15 minutes${by}, for example ${example}). See \`rouse failures ${id}\`.`,
  );
}

const toGroupReport = (group: FailureGroup): Report => ({
  key: `failures.reported.${group.id}`,
  isDue: (at) => isDue(group, at),
  text: renderText(group),
  body: { type: "failure", failure: group },
  // Another one after the group has come back.
  idempotencyKey: `${group.id}_${group.resolvedAt === null ? 0 : Date.parse(group.resolvedAt)}.0`,
  name: group.id,
});

const toLostReport = ({ path, reason, count, last, message }: LostRequests, now: Ms): Report => ({
  key: `refusals.reported.${path}.${reason}`,
  isDue: (at) => at === undefined || now - at > AGAIN_MS,
  text: oneLine(`Something fails: ${message}. See \`rouse doctor\`.`),
  body: {
    type: "refused",
    refused: { path, reason, count, lastSeen: new Date(last).toISOString(), message },
  },
  idempotencyKey: `refused_${path}_${reason}_${Math.floor(now / AGAIN_MS)}.0`,
  name: path,
});

/** Creates what sends a text to the channel of the config; undefined if none is set. */
function toChannelSender({
  snapshot,
  health,
}: FailureAlertsOptions): ((text: string) => Promise<SendResult>) | undefined {
  const { channel: name, to } = snapshot().config.alerts.failures;
  if (name === undefined) return undefined;
  return async (text) => {
    const found = findRecipient(snapshot(), name, to);
    if (found.ok) return health.test(found.id, found.to, text);
    const { code, message } = found.failure;
    const field = code === "not_found" ? "channel: " : "";
    return { status: "failed", reason: `alerts.failures.${field}${message}` };
  };
}

/** Reports what fails, each group of failures once, and refused requests of a path once a day. */
export function createFailureAlerts(options: FailureAlertsOptions) {
  const { store, clock, log, snapshot, denials } = options;
  const config = () => snapshot().config;
  const callback = createCallbackChannel({
    getCallback: () => config().alerts.failures.callback,
    hosts: () => config().hooks.callbackHosts,
    clock,
  });
  const report = async (
    { key, isDue: isReportDue, text, body, idempotencyKey, name }: Report,
    { signal, fencingToken }: Partial<Held> & Pick<Held, "signal">,
  ): Promise<void> => {
    const reported: Reported = { ...((await store.values.get(key)) as Reported | undefined) };
    const post = (): Promise<SendResult> =>
      callback.send({ to: "", text: JSON.stringify(body), idempotencyKey }, signal);
    const senders: [keyof Reported, ReturnType<typeof toChannelSender>][] = [
      ["channel", toChannelSender(options)],
      ["callback", config().alerts.failures.callback ? post : undefined],
    ];
    for (const [where, send] of senders) {
      if (!send || !isReportDue(reported[where])) continue;
      const result = await send(text);
      if (result.status === "retry" || result.status === "failed")
        log.warn(
          { failure: name, where, reason: result.reason },
          "a failure could not be reported; it is tried again",
        );
      else reported[where] = clock.now();
      await store.commit((tx) => tx.values.set(key, reported), fencingToken);
    }
  };
  /** Calls `look` regularly while alerts are set up. */
  const watch = async (signal: AbortSignal, look: () => Promise<void>): Promise<void> => {
    while (!signal.aborted) {
      try {
        const { channel, callback: to } = config().alerts.failures;
        if (channel !== undefined || to) await look();
      } catch (error) {
        log.warn(
          { err: safeError(error) },
          "failures could not be looked at for alerts; it is tried again",
        );
      }
      await clock.sleep(EVERY_MS, signal);
    }
  };
  return {
    /** Reports groups of failures. Runs on one gateway at a time. */
    run: (held: Held): Promise<void> =>
      watch(held.signal, async () => {
        const { groups } = await readGroups(options, clock.now() - RECENT_MS);
        for (const group of groups) await report(toGroupReport(group), held);
      }),
    /** Reports what this gateway has refused. Runs on every gateway with workers. */
    watchRefusals: (signal: AbortSignal): Promise<void> =>
      watch(signal, async () => {
        const now = clock.now();
        for (const lost of findLostRequests(denials.list(), snapshot(), now - RECENT_MS))
          await report(toLostReport(lost, now), { signal });
      }),
  };
}
