/** `npm run bench`: pairs measured in turn in one run; ratios and CPU time per request, as a table and as JSON. */
import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { chatRows } from "./chat.ts";
import { installed, median, wholeRuns, withModel, type Row } from "./figures.ts";
import { PRESETS_DIR, presetNames } from "../src/mapping/presets.ts";
import { MARK, type LoadJob } from "./load.ts";
import { enqueueToStart, hasPostgres, twoAgainstOne, withSchema } from "./postgres.ts";
import { load, startEcho, startGateway, TOKEN, withServers, type Server } from "./servers.ts";

const { values } = parseArgs({
  options: {
    json: { type: "boolean" },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "3" },
    row: { type: "string" },
    costs: { type: "boolean" },
    simulate: { type: "boolean" },
    seed: { type: "string", default: "1" },
    hooks: { type: "string", default: "1000,10000,100000" },
  },
});
if (values.costs || values.simulate) {
  if (values.costs) await (await import("./costs.ts")).writeCosts(Number(values.seconds) * 1000, Number(values.rounds));
  if (values.simulate)
    (await import("./simulate.ts")).main({ ...values, seed: Number(values.seed), rates: values.hooks.split(",").map(Number) });
  process.exit(0);
}
const MS = Number(values.seconds) * 1000;
const ROUNDS = Number(values.rounds);
const CONNECTIONS = 16;

interface Side {
  server: Server;
  path: string;
  body: string;
  sign?: LoadJob["sign"];
}
const rows: Row[] = [];
const wanted = (name: string): boolean => values.row === undefined || name.includes(values.row);

async function measure(side: Side): Promise<{ perSecond: number; cpu: number; errors: number }> {
  const before = side.server.cpuMicros();
  const result = await load({
    port: side.server.port,
    path: side.path,
    body: side.body,
    token: TOKEN,
    connections: CONNECTIONS,
    ms: MS,
    ...(side.sign ? { sign: side.sign } : {}),
  });
  return {
    perSecond: (result.requests / result.ms) * 1000,
    cpu: (side.server.cpuMicros() - before) / Math.max(1, result.requests),
    errors: result.errors,
  };
}

/** Measures two sides in turn, after one round to warm up. */
async function pair(row: string, subject: Side, against: Side, least: number | null): Promise<void> {
  const ours: Awaited<ReturnType<typeof measure>>[] = [];
  const theirs: typeof ours = [];
  for (let round = 0; round <= ROUNDS; round++) {
    theirs.push(await measure(against));
    ours.push(await measure(subject));
  }
  const rate = (list: typeof ours): number => median(list.slice(1).map((one) => one.perSecond));
  const cpu = (list: typeof ours): number => Math.round(median(list.slice(1).map((one) => one.cpu)));
  const errors = [...ours, ...theirs].reduce((sum, one) => sum + one.errors, 0);
  rows.push({
    row,
    ratio: rate(ours) / rate(theirs),
    least,
    perSecond: [Math.round(rate(ours)), Math.round(rate(theirs))],
    cpuMicros: [cpu(ours), cpu(theirs)],
    errors,
  });
  console.error(`${row}: done`);
}

const AGENT = JSON.stringify({
  message: "A build failed on main, please look.",
  name: "CI",
  sessionKey: "hook:ci",
  deliver: false,
  wakeMode: "next-heartbeat",
});
const WAKE = JSON.stringify({ text: "A backup has finished.", mode: "next-heartbeat" });
interface Example {
  name: string;
  examples: { action?: string }[];
}
const loaded = createRequire(import.meta.url)("@octokit/webhooks-examples") as Example[] | { default: Example[] };
const examples = Array.isArray(loaded) ? loaded : loaded.default;
const PULL_REQUEST = JSON.stringify(
  examples.find((event) => event.name === "pull_request")?.examples.find((body) => body.action === "opened"),
);
const SIX =
  "{{pull_request.title}} {{pull_request.number}} {{sender.login}} {{repository.full_name}} {{pull_request.head.ref}} {{pull_request.base.ref}}";
const mapping = (id: string, more: object = {}): object => ({
  id,
  match: { path: "pr", payload: { action: "opened", "repository.full_name": "Codertocat/Hello-World" } },
  messageTemplate: SIX,
  deliver: false,
  wakeMode: "next-heartbeat",
  ...more,
});
const others = Array.from({ length: 999 }, (_, index) =>
  mapping(`m${index}`, { match: { path: "pr", payload: { action: "opened", "repository.full_name": `other/${index}` } } }),
);
const MODULE = "export default ({ payload }) => ({ message: `${payload.pull_request.title} ${payload.pull_request.number}` });";

if (wanted("agent")) {
  await withServers([startGateway({}, ["--no-workers"]), startEcho()], async ([gateway, echo]) =>
    pair(
      "durable agent",
      { server: gateway as Server, path: "/hooks/agent", body: AGENT },
      { server: echo as Server, path: "/echo", body: AGENT },
      0.45,
    ),
  );
}
if (wanted("wake")) {
  await withServers([startGateway({}, ["--no-workers"]), startEcho()], async ([gateway, echo]) =>
    pair(
      "durable wake",
      { server: gateway as Server, path: "/hooks/wake", body: WAKE },
      { server: echo as Server, path: "/echo", body: WAKE },
      0.45,
    ),
  );
}
if (wanted("mapped")) {
  await withServers([startGateway({ hooks: { mappings: [mapping("pr")] } }, ["--no-workers"]), startEcho()], async ([gateway, echo]) =>
    pair(
      `mapped, ${Math.round(PULL_REQUEST.length / 1000)} KB`,
      { server: gateway as Server, path: "/hooks/pr", body: PULL_REQUEST },
      { server: echo as Server, path: "/echo", body: PULL_REQUEST },
      0.45,
    ),
  );
}
if (wanted("1000")) {
  await withServers(
    [
      startGateway({ hooks: { mappings: [...others, mapping("pr")] } }, ["--no-workers"]),
      startGateway({ hooks: { mappings: [mapping("pr")] } }, ["--no-workers"]),
    ],
    async ([many, one]) =>
      pair(
        "1000 mappings against 1",
        { server: many as Server, path: "/hooks/pr", body: PULL_REQUEST },
        { server: one as Server, path: "/hooks/pr", body: PULL_REQUEST },
        0.9,
      ),
  );
}
if (wanted("transform")) {
  const withModule = { hooks: { mappings: [mapping("pr", { transform: { module: "t.js" } })] } };
  await withServers(
    [
      startGateway(withModule, ["--no-workers"], { "transforms/t.js": MODULE }),
      startGateway({ hooks: { mappings: [mapping("pr")] } }, ["--no-workers"]),
    ],
    async ([module, none]) =>
      pair(
        "transform module against none",
        { server: module as Server, path: "/hooks/pr", body: PULL_REQUEST },
        { server: none as Server, path: "/hooks/pr", body: PULL_REQUEST },
        0.35,
      ),
  );
}
const SIGN = { secret: "bench-signing-secret-0123456789", header: "X-Hub-Signature-256", prefix: "sha256=" };
/** The pull request with a place where each request differs: the same body twice would be a repeat. */
const SIGNED_PULL_REQUEST = PULL_REQUEST.replace("{", `{"bench":"${MARK}",`);
if (wanted("signed")) {
  const hooks = { presets: [{ use: "github", secret: SIGN.secret }] };
  await withServers([startGateway({ hooks }, ["--no-workers"]), startEcho()], async ([gateway, echo]) =>
    pair(
      `signed preset, ${Math.round(PULL_REQUEST.length / 1000)} KB`,
      { server: gateway as Server, path: "/hooks/github", body: SIGNED_PULL_REQUEST, sign: SIGN },
      { server: echo as Server, path: "/echo", body: SIGNED_PULL_REQUEST, sign: SIGN },
      0.35,
    ),
  );
}
if (wanted("presets")) {
  const byHookToken = (use: string) => ({ use, auth: "token" });
  const all = presetNames(PRESETS_DIR).map(byHookToken);
  await withServers(
    [
      startGateway({ hooks: { presets: all } }, ["--no-workers"]),
      startGateway({ hooks: { presets: [byHookToken("github")] } }, ["--no-workers"]),
    ],
    async ([many, one]) =>
      pair(
        `${all.length} presets against 1`,
        { server: many as Server, path: "/hooks/github", body: PULL_REQUEST },
        { server: one as Server, path: "/hooks/github", body: PULL_REQUEST },
        0.91,
      ),
  );
}
if (wanted("workers")) {
  await withModel(async (config) =>
    withServers([startGateway(config, []), startEcho()], async ([gateway, echo]) =>
      pair(
        "durable agent, with workers and an instant model",
        { server: gateway as Server, path: "/hooks/agent", body: AGENT },
        { server: echo as Server, path: "/echo", body: AGENT },
        null,
      ),
    ),
  );
}
if (wanted("postgres")) {
  if (await hasPostgres()) {
    await withSchema((url) =>
      withServers([startGateway({ store: { url } }, ["--no-workers"]), startEcho()], async ([gateway, echo]) =>
        pair(
          "PostgreSQL: durable agent",
          { server: gateway as Server, path: "/hooks/agent", body: AGENT },
          { server: echo as Server, path: "/echo", body: AGENT },
          0.2,
        ),
      ),
    );
    rows.push(await twoAgainstOne({ connections: CONNECTIONS, rounds: ROUNDS, ms: MS }));
    rows.push(await enqueueToStart(100));
  } else console.error("PostgreSQL: left out, none answers at TEST_POSTGRES_URL");
}
if (wanted("chat")) rows.push(...(await chatRows(MS, ROUNDS)));
if (wanted("runs")) rows.push(await wholeRuns(MS), await wholeRuns(MS, 2));
if (wanted("start")) rows.push(...(await installed()));

if (values.json) console.log(JSON.stringify({ connections: CONNECTIONS, rounds: ROUNDS, seconds: MS / 1000, rows }, null, 2));
else {
  console.log("| row | ratio | at least | CPU µs a request, against | answers that failed |\n|---|---|---|---|---|");
  for (const { row, ratio, least, perSecond, cpuMicros, errors, note } of rows) {
    const figure = note ?? (ratio === null ? `${perSecond[0]}` : ratio.toFixed(2));
    console.log(
      `| ${row} | ${figure} | ${least ?? "–"} | ${cpuMicros[1] === null ? cpuMicros[0] || "–" : cpuMicros.join(", ")} | ${errors} |`,
    );
  }
}
