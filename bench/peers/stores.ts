/** Programs that store what they accept before they answer. */
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, startScript, type Server } from "../servers.ts";
import { findPort, installPackages, joinServers, run, startProgram, type Peer } from "./install.ts";

const BULLMQ = "6.7.0";
const IOREDIS = "6.0.0";
const RESTATE = "1.7.12";
const RESTATE_SDK = "1.17.2";
const PATH = "/hooks/agent";
const FRONT = "behind the HTTP server of the durable echo";

function hasRedis(): boolean {
  try {
    run("redis-server", ["--version"], tmpdir());
    return true;
  } catch {
    return false;
  }
}

/** True if Redis answers a PING. */
const pings = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    socket.once("data", (answer) => {
      socket.destroy();
      resolve(answer.toString().startsWith("+PONG"));
    });
    socket.once("error", () => resolve(false));
  });

/** A Redis of its own, in a temporary folder, that syncs its log before it answers. */
async function startRedis(): Promise<Server> {
  const port = await findPort();
  const settings = [
    "--bind",
    "127.0.0.1",
    "--port",
    String(port),
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--save",
    "",
  ];
  return startProgram({
    name: "redis-server",
    command: ["redis-server", ...settings],
    port,
    isReady: () => pings(port),
  });
}

/** Starts what needs another server, and ends that server if it does not start. */
async function startWith(other: Server, start: () => Promise<Server>): Promise<Server> {
  try {
    return joinServers(await start(), other);
  } catch (error) {
    await other.stop();
    throw error;
  }
}

export const bullmq: Peer = {
  stores: true,
  sides: [
    {
      row: `BullMQ ${BULLMQ}`,
      note: `\`queue.add\` ${FRONT}, on Redis with \`appendfsync always\`.`,
      path: PATH,
    },
  ],
  prepare() {
    const dir = hasRedis() ? installPackages({ bullmq: BULLMQ, ioredis: IOREDIS }) : undefined;
    return dir === undefined
      ? undefined
      : async () => {
          const redis = await startRedis();
          return startWith(redis, () => startScript("peers/bullmq.ts", [dir, String(redis.port)]));
        };
  },
};

/** Stores in the schema of a PostgreSQL. */
export function pgBoss(url: string): Peer {
  const file = join(ROOT, "node_modules/pg-boss/package.json");
  const { version } = JSON.parse(readFileSync(file, "utf8")) as { version: string };
  const note = `\`boss.send\` ${FRONT}, on the same PostgreSQL as Rouse.`;
  return {
    stores: true,
    sides: [{ row: `pg-boss ${version}`, note, path: PATH }],
    prepare: () => () => startScript("peers/pg-boss.ts", [url]),
  };
}

/** The server itself, without the script that starts it. At its start it asks GitHub for its newest version; no setting prevents that. */
async function startRestate(dir: string): Promise<Server> {
  const service = await startScript("peers/restate.ts", [dir]);
  const [port, admin, fabric] = [await findPort(), await findPort(), await findPort()];
  const isReady = async (): Promise<boolean> => {
    const answer = await fetch(`http://127.0.0.1:${admin}/deployments`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ uri: `http://127.0.0.1:${service.port}` }),
      signal: AbortSignal.timeout(10_000),
    });
    await answer.body?.cancel();
    return answer.ok;
  };
  const env = {
    RESTATE_LISTEN_MODE: "tcp",
    RESTATE_BIND_ADDRESS: `127.0.0.1:${fabric}`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${port}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_ADMIN__DISABLE_WEB_UI: "true",
    RESTATE_DISABLE_TELEMETRY: "true",
    RESTATE_LOG_FILTER: "off",
  };
  const program = join(
    dir,
    `node_modules/@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`,
  );
  const command = [program, "--no-logo", "--base-dir", "data", "--node-name", "bench"];
  return startWith(service, () =>
    startProgram({ name: "restate-server", command, port, env, isReady }),
  );
}

const RESTATE_NOTE = "one node, default settings; one-way calls, due in a day, without a token.";

export const restate: Peer = {
  stores: true,
  sides: [
    {
      row: `Restate ${RESTATE}, calls that wait`,
      note: RESTATE_NOTE,
      path: "/Hooks/agent/send?delay=1d",
    },
    {
      row: `Restate ${RESTATE}, calls that run`,
      note: "the same calls, due immediately, with an empty handler.",
      path: "/Hooks/agent/send",
    },
  ],
  prepare() {
    const dir = installPackages({
      "@restatedev/restate-server": RESTATE,
      "@restatedev/restate-sdk": RESTATE_SDK,
    });
    return dir === undefined ? undefined : () => startRestate(dir);
  },
};
