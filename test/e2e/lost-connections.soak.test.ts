import { expect, it } from "vitest";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createProxy } from "../store/proxy.ts";
import { createWorld } from "./world.ts";

/** Connections for accepting that lost something stay silent, while PostgreSQL answers on others. */
const INTERRUPTION_MS = 1500;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describePostgres("after the network to PostgreSQL was interrupted", () => {
  it(
    "senders are answered, and hooks are accepted again once silent connections are replaced",
    { timeout: 180_000 },
    async () => {
      const schema = newSchema();
      const proxy = await createProxy(new URL(schema.url));
      const url = new URL(schema.url);
      [url.hostname, url.port] = ["127.0.0.1", String(proxy.port)];
      const mapping = {
        id: "orders",
        match: { path: "orders" },
        messageTemplate: "{{id}}",
        dedupeKey: "{{id}}",
        deliver: false,
      };
      const world = await createWorld({
        workers: false,
        config: { store: { url: url.href }, hooks: { mappings: [mapping] } },
      });
      const post = async (id: number): Promise<number> =>
        (await world.post("/hooks/orders", { id })).status;
      try {
        expect(await post(0)).toBe(202);
        proxy.set("hanging");
        const during = Promise.all([post(1), post(2)]);
        await pause(INTERRUPTION_MS);
        proxy.set("open");
        // Other connections are intact or are opened again, since the server does answer.
        await world.until(async () => {
          await world.admin("/admin/v1/events");
          return (await post(3)) === 202;
        });
        for (const status of await during) expect([202, 503]).toContain(status);
      } finally {
        proxy.set("open");
        await world.stop();
        proxy.close();
        await schema.drop();
      }
    },
  );
});
