/** Programs that take hooks and store nothing, with the settings that their documentation says are fastest. */
import { existsSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AGENT } from "../bodies.ts";
import { TOKEN } from "../servers.ts";
import { CACHE, findPort, installPackages, run, startProgram, type Peer } from "./install.ts";

const NODE_RED = "5.0.7";
const PATH = "/hooks/agent";

/** Debian's package, unpacked and not installed, if the machine does not have the program. */
function findWebhook(): string | undefined {
  const dir = join(CACHE, "webhook");
  const program = join(dir, "usr/bin/webhook");
  try {
    run("webhook", ["-version"], tmpdir());
    return "webhook";
  } catch {
    // It is not on the PATH.
  }
  if (existsSync(program)) return program;
  console.error(`webhook: downloads Debian's package into ${dir}`);
  try {
    mkdirSync(dir, { recursive: true });
    run("apt-get", ["download", "webhook"], dir);
    run("sh", ["-c", "dpkg -x webhook_*.deb ."], dir);
    return program;
  } catch {
    return undefined;
  }
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
      match: {
        type: "value",
        value: `Bearer ${TOKEN}`,
        parameter: { source: "header", name: "Authorization" },
      },
    },
  },
];
const FLOW = [
  { id: "tab", type: "tab", label: "bench" },
  {
    id: "in",
    type: "http in",
    z: "tab",
    url: PATH,
    method: "post",
    upload: false,
    wires: [["check"]],
  },
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

async function answers(port: number): Promise<boolean> {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const signal = AbortSignal.timeout(1000);
  const answer = await fetch(`http://127.0.0.1:${port}${PATH}`, {
    method: "POST",
    headers,
    body: AGENT,
    signal,
  });
  await answer.body?.cancel();
  return answer.ok;
}

export const webhook: Peer = {
  stores: false,
  sides: [
    {
      row: "adnanh/webhook",
      note: "stores nothing; starts `/bin/true` after the answer.",
      path: PATH,
    },
  ],
  prepare() {
    const program = findWebhook();
    return program === undefined
      ? undefined
      : async () => {
          const port = await findPort();
          const command = [
            program,
            "-hooks",
            "hooks.json",
            "-ip",
            "127.0.0.1",
            "-port",
            String(port),
          ];
          const files = { "hooks.json": JSON.stringify(HOOKS) };
          return startProgram({
            name: "webhook",
            command,
            port,
            files,
            hasChildren: true,
            isReady: () => answers(port),
          });
        };
  },
};

export const nodeRed: Peer = {
  stores: false,
  sides: [
    {
      row: `Node-RED ${NODE_RED}`,
      note: "stores nothing; three nodes.",
      path: PATH,
    },
  ],
  prepare() {
    const dir = installPackages({ "node-red": NODE_RED });
    return dir === undefined
      ? undefined
      : async () => {
          const port = await findPort();
          const settings = {
            uiPort: port,
            uiHost: "127.0.0.1",
            httpAdminRoot: false,
            credentialSecret: false,
            logging: { console: { level: "off" } },
            telemetry: { enabled: false },
            diagnostics: { enabled: false },
          };
          // A "type" in a package.json of a parent folder does not change what `.cjs` is.
          const files = {
            "flows.json": JSON.stringify(FLOW),
            "settings.cjs": `module.exports = ${JSON.stringify(settings)};`,
          };
          const program = [process.execPath, join(dir, "node_modules/node-red/red.js")];
          const command = [
            ...program,
            "--userDir",
            ".",
            "--settings",
            "settings.cjs",
            "flows.json",
          ];
          return startProgram({
            name: "node-red",
            command,
            port,
            files,
            isReady: () => answers(port),
          });
        };
  },
};
