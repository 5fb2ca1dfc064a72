import type { Command, CommandContext, ServiceState } from "#plugin";
import { getLabels, type GmailConfig } from "./config.ts";
import { GmailProblem } from "./problem.ts";
import { readState, type WatchState } from "./state.ts";

/** A watcher that has heard nothing for so long does not watch. */
const STALE_MS = 900_000;

const time = (ms: number | undefined): string =>
  ms === undefined ? "never" : new Date(ms).toISOString();

/** Returns the state of a watcher as a service, by the state that it keeps. */
export function toServiceState(config: GmailConfig, state: WatchState, now: number): ServiceState {
  const account = config.account ?? "";
  if (state.watchExpires === undefined)
    return {
      ok: false,
      message: `there is no watch on ${account} yet: run \`rouse webhooks gmail setup\``,
    };
  if (state.watchExpires <= now)
    return {
      ok: false,
      message: `the watch on ${account} expired at ${time(state.watchExpires)}: is the gateway running?`,
    };
  const last = state.refused.at(-1);
  const refused = last
    ? `; the hook refused ${state.refused.length} of its last messages, ${last.id} (${last.reason}) being the last`
    : "";
  return { ok: true, message: `watches ${account} until ${time(state.watchExpires)}${refused}` };
}

/** The same, when nobody else tells: also a watcher that was left behind. */
function storedState(config: GmailConfig, state: WatchState, now: number): ServiceState {
  if (state.lastError) return { ok: false, message: state.lastError.message };
  const found = toServiceState(config, state, now);
  if (!found.ok || now - (state.aliveAt ?? 0) <= STALE_MS) return found;
  return {
    ok: false,
    message: `no gateway has read the mailbox of ${config.account} since ${time(state.aliveAt)}: start the gateway with \`rouse start\``,
  };
}

async function status(context: CommandContext<GmailConfig>): Promise<number> {
  const { config, out, json } = context;
  const notWell = (message: string): number => {
    out(json ? `${JSON.stringify({ ok: false, message })}\n` : `not ok: ${message}\n`);
    return 1;
  };
  if (config?.account === undefined)
    return notWell("no account is set: run `rouse webhooks gmail setup --account <address>`");
  const now = context.clock.now();
  const dir = await context.stateDir();
  const state = await readState(dir, config.account).catch((error: unknown) => {
    if (error instanceof GmailProblem) return error;
    throw error;
  });
  if (state instanceof GmailProblem) return notWell(state.message);
  const service = await context.serviceState().catch(() => undefined);
  const stored = storedState(config, state, now);
  const { ok, message } = service && !service.ok ? service : stored;
  const iso = (ms: number | undefined): string | null => (ms === undefined ? null : time(ms));
  const shown = {
    ok,
    message,
    account: config.account,
    mode: config.pushEndpoint === undefined ? "pull" : "push",
    topic: config.topic,
    subscription: config.subscription,
    labels: getLabels(config),
    watchExpires: iso(state.watchExpires),
    lastSync: iso(state.lastSync),
    historyId: state.historyId ?? null,
    lastError: state.lastError
      ? { at: time(state.lastError.at), message: state.lastError.message }
      : null,
    refused: state.refused.map(({ id, at, reason }) => ({ id, at: time(at), reason })),
    gateway: service ?? null,
  };
  if (json) out(`${JSON.stringify(shown)}\n`);
  else {
    const lines = [
      `${ok ? "ok" : "not ok"}: ${message}`,
      `account        ${shown.account}`,
      `labels         ${shown.labels.join(", ")}`,
      `mode           ${shown.mode}${config.pushEndpoint === undefined ? ` (subscription ${config.subscription})` : ` (${config.pushEndpoint})`}`,
      `watch expires  ${time(state.watchExpires)}`,
      `last sync      ${time(state.lastSync)}`,
      `history id     ${state.historyId ?? "none"}`,
      `last error     ${shown.lastError ? `${shown.lastError.at}: ${shown.lastError.message}` : "none"}`,
      `gateway        ${service ? `${service.ok ? "ok" : "not ok"}: ${service.message}` : "none runs"}`,
      ...state.refused.map(
        ({ id, at, reason }) => `refused        ${id} at ${time(at)}: ${reason}`,
      ),
    ];
    out(`${lines.join("\n")}\n`);
  }
  return ok ? 0 : 1;
}

/** `rouse webhooks gmail`. */
export const gmailStatus: Command<GmailConfig> = {
  summary: "tell how the watcher of the mailbox does; fails where it does not work",
  run: status,
};
