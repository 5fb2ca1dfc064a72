/** A schema of its own on a real PostgreSQL, which gateways under simulation reach through proxies that cut, freeze and refuse. */
import { createProxy, type Proxy } from "../store/proxy.ts";
import { newSchema, plainly } from "../store/postgres.ts";
import { MOST_GATEWAYS } from "./plan.ts";
import type { Database } from "./simulate.ts";

const STATES = { open: "open", freeze: "hanging", refuse: "refusing", pause: "paused" } as const;

/** Connections of a gateway: those of its pools, and the one on which it listens. */
const CONNECTIONS = 11;
/** PostgreSQL's code for too many connections. */
const TOO_MANY = "53300";

export interface Places {
  /** Waits until so many more gateways have their connections. */
  take(gateways: number): Promise<void>;
  giveBack(gateways: number): void;
}

/**
 * As many gateways at the same time as the server has connections for. If there are too few, gateways do not start, answer 503, and
 * let runs wait: that says nothing of the program.
 */
export async function createPlaces(): Promise<Places> {
  const { rows } = await plainly((client) =>
    client.query<{ free: number }>(
      `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS free`,
    ),
  );
  let left = Math.max(MOST_GATEWAYS, Math.floor((rows[0]?.free ?? 0) / CONNECTIONS));
  const waiting: { gateways: number; begin(): void }[] = [];
  const next = (): void => {
    for (let first = waiting[0]; first && first.gateways <= left; first = waiting[0]) {
      waiting.shift();
      left -= first.gateways;
      first.begin();
    }
  };
  return {
    take: (gateways) =>
      new Promise((begin) => {
        waiting.push({ gateways, begin });
        next();
      }),
    giveBack(gateways) {
      left += gateways;
      next();
    },
  };
}

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
    isFull: (error) => error.includes(TOO_MANY),
    async close() {
      for (const proxy of proxies.values()) proxy.close();
      await schema.drop();
    },
  };
}
