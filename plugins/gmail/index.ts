import { definePlugin, type Source } from "#plugin";
import { gmailConfig, withPaths } from "./config.ts";
import { gmailPreset } from "./preset.ts";
import { createPushAnswerer } from "./push.ts";
import { runCommand } from "./run.ts";
import { setupCommand } from "./setup.ts";
import { gmailStatus } from "./status.ts";
import { createWatcher } from "./watcher.ts";

/** New mail of a Gmail mailbox becomes events of a hook. */
export default definePlugin({
  id: "gmail",
  section: "hooks",
  config: gmailConfig,
  source({ config, baseDir, stateDir, fetch, log, clock }): Source {
    const { account, pushEndpoint } = config;
    if (account === undefined)
      return {
        async start(signal, host) {
          host.report({ ok: true, message: "no account is set: run `rouse webhooks gmail setup`" });
          if (!signal.aborted)
            await new Promise((ended) => signal.addEventListener("abort", ended, { once: true }));
        },
      };
    const watcher = createWatcher({
      config: withPaths({ ...config, account }, baseDir),
      stateDir,
      fetch,
      log,
      now: () => clock.now(),
    });
    const start: Source["start"] = (signal, host) => watcher.run(signal, host);
    if (pushEndpoint === undefined) return { start };
    const onPeerRequest = (): void => watcher.notify();
    return {
      start,
      onPeerRequest,
      request: createPushAnswerer({ ...config, pushEndpoint }, fetch, onPeerRequest),
    };
  },
  presets: [gmailPreset],
  commands: { setup: setupCommand, run: runCommand, status: gmailStatus },
});
