import { definePlugin, type Source } from "#plugin";
import { gmailConfig, withPaths } from "./config.ts";
import { gmailPreset } from "./preset.ts";
import { createPushAnswerer, Pushes } from "./push.ts";
import { runCommand } from "./run.ts";
import { setupCommand } from "./setup.ts";
import { gmailStatus } from "./status.ts";
import { watchMailbox } from "./watcher.ts";

/** New mail of a Gmail mailbox becomes events of a hook. */
export default definePlugin({
  id: "gmail",
  section: "hooks",
  config: gmailConfig,
  source({ config, baseDir, stateDir, fetch, log, clock }): Source {
    const { account, pushEndpoint } = config;
    const pushes = pushEndpoint === undefined ? undefined : new Pushes();
    const start: Source["start"] = async (signal, host) => {
      if (account !== undefined)
        return watchMailbox(
          {
            config: withPaths({ ...config, account }, baseDir),
            stateDir,
            fetch,
            log,
            now: () => clock.now(),
            pushes,
          },
          signal,
          host,
        );
      host.report({ ok: true, message: "no account is set: run `rouse webhooks gmail setup`" });
      if (!signal.aborted)
        await new Promise((ended) => signal.addEventListener("abort", ended, { once: true }));
    };
    if (account === undefined || pushEndpoint === undefined || !pushes) return { start };
    const notify = (): void => pushes.add();
    return {
      start,
      onPeerRequest: notify,
      request: createPushAnswerer({ ...config, pushEndpoint }, fetch, notify),
    };
  },
  presets: [gmailPreset],
  commands: { setup: setupCommand, run: runCommand, status: gmailStatus },
});
