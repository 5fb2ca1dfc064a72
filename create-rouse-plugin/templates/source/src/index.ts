import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { definePlugin } from "rouse/plugin";

interface Page {
  events: unknown[];
  /** Where the next page begins. */
  next: string;
}

/** Pulls events from Acme and hands them to the hook path `acme`. */
export default definePlugin({
  id: "acme",
  section: "hooks",
  config: z.strictObject({
    token: z.string().min(1).describe("The token of the API."),
    apiUrl: z.url().default("https://api.acme.example").describe("The address of the API."),
    everySeconds: z.number().positive().default(10).describe("The time between two requests."),
  }),
  source: ({ config, fetch }) => ({
    async start(signal, host) {
      while (!signal.aborted) {
        const after = (await host.cursor()) ?? "0";
        const response = await fetch(`${config.apiUrl}/events?after=${after}`, {
          headers: { authorization: `Bearer ${config.token}` },
          signal,
        });
        if (!response.ok) throw new Error(`acme answered ${response.status}`);
        const { events, next } = (await response.json()) as Page;
        for (const event of events) {
          const { status } = await host.hook("acme", event);
          // Only a 2xx says that the event is on disk. The next start begins with it again.
          if (status >= 300) throw new Error(`the hook answered ${status}`);
        }
        // After the events before it: what is saved is not asked for again.
        if (next !== after) await host.saveCursor(next);
        host.report({ ok: true, message: "connected" });
        await sleep(config.everySeconds * 1000, undefined, { signal }).catch(() => undefined);
      }
    },
  }),
});
