/**
 * `npm run bench -- --peers`: other programs that take hooks, and Rouse, against one echo, in turn. Each program checks a token,
 * parses the JSON body, takes one value out of it and answers, with the settings that its documentation says are fastest.
 */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { AGENT } from "./bodies.ts";
import { compare, toRow, type Row, type Side, type Timing } from "./measure.ts";
import { pause, startEcho, startGateway, toServer, TOKEN, withServers, type Server } from "./servers.ts";

const CACHE = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "rouse-bench");
const NODE_RED = "5.0.7";
const START_MS = 30_000;
const PATH = "/hooks/agent";

interface Peer {
  name: string;
  /** What it does with a request. */
  note: string;
  /** The command that starts it on a port, with its files in `dir`; undefined if it cannot be installed. */
  install(): readonly string[] | undefined;
  files(port: number): Record<string, string>;
  args(port: number): readonly string[];
  /** It starts a process for each request. */
  hasChildren?: boolean;
}

const run = (command: string, args: readonly string[], cwd: string): string =>
  execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], timeout: 300_000 });

/** Debian's package, unpacked and not installed, if the machine does not have the program. */
function findWebhook(): readonly string[] | undefined {
  const dir = join(CACHE, "webhook");
  const program = join(dir, "usr/bin/webhook");
  try {
    run("webhook", ["-version"], tmpdir());
    return ["webhook"];
  } catch {
    // It is not on the PATH.
  }
  if (existsSync(program)) return [program];
  console.error(`webhook: downloads Debian's package into ${dir}`);
  try {
    mkdirSync(dir, { recursive: true });
    run("apt-get", ["download", "webhook"], dir);
    run("sh", ["-c", "dpkg -x webhook_*.deb ."], dir);
    return [program];
  } catch {
    return undefined;
  }
}

function findNodeRed(): readonly string[] | undefined {
  const dir = join(CACHE, `node-red-${NODE_RED}`);
  const program = join(dir, "node_modules/node-red/red.js");
  if (!existsSync(program)) {
    console.error(`node-red: installs version ${NODE_RED} into ${dir}`);
    try {
      mkdirSync(dir, { recursive: true });
      writeFileSync(join(dir, "package.json"), '{ "private": true }');
      run("npm", ["install", "--no-audit", "--no-fund", `node-red@${NODE_RED}`], dir);
    } catch {
      return undefined;
    }
  }
  return [process.execPath, program];
}

const HOOKS = [
  {
    id: "agent",
    "execute-command": "/bin/true",
    "http-methods": ["POST"],
    "response-message": '{"ok":true}',
    "response-headers": [{ name: "Content-Type", value: "application/json" }],
    "pass-arguments-to-command": [{ source: "payload", name: "message" }],
    "trigger-rule": {
      match: { type: "value", value: `Bearer ${TOKEN}`, parameter: { source: "header", name: "Authorization" } },
    },
  },
];
const FLOW = [
  { id: "tab", type: "tab", label: "bench" },
  { id: "in", type: "http in", z: "tab", url: PATH, method: "post", upload: false, wires: [["check"]] },
  {
    id: "check",
    type: "function",
    z: "tab",
    outputs: 1,
    func: `const known = msg.req.headers.authorization === "Bearer ${TOKEN}";
msg.statusCode = known ? 202 : 401;
msg.payload = known ? { ok: true, message: msg.payload.message } : { ok: false };
return msg;`,
    wires: [["out"]],
  },
  { id: "out", type: "http response", z: "tab", statusCode: "", headers: {}, wires: [] },
];

const PEERS: readonly Peer[] = [
  {
    name: "adnanh/webhook",
    note: "checks the token with a trigger rule, parses the body, answers, and starts /bin/true with the value after that; without -verbose. What it has accepted is lost if it ends.",
    install: findWebhook,
    files: () => ({ "hooks.json": JSON.stringify(HOOKS) }),
    args: (port) => ["-hooks", "hooks.json", "-ip", "127.0.0.1", "-port", String(port)],
    hasChildren: true,
  },
  {
    name: `Node-RED ${NODE_RED}`,
    note: "an `http in` node, one function node that checks the token and takes the value, and an `http response` node; editor, log and telemetry are off. What it has accepted is lost if it ends.",
    install: findNodeRed,
    files: (port) => ({
      "flows.json": JSON.stringify(FLOW),
      // A "type" in a package.json of a parent folder does not change what `.cjs` is.
      "settings.cjs": `module.exports = ${JSON.stringify({
        uiPort: port,
        uiHost: "127.0.0.1",
        httpAdminRoot: false,
        credentialSecret: false,
        logging: { console: { level: "off" } },
        telemetry: { enabled: false },
        diagnostics: { enabled: false },
      })};`,
    }),
    args: () => ["--userDir", ".", "--settings", "settings.cjs", "flows.json"],
  },
];

async function findPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

/** A program may listen before it knows its hooks. */
async function answers(port: number): Promise<boolean> {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${PATH}`, {
      method: "POST",
      headers,
      body: AGENT,
      signal: AbortSignal.timeout(1000),
    });
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}

async function start({ name, files, args, hasChildren = false }: Peer, [command = "", ...before]: readonly string[]): Promise<Server> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-peer-"));
  const port = await findPort();
  for (const [file, text] of Object.entries(files(port))) writeFileSync(join(dir, file), text);
  const env = { PATH: process.env["PATH"] ?? "", HOME: dir, NODE_ENV: "production" };
  const began = performance.now();
  const child = spawn(command, [...before, ...args(port)], { cwd: dir, stdio: "ignore", env });
  const cleanUp = (): void => rmSync(dir, { recursive: true, force: true });
  const server = toServer(child, port, 0, { cleanUp, hasChildren });
  try {
    while (!(await answers(port))) {
      if (child.exitCode !== null || performance.now() - began > START_MS) throw new Error(`${name} does not answer on its port`);
      await pause(50);
    }
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

const section = "Other programs";

/** Rouse's row and those of the programs that can be installed. */
export async function peerRows(timing: Timing): Promise<Row[]> {
  const found = PEERS.flatMap((peer) => {
    const command = peer.install();
    if (!command) console.error(`${peer.name}: left out, it cannot be installed here`);
    return command ? [{ peer, command }] : [];
  });
  const starts = [startEcho(), startGateway({}, { workers: false }), ...found.map(({ peer, command }) => start(peer, command))];
  return withServers(starts, async ([echo, ...servers]) => {
    if (!echo) return [];
    // The commands of the last requests end after their answers.
    const sides = servers.map((server): Side => ({ server, path: PATH, body: AGENT, settle: () => pause(500) }));
    const results = await compare({ server: echo, path: "/echo", body: AGENT }, sides, timing);
    const names = [
      { row: "Rouse, durable agent", note: "checks the token, parses the body, and answers when event and run are on disk." },
      ...found.map(({ peer }) => ({ row: peer.name, note: peer.note })),
    ];
    return results.flatMap((one, index) => {
      const name = names[index];
      return name ? [toRow(one, { section, ...name })] : [];
    });
  });
}
