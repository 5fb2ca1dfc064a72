/**
 * `npm run attack`: attacks a gateway that it starts, and prints what held. An attack holds if honest hooks are accepted all
 * the time and none of them is lost, their p99 stays within three times that of a quiet gateway, and the process grows by less than
 * 80 MB. With `--shared`, for machines that do other work meanwhile, no time is judged: each attack goes on until enough honest hooks
 * were answered and the attack has its own answer, and memory may grow by twice that.
 */
import { fork } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ATTACKS, GATEWAY_TOKEN, type Attack } from "./attacks.ts";
import { startGateway, TOKEN, type Server } from "./servers.ts";

const SECRET = "attack-signing-secret-0123456789";
const MAX_GROWTH_MB = 80;
const MAX_SLOWDOWN = 3;
/** A quiet p99 below this counts as this: on a machine at rest it is a fraction of a millisecond, and noise is not. */
const MIN_QUIET_MS = 5;
/** So many honest hooks are answered during each attack, and for so long is waited for them and for the answer to the attack. */
const MIN_HONEST = 20;
const PATIENCE_MS = 60_000;

const PLUGIN = `import { definePlugin } from "rouse/plugin";
export default definePlugin({ id: "acme", channel: () => ({
  send: async () => ({ status: "sent" }),
  request: async (request) => new Response(JSON.stringify(await request.json())),
}) });`;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "12" },
    only: { type: "string" },
    json: { type: "boolean" },
    shared: { type: "boolean" },
    child: { type: "string" },
    port: { type: "string" },
  },
});

/** The answers to an attack. */
interface Seen {
  expected: boolean;
  forbidden: boolean;
}

/** Runs one attack in this process until the parent says stop. Says what came back: whenever that is news, and at the end. */
function attackAsChild(attack: Attack, port: number): void {
  const ended = new AbortController();
  const seen: Seen = { expected: attack.expects === undefined, forbidden: false };
  const tell = (news: Partial<Seen>): void => {
    Object.assign(seen, news);
    process.send?.(seen);
  };
  attack.run({
    port,
    signal: ended.signal,
    answered(text) {
      if (!seen.expected && attack.expects?.test(text)) tell({ expected: true });
      if (!seen.forbidden && attack.forbids?.test(text)) tell({ forbidden: true });
    },
  });
  process.once("message", () => {
    ended.abort();
    process.send?.(seen, () => process.exit(0));
  });
}

const agent = new Agent({ keepAlive: true, maxSockets: 4 });

interface Answer {
  status: number;
  ms: number;
}

function post(
  port: number,
  path: string,
  headers: Record<string, string>,
  body: string,
): Promise<Answer> {
  return new Promise((resolve) => {
    const startedAt = performance.now();
    const end = (status: number): void => resolve({ status, ms: performance.now() - startedAt });
    const outgoing = request(
      { port, host: "127.0.0.1", path, method: "POST", agent, headers },
      (incoming) => {
        incoming.resume().on("end", () => end(incoming.statusCode ?? 0));
      },
    );
    // The gateway may have closed an idle connection at the moment in which it was used again.
    outgoing.on("error", () =>
      outgoing.reusedSocket ? void post(port, path, headers, body).then(resolve) : end(0),
    );
    outgoing.end(body);
  });
}

let accepted = 0;
/** The number of accepted hooks that the gateway has not recorded. It counts them a moment after its answer. */
async function countLost(port: number): Promise<number> {
  const headers = { authorization: `Bearer ${GATEWAY_TOKEN}` };
  for (const until = performance.now() + PATIENCE_MS; ;) {
    const answer = await fetch(`http://127.0.0.1:${port}/admin/v1/status`, { headers });
    const { status } = (await answer.json()) as { status: { counts: Record<string, number> } };
    const lost = accepted - (status.counts["events.accepted"] ?? 0);
    if (lost <= 0 || performance.now() > until) return lost;
    await new Promise((next) => setTimeout(next, 100));
  }
}

let sentResult = 0;
/** An honest sender by the hook token, and one that signs, in turn. */
function honest(port: number): Promise<Answer> {
  const body = JSON.stringify({ n: ++sentResult, text: "x".repeat(2000) });
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  return sentResult % 2 === 0
    ? post(
        port,
        "/hooks/signed",
        { "content-type": "application/json", "x-hub-signature-256": `sha256=${signature}` },
        body,
      )
    : post(
        port,
        "/hooks/plain",
        { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
        body,
      );
}

interface Measured {
  p99: number;
  honest: number;
  refused: number;
  growthMb: number;
}

/** Sends honest hooks at a steady pace and watches the process meanwhile: for so long, or longer until enough was seen. */
async function measure(server: Server, ms: number, isEnough = () => true): Promise<Measured> {
  const before = server.rssMb();
  let most = before;
  const answers: Answer[] = [];
  const began = performance.now();
  const isOver = (passed: number): boolean =>
    passed >= ms &&
    ((answers.length >= MIN_HONEST && isEnough()) || passed >= Math.max(ms, PATIENCE_MS));
  while (!isOver(performance.now() - began)) {
    const answer = await honest(server.port);
    if (answer.status === 202) accepted++;
    answers.push(answer);
    most = Math.max(most, server.rssMb());
    await new Promise((next) => setTimeout(next, 10));
  }
  const times = answers.map((answer) => answer.ms).toSorted((a, b) => a - b);
  return {
    p99: times[Math.floor(times.length * 0.99)] ?? 0,
    honest: answers.length,
    refused: answers.filter(({ status }) => status !== 202).length,
    growthMb: most - before,
  };
}

interface Row extends Measured {
  attack: string;
  held: boolean;
  problems: string[];
}

async function under(attack: Attack, server: Server, quiet: number, ms: number): Promise<Row> {
  const args = ["--child", attack.name, "--port", String(server.port)];
  const child = fork(fileURLToPath(import.meta.url), args, { execArgv: process.execArgv });
  let seen: Seen = { expected: attack.expects === undefined, forbidden: false };
  child.on("message", (news) => (seen = news as Seen));
  const measured = await measure(server, ms, () => seen.expected);
  const ended = Promise.all([once(child, "exit"), once(child, "disconnect")]);
  child.send("stop");
  await ended;
  const lost = await countLost(server.port);
  const problems = [
    ...(!values.shared && measured.p99 > quiet * MAX_SLOWDOWN
      ? [`p99 is ${(measured.p99 / quiet).toFixed(1)} times the quiet one`]
      : []),
    ...(measured.refused > 0 ? [`${measured.refused} honest hooks were turned away`] : []),
    ...(measured.honest < MIN_HONEST ? [`only ${measured.honest} honest hooks were answered`] : []),
    ...(lost > 0 ? [`${lost} accepted hooks were lost`] : []),
    ...(measured.growthMb > MAX_GROWTH_MB * (values.shared ? 2 : 1)
      ? [`the process grew by more than ${MAX_GROWTH_MB} MB`]
      : []),
    ...(attack.expects && !seen.expected
      ? [`no answer was like ${attack.expects.source.trim()}`]
      : []),
    ...(seen.forbidden ? ["an answer came that must not come"] : []),
  ];
  return { attack: attack.name, ...measured, held: problems.length === 0, problems };
}

async function main(): Promise<void> {
  const ms = Number(values.seconds) * 1000;
  const hook = (path: string, more: object): object => ({
    id: path,
    match: { path },
    messageTemplate: "{{n}}",
    deliver: false,
    wakeMode: "next-heartbeat",
    ...more,
  });
  const mappings = [
    hook("plain", {}),
    hook("signed", { auth: { scheme: "github", secret: SECRET }, maxBodyBytes: 25 * 2 ** 20 }),
    hook("several", { auth: { scheme: "pagerduty", secret: SECRET } }),
  ];
  const config = {
    gateway: { port: 0, drainSeconds: 0, token: GATEWAY_TOKEN },
    channels: { acme: {} },
    hooks: { mappings },
  };
  const attacks = ATTACKS.filter(
    ({ name }) => values.only === undefined || name.includes(values.only),
  );
  const rows: Row[] = [];
  const server = await startGateway(config, { files: { "plugins/acme.ts": PLUGIN } });
  let quiet = 0;
  try {
    await measure(server, 2000);
    const { p99 } = await measure(server, Math.min(ms, 5000));
    quiet = Math.max(MIN_QUIET_MS, p99);
    const limit = values.shared
      ? "no time is judged"
      : `an attack may raise it to ${(quiet * MAX_SLOWDOWN).toFixed(1)} ms`;
    if (!values.json) console.log(`quiet: p99 ${p99.toFixed(1)} ms; ${limit}\n`);
    for (const attack of attacks) {
      const row = await under(attack, server, quiet, ms);
      rows.push(row);
      if (values.json) continue;
      const figures = `${String(row.honest).padStart(4)} honest hooks, p99 ${row.p99.toFixed(1).padStart(6)} ms  memory +${row.growthMb.toFixed(0).padStart(3)} MB`;
      console.log(
        `${row.held ? "held  " : "FAILED"}  ${figures}  ${row.attack}${row.problems.map((problem) => `\n          ${problem}`).join("")}`,
      );
    }
  } finally {
    agent.destroy();
    await server.stop();
  }
  const held = rows.filter((row) => row.held).length;
  if (values.json) console.log(JSON.stringify({ quietP99Ms: quiet, rows }));
  else console.log(`\n${held} of ${rows.length} attacks held off`);
  if (held < rows.length) process.exitCode = 1;
}

if (values.child === undefined) await main();
else
  attackAsChild(ATTACKS.find(({ name }) => name === values.child) as Attack, Number(values.port));
