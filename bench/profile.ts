/**
 * `npm run bench -- --profile --row agent`: where a gateway's main thread spends its time during a row, in percent by category.
 * A sample counts for the innermost function that belongs to a category: what Node does for SQLite counts as SQLite.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AGENT, AGENT_ALONE } from "./bodies.ts";
import { HOOK_ROWS, type Subject } from "./hooks.ts";
import { CONNECTIONS } from "./measure.ts";
import { withModel } from "./model.ts";
import { withSchema } from "./postgres.ts";
import { load, startGateway, TOKEN, withServers } from "./servers.ts";

/** Functions of V8 and of Node's native code, by name. */
const NATIVE: [category: string, name: RegExp][] = [
  ["idle", /^\(idle\)$/],
  ["garbage collection", /^\(garbage collector\)$/],
  ["JSON", /^(parse|stringify)$/],
  ["commit and sync", /^fdatasync$/],
  ["crypto", /^(hash|Hash|Hmac|timingSafeEqual|oneShotDigest|randomFillSync)$/],
];
/** Files, by their path. The first that fits counts. */
const FILES: [category: string, path: RegExp][] = [
  ["crypto", /node:internal\/crypto|src\/(signatures|schemes)\/|src\/core\/(secret|hash|hmac)/],
  ["JSON", /src\/(intake\/body|core\/json)/],
  ["SQLite", /node:sqlite|src\/store\/sqlite\/(statements|driver)/],
  [
    "commit and sync",
    /src\/store\/sqlite\/(group-commit|checkpoint|writable)|plugins\/postgres\/group/,
  ],
  [
    "building rows",
    /src\/store\/|src\/core\/ids|plugins\/postgres\/(unit-of-work|write|add|binary|nul|keys|.*-plan)/,
  ],
  ["PostgreSQL client", /node_modules\/pg|plugins\/postgres\//],
  [
    "metrics, log, traces",
    /prom-client|pino|src\/(metrics|telemetry|observability)|opentelemetry|src\/core\/log/,
  ],
  [
    "runs and agents",
    /src\/(runs|agent|models|queue|chat|delivery|approvals|sessions|tools)\/|node_modules\/(ai|@ai-sdk|undici)\/|node:internal\/deps\/undici/,
  ],
  [
    "mapping and intake",
    /src\/(mapping|intake|hooks|actions|limits|config)\/|node_modules\/(zod|jsonata|ajv|re2js)/,
  ],
  ["HTTP parse and write", /src\/(http|gateway|admin)\/|node_modules\/(hono|@hono)/],
];
/** Node's own sockets and streams serve callers and databases alike: they count for whatever uses them. */
const SOCKETS = /node:(_http|net|stream|internal\/(stream|http|streams|url|webstreams))/;

interface Profile {
  startTime: number;
  nodes: { id: number; callFrame: { functionName: string; url: string }; children?: number[] }[];
  samples: number[];
  timeDeltas: number[];
}

const getCategory = ({
  functionName,
  url,
}: Profile["nodes"][number]["callFrame"]): string | undefined =>
  url === ""
    ? NATIVE.find(([, name]) => name.test(functionName))?.[0]
    : FILES.find(([, path]) => path.test(url))?.[0];

/** Shares of the samples between two times of the monotonic clock, in microseconds. */
function sumUp(
  { startTime, nodes, samples, timeDeltas }: Profile,
  from: number,
  to: number,
): Map<string, number> {
  const categories = new Map<number, string>();
  // Callers come before what they call.
  for (const { id, callFrame, children = [] } of nodes) {
    const category =
      getCategory(callFrame) ??
      categories.get(id) ??
      (SOCKETS.test(callFrame.url) ? "HTTP parse and write" : undefined);
    if (category === undefined) continue;
    for (const child of children) categories.set(child, category);
    categories.set(id, category);
  }
  const sums = new Map<string, number>();
  let at = startTime;
  for (const [index, sample] of samples.entries()) {
    const took = timeDeltas[index] ?? 0;
    at += took;
    const category = categories.get(sample) ?? "other";
    if (at >= from && at <= to) sums.set(category, (sums.get(category) ?? 0) + took);
  }
  const total = [...sums.values()].reduce((sum, one) => sum + one, 0);
  return new Map(
    [...sums].toSorted(([, a], [, b]) => b - a).map(([name, sum]) => [name, sum / total]),
  );
}

const nowMicros = (): number => Number(process.hrtime.bigint() / 1000n);

/** Profiles one gateway after a time to warm up, while it is flooded. */
async function profile(
  { config = {}, options, ...side }: Subject,
  workers: boolean,
  ms: number,
): Promise<Map<string, number>> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-profile-"));
  const nodeArgs = [
    "--conditions=rouse-source",
    "--disable-warning=ExperimentalWarning",
    "--cpu-prof",
    `--cpu-prof-dir=${dir}`,
  ];
  let [from, to] = [0, 0];
  try {
    await withServers(
      [startGateway(config, { ...options, workers, nodeArgs })],
      async ([{ port }]) => {
        const job = { ...side, port, token: TOKEN, connections: CONNECTIONS };
        await load({ ...job, ms: 3000 });
        from = nowMicros();
        await load({ ...job, ms });
        to = nowMicros();
      },
    );
    // CPU.<day>.<time>.<process>.<thread>.<number>: thread 0 is the main one.
    const file = readdirSync(dir).find((name) => name.split(".")[4] === "0");
    return sumUp(JSON.parse(readFileSync(join(dir, file ?? ""), "utf8")) as Profile, from, to);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Shares by category for a row of hooks, `workers` or `postgres`. */
export function profileRow(name: string, ms: number): Promise<Map<string, number>> {
  const path = "/hooks/agent";
  if (name === "workers")
    return withModel(({ config }) => profile({ config, path, body: AGENT_ALONE }, true, ms));
  if (name === "postgres")
    return withSchema((url) =>
      profile({ config: { store: { url } }, path, body: AGENT }, false, ms),
    );
  const row = HOOK_ROWS[name];
  if (!row)
    throw new Error(
      `--profile needs one of these rows: ${[...Object.keys(HOOK_ROWS), "workers", "postgres"].join(", ")}`,
    );
  return profile(row.subject, false, ms);
}
