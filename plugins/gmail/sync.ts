import type { Hooks, PluginLog } from "#plugin";
import { toBatches, giveToHook } from "./deliver.ts";
import { GoogleError } from "./google.ts";
import type { Mailbox } from "./mailbox.ts";
import type { WatchState } from "./state.ts";

export interface SyncDeps {
  mailbox: Mailbox;
  gateway: Hooks;
  hook: string;
  state: WatchState;
  /** Keeps the state as it is now. */
  keep(): Promise<void>;
  log: PluginLog;
  now(): number;
}

/** Messages that are fetched and held at a time. */
const CHUNK = 50;
/** The clocks of Gmail and of here differ, and mail is listed some time after it came: what is seen twice is known. */
const OVERLAP_MS = 600_000;

/** Gives the messages to the hook that it has not had. What was given is on disk, here and there, when this resolves. */
async function deliver(
  ids: readonly string[],
  { mailbox, gateway, hook, state, keep, log, now }: SyncDeps,
  notBefore = 0,
): Promise<void> {
  const known = new Set(state.delivered);
  const fresh = ids.filter((id) => !known.has(id));
  for (let at = 0; at < fresh.length; at += CHUNK) {
    const messages = await mailbox.fetch(fresh.slice(at, at + CHUNK));
    for (const batch of toBatches(
      messages.filter(({ date }) => date === "" || Date.parse(date) >= notBefore),
    )) {
      const refused = await giveToHook(gateway, hook, batch, now);
      for (const { id, reason } of refused)
        log.warn(`the hook refused the message ${id} (${reason}); the rest goes on`);
      state.refused.push(...refused);
      state.delivered.push(...batch.map(({ id }) => id));
      await keep();
    }
  }
}

/** Takes the mailbox's present as the start where nothing is known, else gives to the hook what has come since. */
export async function syncMailbox(deps: SyncDeps): Promise<void> {
  const { mailbox, state, keep, log, now } = deps;
  const began = now();
  if (state.historyId === undefined) {
    state.historyId = await mailbox.historyId();
    state.startedAt = began;
  } else {
    try {
      for await (const { ids, historyId } of mailbox.history(state.historyId)) {
        await deliver(ids, deps);
        if (historyId === state.historyId) continue;
        state.historyId = historyId;
        await keep();
      }
    } catch (error) {
      if (!(error instanceof GoogleError && error.kind === "notFound")) throw error;
      log.info("Gmail's history does not reach back to the last look: listing what is new");
      // Read before the list: what comes while it is listed is in the history from here on.
      const present = await mailbox.historyId();
      const { lastSync = began, startedAt = 0 } = state;
      // The search knows seconds only, and what was there before the start is old.
      await deliver(
        await mailbox.since(Math.max(lastSync - OVERLAP_MS, startedAt)),
        deps,
        startedAt,
      );
      state.historyId = present;
    }
  }
  state.lastSync = began;
  state.aliveAt = began;
  delete state.lastError;
  await keep();
}
