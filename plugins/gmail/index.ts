import { definePlugin, type Service } from "#plugin";
import { gmailConfig, withPaths } from "./config.ts";
import { createPushAnswerer } from "./push.ts";
import { runCommand } from "./run.ts";
import { setupCommand } from "./setup.ts";
import { statusCommand } from "./status.ts";
import { createWatcher } from "./watcher.ts";

/** New mail of a Gmail mailbox becomes events of a hook. */
export default definePlugin({
  id: "gmail",
  section: "hooks",
  config: gmailConfig,
  service({ config, baseDir, stateDir, fetch, log, clock }): Service {
    const { account, pushEndpoint } = config;
    if (account === undefined)
      return {
        async start(signal, host) {
          host.report({ ok: true, message: "no account is set: run `rouse webhooks gmail setup`" });
          if (!signal.aborted) await new Promise((ended) => signal.addEventListener("abort", ended, { once: true }));
        },
      };
    const watcher = createWatcher({ config: withPaths({ ...config, account }, baseDir), stateDir, fetch, log, now: () => clock.now() });
    const start: Service["start"] = (signal, host) => watcher.run(signal, host);
    if (pushEndpoint === undefined) return { start };
    const nudge = (): void => watcher.notify();
    return { start, nudge, request: createPushAnswerer({ ...config, pushEndpoint }, fetch, nudge) };
  },
  commands: { setup: setupCommand, run: runCommand, status: statusCommand },
});
