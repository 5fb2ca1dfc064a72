/** Streamed chats against a plain proxy before the same model server: the first word, and words a second. */
import {
  alternate,
  CONNECTIONS,
  countErrors,
  medianRatio,
  medians,
  type Row,
  type Timing,
} from "./measure.ts";
import { runScript, startGateway, startScript, withServers, type Server } from "./servers.ts";
import type { StreamJob, StreamResult } from "./streams.ts";

const KEY = "rk_bench-key-0123456789-0123456789";

const streams = (job: StreamJob): Promise<StreamResult> => runScript("streams.ts", job);

interface Measured {
  perSecond: number;
  firstMs: number;
  cpu: number;
  errors: number;
}

async function measure(server: Server, path: string, ms: number): Promise<Measured> {
  const body = JSON.stringify({
    model: "main",
    stream: true,
    messages: [{ role: "user", content: "Speak." }],
  });
  const before = server.cpuMicros();
  const {
    tokens,
    ms: took,
    firstMs,
    errors,
  } = await streams({ port: server.port, path, body, token: KEY, connections: CONNECTIONS, ms });
  return {
    perSecond: (tokens / took) * 1000,
    firstMs,
    cpu: (server.cpuMicros() - before) / Math.max(1, tokens),
    errors,
  };
}

type Kind = "paced" | "instant";
const BY = { bytes: "passing bytes on", client: "the official client" };

async function pair(
  kind: Kind,
  by: keyof typeof BY,
  provider: Server,
  { ms, rounds }: Timing,
): Promise<Row[]> {
  const url = `http://127.0.0.1:${provider.port}`;
  const config = {
    models: { providers: { local: { type: "openai-compatible", baseUrl: `${url}/${kind}/v1` } } },
    agents: { defaults: { model: "local/m", heartbeat: { every: 0 } } },
    platform: { apiKeys: [{ id: "bench", key: KEY }] },
  };
  return withServers(
    [startGateway(config), startScript("proxy.ts", [url])],
    async ([gateway, proxy]) => {
      const path = `${by === "client" ? "/client" : ""}/${kind}/v1/chat/completions`;
      const sides = [
        () => measure(gateway, "/v1/chat/completions", ms),
        () => measure(proxy, path, ms),
      ];
      const [ours = [], theirs = []] = await alternate(sides, rounds);
      const errors = countErrors(ours, theirs);
      const name = `${kind}, against ${BY[by]}`;
      const first = {
        row: `${name}: time to the first word`,
        value: medianRatio(ours, theirs, ({ firstMs }) => firstMs),
        errors,
      };
      return [
        {
          row: `${name}: words a second`,
          value: medianRatio(ours, theirs, ({ perSecond }) => perSecond),
          perSecond: medians(ours, theirs, ({ perSecond }) => perSecond),
          cpuMicros: medians(ours, theirs, ({ cpu }) => cpu),
          errors,
        },
        // The first word of an instant model comes with the last one.
        ...(kind === "paced" ? [first] : []),
      ];
    },
  );
}

export async function chatRows(timing: Timing): Promise<Row[]> {
  const rows: Row[] = [];
  await withServers([startScript("provider.ts", [])], async ([provider]) => {
    for (const kind of ["paced", "instant"] as const)
      for (const by of ["client", "bytes"] as const)
        rows.push(...(await pair(kind, by, provider, timing)));
  });
  return rows;
}
