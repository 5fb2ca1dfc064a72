/**
 * `npm run attack`: attacks a gateway that it starts, and prints what held. An attack holds if honest hooks are accepted all
 * the time, their p99 stays within three times that of a quiet gateway, and the process grows by less than 80 MB. With
 * `--shared`, for machines that do other work meanwhile, the p99 is printed and not judged, and memory may grow by twice that.
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

/** Runs one attack in this process until the parent says stop; then says what came back. */
function attackAsChild(attack: Attack, port: number): void {
  const ended = new AbortController();
  const seen = { expected: false, forbidden: false };
  attack.run({
    port,
    signal: ended.signal,
    answered(text) {
      if (attack.expects?.test(text)) seen.expected = true;
      if (attack.forbids?.test(text)) seen.forbidden = true;
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

function post(port: number, path: string, headers: Record<string, string>, body: string): Promise<Answer> {
  return new Promise((resolve) => {
    const startedAt = performance.now();
    const end = (status: number): void => resolve({ status, ms: performance.now() - startedAt });
    const outgoing = request({ port, host: "127.0.0.1", path, method: "POST", agent, headers }, (incoming) => {
      incoming.resume().on("end", () => end(incoming.statusCode ?? 0));
    });
    outgoing.on("error", () => end(0));
    outgoing.end(body);
  });
}

let sentResult = 0;
/** An honest sender by the hook token, and one that signs, in turn. */
function honest(port: number): Promise<Answer> {
  const body = JSON.stringify({ n: ++sentResult, text: "x".repeat(2000) });
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  return sentResult % 2 === 0
    ? post(port, "/hooks/signed", { "content-type": "application/json", "x-hub-signature-256": `sha256=${signature}` }, body)
    : post(port, "/hooks/plain", { "content-type": "application/json", authorization: `Bearer ${TOKEN}` }, body);
}

interface Measured {
  p99: number;
  refused: number;
  growthMb: number;
}

/** Sends honest hooks at a steady pace and watches the process meanwhile. */
async function measure(server: Server, ms: number): Promise<Measured> {
  const before = server.rssMb();
  let most = before;
  const answers: Answer[] = [];
  for (const until = performance.now() + ms; performance.now() < until;) {
    answers.push(await honest(server.port));
    most = Math.max(most, server.rssMb());
    await new Promise((next) => setTimeout(next, 10));
  }
  const times = answers.map((answer) => answer.ms).toSorted((a, b) => a - b);
  return {
    p99: times[Math.floor(times.length * 0.99)] ?? 0,
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
  const measured = await measure(server, ms);
  child.send("stop");
  const [seen] = (await once(child, "message")) as [{ expected: boolean; forbidden: boolean }];
  await once(child, "exit");
  const problems = [
    ...(!values.shared && measured.p99 > quiet * MAX_SLOWDOWN ? [`p99 is ${(measured.p99 / quiet).toFixed(1)} times the quiet one`] : []),
    ...(measured.refused > 0 ? [`${measured.refused} honest hooks were turned away`] : []),
    ...(measured.growthMb > MAX_GROWTH_MB * (values.shared ? 2 : 1) ? [`the process grew by more than ${MAX_GROWTH_MB} MB`] : []),
    ...(attack.expects && !seen.expected ? [`no answer was like ${attack.expects.source.trim()}`] : []),
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
  const config = { gateway: { port: 0, drainSeconds: 0, token: GATEWAY_TOKEN }, channels: { acme: {} }, hooks: { mappings } };
  const attacks = ATTACKS.filter(({ name }) => values.only === undefined || name.includes(values.only));
  const rows: Row[] = [];
  const server = await startGateway(config, { files: { "plugins/acme.ts": PLUGIN } });
  let quiet = 0;
  try {
    await measure(server, 2000);
    const { p99 } = await measure(server, Math.min(ms, 5000));
    quiet = Math.max(MIN_QUIET_MS, p99);
    if (!values.json) console.log(`quiet: p99 ${p99.toFixed(1)} ms; an attack may raise it to ${(quiet * MAX_SLOWDOWN).toFixed(1)} ms\n`);
    for (const attack of attacks) {
      const row = await under(attack, server, quiet, ms);
      rows.push(row);
      if (values.json) continue;
      const figures = `p99 ${row.p99.toFixed(1).padStart(6)} ms  memory +${row.growthMb.toFixed(0).padStart(3)} MB`;
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
else attackAsChild(ATTACKS.find(({ name }) => name === values.child) as Attack, Number(values.port));
