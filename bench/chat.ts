/** Streamed chats against a plain proxy before the same model server: the first word, and words a second. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { median, type Row } from "./figures.ts";
import { startGateway, startScript, withServers, type Server } from "./servers.ts";
import type { StreamJob, StreamResult } from "./streams.ts";

const KEY = "rk_bench-key-0123456789-0123456789";
const CONNECTIONS = 16;

async function streams(job: StreamJob): Promise<StreamResult> {
  const child = fork(join(import.meta.dirname, "streams.ts"));
  child.send(job);
  const [result] = (await once(child, "message")) as [StreamResult];
  child.kill();
  return result;
}

interface Measured {
  perSecond: number;
  firstMs: number;
  cpu: number;
  errors: number;
}

async function measure(server: Server, path: string, ms: number): Promise<Measured> {
  const body = JSON.stringify({ model: "main", stream: true, messages: [{ role: "user", content: "Speak." }] });
  const before = server.cpuMicros();
  const { tokens, ms: took, firstMs, errors } = await streams({ port: server.port, path, body, token: KEY, connections: CONNECTIONS, ms });
  return { perSecond: (tokens / took) * 1000, firstMs, cpu: (server.cpuMicros() - before) / Math.max(1, tokens), errors };
}

type Kind = "paced" | "instant";
const BY = { bytes: "a proxy that passes bytes on", client: "a proxy that calls by the official client" };

/** Both sides in turn, after one round to warm up. */
async function pair(kind: Kind, by: keyof typeof BY, provider: Server, ms: number, rounds: number): Promise<Row[]> {
  const url = `http://127.0.0.1:${provider.port}`;
  const config = {
    models: { providers: { local: { type: "openai-compatible", baseUrl: `${url}/${kind}/v1` } } },
    agents: { defaults: { model: "local/m", heartbeat: { every: 0 } } },
    platform: { apiKeys: [{ id: "bench", key: KEY }] },
  };
  return withServers([startGateway(config, []), startScript("proxy.ts", [url])], async ([gateway, proxy]) => {
    const ours: Measured[] = [];
    const theirs: Measured[] = [];
    for (let round = 0; round <= rounds; round++) {
      theirs.push(await measure(proxy as Server, `${by === "client" ? "/client" : ""}/${kind}/v1/chat/completions`, ms));
      ours.push(await measure(gateway as Server, "/v1/chat/completions", ms));
    }
    const of = (list: Measured[], read: (one: Measured) => number): number => median(list.slice(1).map(read));
    const both = (read: (one: Measured) => number): [number, number] => [of(ours, read), of(theirs, read)];
    const rounded = ([one, other]: [number, number]): [number, number] => [Math.round(one), Math.round(other)];
    const perSecond = both((one) => one.perSecond);
    const first = both((one) => one.firstMs);
    const common = {
      perSecond: rounded(perSecond),
      cpuMicros: rounded(both((one) => one.cpu)),
      errors: [...ours, ...theirs].reduce((sum, one) => sum + one.errors, 0),
    };
    const most = kind === "paced" ? "; at most 1.3" : "";
    const note = `${(first[0] / first[1]).toFixed(2)} (${first[0].toFixed(0)} ms against ${first[1].toFixed(0)} ms${most})`;
    const name = `streamed chat, ${kind} model, against ${BY[by]}`;
    return [
      { row: `${name}: words a second`, ratio: perSecond[0] / perSecond[1], least: kind === "paced" ? 0.85 : null, ...common },
      { row: `${name}: time to the first word`, ratio: null, least: null, note, ...common },
    ];
  });
}

export async function chatRows(ms: number, rounds: number): Promise<Row[]> {
  const rows: Row[] = [];
  await withServers([startScript("provider.ts", [])], async ([provider]) => {
    for (const kind of ["paced", "instant"] as const)
      for (const by of ["bytes", "client"] as const) rows.push(...(await pair(kind, by, provider as Server, ms, rounds)));
  });
  return rows;
}
