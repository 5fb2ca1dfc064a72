import { definePlugin, type Source } from "#plugin";
import { gmailConfig, withPaths } from "./config.ts";
import { gmailPreset } from "./preset.ts";
import { setupCommand } from "./setup.ts";
import { gmailStatus } from "./status.ts";
import { watchMailbox } from "./watcher.ts";

/** New mail of a Gmail mailbox becomes events of a hook. */
export default definePlugin({
  id: "gmail",
  section: "hooks",
  config: gmailConfig,
  source: ({ config, baseDir, stateDir, fetch, log, clock }): Source => ({
    async start(signal, host) {
      const { account } = config;
      if (account !== undefined)
        return watchMailbox(
          {
            config: withPaths({ ...config, account }, baseDir),
            stateDir,
            fetch,
            log,
            now: () => clock.now(),
          },
          signal,
          host,
        );
      host.report({ ok: true, message: "no account is set: run `rouse webhooks gmail setup`" });
      if (!signal.aborted)
        await new Promise((ended) => signal.addEventListener("abort", ended, { once: true }));
    },
  }),
  presets: [gmailPreset],
  commands: { setup: setupCommand, status: gmailStatus },
});
