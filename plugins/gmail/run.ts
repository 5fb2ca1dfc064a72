import type { Command, ServiceState } from "#plugin";
import { withPaths, type GmailConfig } from "./config.ts";
import { watchMailbox } from "./watcher.ts";

/** `rouse webhooks gmail run`. */
export const runCommand: Command<GmailConfig> = {
  summary: "watch the mailbox in a process of its own and give new mail to the gateway that runs",
  async run(context) {
    const { config, fail, out, json, signal } = context;
    const { account } = config ?? {};
    if (config === undefined || account === undefined)
      return fail("no account is set: run `rouse webhooks gmail setup --account <address>`", 2);
    if (config.pushEndpoint !== undefined)
      return fail(
        "hooks.gmail.pushEndpoint is set: pushes come to the gateway at /channels/gmail/push, so there is nothing to run here",
        2,
      );
    if (await context.serviceState().catch(() => undefined))
      return fail(
        "the gateway watches the mailbox already: set hooks.gmail.enabled to false to have it watched from here",
        2,
      );
    let last = "";
    const report = (state: ServiceState): void => {
      const line = json ? JSON.stringify(state) : `${state.ok ? "ok" : "not ok"}: ${state.message}`;
      if (line === last) return;
      last = line;
      out(`${line}\n`);
    };
    const { baseDir, stateDir, fetch, log, clock, hook } = context;
    await watchMailbox(
      {
        config: withPaths({ ...config, account }, baseDir),
        stateDir,
        fetch,
        log,
        now: () => clock.now(),
      },
      signal,
      // Nobody else watches then: the state file is all there is to keep.
      { hook, report, cursor: async () => undefined, saveCursor: async () => undefined },
    );
    return 0;
  },
};
