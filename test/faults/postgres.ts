/** A schema of its own on a real PostgreSQL, which gateways under simulation reach through proxies that cut, freeze and refuse. */
import { createProxy, type Proxy } from "../store/proxy.ts";
import { newSchema } from "../store/postgres.ts";
import type { Database } from "./simulate.ts";

const STATES = { open: "open", freeze: "hanging", refuse: "refusing", pause: "paused" } as const;

export function createDatabase(): Database {
  const schema = newSchema();
  const proxies = new Map<number, Proxy>();
  const states = new Map<number, keyof typeof STATES>();
  return {
    async connect(gateway) {
      proxies.get(gateway)?.close();
      const proxy = await createProxy(new URL(schema.url));
      proxies.set(gateway, proxy);
      proxy.set(STATES[states.get(gateway) ?? "open"]);
      const url = new URL(schema.url);
      [url.hostname, url.port] = ["127.0.0.1", String(proxy.port)];
      return url.href;
    },
    set(gateway, state) {
      const proxy = proxies.get(gateway);
      if (state !== "cut") states.set(gateway, state);
      else proxy?.set("refusing");
      proxy?.set(STATES[states.get(gateway) ?? "open"]);
    },
    async close() {
      for (const proxy of proxies.values()) proxy.close();
      await schema.drop();
    },
  };
}
