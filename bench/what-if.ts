/** Rows of comparisons over recorded events: the command, the route while an operator types, and other hooks meanwhile. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readBodies, readSources } from "../scripts/recorded-bodies.ts";
import { systemClock } from "../src/core/clock.ts";
import { newId } from "../src/core/ids.ts";
import { createLogger } from "../src/core/log.ts";
import { openStore } from "../src/store/open.ts";
import { AGENT } from "./bodies.ts";
import { alternate, medianBy, type Row } from "./measure.ts";
import {
  getSignal,
  load,
  readCpuMicros,
  ROOT,
  startGateway,
  TOKEN,
  withServers,
  type Server,
} from "./servers.ts";

const EVENTS = 10_000;
const OPERATOR = "bench-operator-token-0123456789";
const HOOKS = { enabled: true, token: TOKEN, presets: [{ use: "github", auth: "token" }] };
/** Takes what the preset leaves. */
const MORE = {
  id: "labels",
  match: { path: "github", payload: { action: "labeled" } },
  messageTemplate: "Labeled: {{sender.login}}",
  deliver: false,
};
const FIFTY = Array.from({ length: 50 }, (_, index) => ({
  id: `when-${index}`,
  match: {
    path: "github",
    when: `$count(payload.commits[$contains(message, "release ${index}")]) > 0 and payload.ref = "refs/heads/main"`,
  },
  messageTemplate: "{{ref}}",
  deliver: false,
}));

/** Records events with published bodies of GitHub, whose mean length is about 10 KB. Returns the mean in bytes. */
async function record(dir: string): Promise<number> {
  const bodies = readSources()
    .filter(({ sender }) => sender === "github")
    .flatMap((source) => readBodies(source))
    .map(({ text }) => Buffer.from(text));
  const { store } = await openStore({
    url: `sqlite:${join(dir, "rouse.db")}`,
    clock: systemClock,
    log: createLogger("silent"),
  });
  const first = Date.now() - EVENTS * 1000;
  let bytes = 0;
  for (let next = 0; next < EVENTS; next += 100) {
    getSignal().throwIfAborted();
    const numbers = Array.from({ length: 100 }, (_, index) => next + index);
    await Promise.all(
      numbers.map((number) => {
        const body = bodies[number % bodies.length] as Buffer;
        bytes += body.length;
        const receivedAt = first + number * 1000;
        const request = {
          method: "POST" as const,
          contentType: "application/json",
          headers: {},
          query: {},
          body,
        };
        return store.accept({
          id: newId("evt", receivedAt),
          receivedAt,
          path: "github",
          credential: "hooks.token",
          outcome: "unmatched",
          actions: [],
          request,
        });
      }),
    );
  }
  await store.close();
  return bytes / EVENTS;
}

interface Diffed {
  firstMs: number;
  wholeMs: number;
  cpuMs: number;
  peakMb: number;
  groups: number;
}

const PEAK = /VmHWM:\s+(\d+)/;

/** Runs `rouse hooks diff --json`, and looks at its process until it ends. */
async function diff(dir: string, config: string): Promise<Diffed> {
  const began = performance.now();
  const found: Diffed = { firstMs: Infinity, wholeMs: 0, cpuMs: 0, peakMb: 0, groups: 0 };
  const child = spawn(
    process.execPath,
    [join(ROOT, "bin/rouse.js"), "hooks", "diff", "--config", config, "--json"],
    {
      cwd: dir,
      stdio: ["ignore", "pipe", "inherit"],
      signal: getSignal(),
    },
  );
  // Aborting ends the lines too, and with them the row.
  child.once("error", () => undefined);
  const look = setInterval(() => {
    const pid = child.pid as number;
    found.cpuMs = Math.max(found.cpuMs, readCpuMicros(pid) / 1000);
    try {
      found.peakMb =
        Number(PEAK.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? found.peakMb * 1024) /
        1024;
    } catch {
      // It has ended.
    }
  }, 10);
  try {
    let last = "";
    let text = "";
    for await (const chunk of child.stdout) {
      text += String(chunk);
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      if (found.firstMs === Infinity && lines.some((line) => line.startsWith('{"type":"group"'))) {
        found.firstMs = performance.now() - began;
      }
      last = lines.at(-1) ?? last;
    }
    found.wholeMs = performance.now() - began;
    const end = JSON.parse(last) as { type: string; events: number; groups: unknown[] };
    if (end.type !== "end" || end.events !== EVENTS)
      throw new Error(`a comparison did not end: ${last.slice(0, 200)}`);
    found.groups = end.groups.length;
    return found;
  } finally {
    clearInterval(look);
  }
}

/** Asks a gateway for a comparison and reads its answer. Returns the milliseconds that it took. */
async function compare(
  { port }: Server,
  last: number,
  text: object,
  signal = getSignal(),
): Promise<number> {
  const began = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/admin/v1/what-if`, {
    method: "POST",
    headers: { authorization: `Bearer ${OPERATOR}`, "content-type": "application/json" },
    body: JSON.stringify({
      change: { kind: "add", text: JSON.stringify(text) },
      last,
      client: "bench",
    }),
    signal,
  });
  const answer = await response.text();
  if (!answer.includes('{"type":"end"'))
    throw new Error(`a comparison did not end: ${answer.slice(0, 200)}`);
  return performance.now() - began;
}

/** Another hook's p99 while events are compared again and again, against the p99 while none are. */
async function meanwhile(gateway: Server, ms: number): Promise<[busy: number, quiet: number]> {
  const post = () =>
    load({
      port: gateway.port,
      path: "/hooks/agent",
      body: AGENT,
      token: TOKEN,
      connections: 1,
      ms,
    });
  const quiet = await post();
  const ended = new AbortController();
  const comparing = (async (): Promise<void> => {
    while (!ended.signal.aborted)
      await compare(gateway, EVENTS, MORE, AbortSignal.any([ended.signal, getSignal()])).catch(
        () => undefined,
      );
  })();
  const busy = await post();
  ended.abort();
  await comparing;
  return [busy.p99, quiet.p99];
}

async function commandRows(dir: string, rounds: number, mean: number): Promise<Row[]> {
  const [plain = [], fifty = []] = await alternate(
    [() => diff(dir, "next.json5"), () => diff(dir, "fifty.json5")],
    rounds,
  );
  const toSeconds = (list: readonly Diffed[]): string =>
    (medianBy(list, ({ cpuMs }) => cpuMs) / 1000).toFixed(1);
  const note = `${EVENTS.toLocaleString("en-US")} events, bodies of ${Math.round(mean / 100) / 10} KB in the mean, GitHub preset; processor time ${toSeconds(plain)} s, with fifty conditions ${toSeconds(fifty)} s`;
  const row = (
    name: string,
    list: Diffed[],
    read: (one: Diffed) => number,
    unit: NonNullable<Row["unit"]>,
  ): Row => ({
    row: name,
    value: medianBy(list, read),
    unit,
  });
  return [
    {
      ...row("`rouse hooks diff`, first group", plain, ({ firstMs }) => firstMs / 1000, "s"),
      note,
    },
    row("`rouse hooks diff`, whole", plain, ({ wholeMs }) => wholeMs / 1000, "s"),
    row("`rouse hooks diff`, memory at most", plain, ({ peakMb }) => peakMb, "MB"),
    row(
      "the same with fifty JSONata conditions, whole",
      fifty,
      ({ wholeMs }) => wholeMs / 1000,
      "s",
    ),
    row(
      "the same with fifty JSONata conditions, memory at most",
      fifty,
      ({ peakMb }) => peakMb,
      "MB",
    ),
  ];
}

/** Measures `rouse hooks diff` and `POST /admin/v1/what-if` over recorded bodies of GitHub. */
export async function whatIfRows({ ms, rounds }: { ms: number; rounds: number }): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-what-if-"));
  const stateDir = join(dir, ".rouse");
  mkdirSync(stateDir);
  const write = (name: string, mappings: object[]): void =>
    writeFileSync(join(dir, name), JSON.stringify({ stateDir, hooks: { ...HOOKS, mappings } }));
  write("rouse.json5", []);
  write("next.json5", [MORE]);
  write("fifty.json5", [...FIFTY, MORE]);
  try {
    const mean = await record(stateDir);
    const rows = await commandRows(dir, rounds, mean);
    const config = {
      stateDir,
      gateway: { port: 0, token: OPERATOR, drainSeconds: 0 },
      hooks: HOOKS,
    };
    await withServers([startGateway(config, { workers: false })], async ([gateway]) => {
      let key = 0;
      // Each key changes the text, as it does when it is typed.
      const type = () => compare(gateway, 200, { ...MORE, messageTemplate: `Labeled ${key++}` });
      const [typed = []] = await alternate([type], rounds * 10);
      rows.push({
        row: "`POST /admin/v1/what-if`, 200 events, as while typing",
        value: medianBy(typed, (one) => one),
        unit: "ms",
      });
      const [p99 = []] = await alternate([() => meanwhile(gateway, ms)], rounds);
      const [busy, quiet] = [medianBy(p99, ([one]) => one), medianBy(p99, ([, one]) => one)];
      rows.push({
        row: "another hook's p99 while events are compared, against quiet",
        value: busy / quiet,
        p99: [busy, quiet],
      });
    });
    return rows;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
