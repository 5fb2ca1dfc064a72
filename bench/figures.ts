/** Figures that stand alone: whole runs, time to start, memory, installed size. */
import { execFileSync } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { load, startGateway, TOKEN, withServers, type Server } from "./servers.ts";

export interface Row {
  row: string;
  ratio: number | null;
  least: number | null;
  /** Requests a second: only for comparison inside one run. */
  perSecond: [number, number | null];
  cpuMicros: [number, number | null];
  errors: number;
  note?: string;
}

export const median = (numbers: number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;

const ROOT = resolve(import.meta.dirname, "..");
const CONNECTIONS = 16;
const REPLY = JSON.stringify({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "done" } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** A model server in this process that answers at once; `work` gets the config that names it, and how many turns it was asked. */
export async function withModel<T>(work: (config: object, turns: () => number) => Promise<T>): Promise<T> {
  let turns = 0;
  const model = createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      turns++;
      response.setHeader("content-type", "application/json");
      response.end(REPLY);
    });
  });
  await new Promise<void>((done) => model.listen(0, "127.0.0.1", done));
  const baseUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
  const config = {
    models: { providers: { local: { type: "openai-compatible", baseUrl } } },
    agents: { defaults: { model: "local/m", maxConcurrent: 16, heartbeat: { every: 0 } } },
  };
  try {
    return await work(config, () => turns);
  } finally {
    model.close();
  }
}

/** Each a run in a session of its own. */
export const RUN_BODY = JSON.stringify({ message: "x", deliver: false, wakeMode: "next-heartbeat" });

/** Hooks posted in a flood beforehand: how many runs end in a second. */
export function wholeRuns(ms: number): Promise<Row> {
  return withModel((config, turns) =>
    withServers([startGateway(config, [])], async ([gateway]) => {
      const server = gateway as Server;
      await load({ port: server.port, path: "/hooks/agent", body: RUN_BODY, token: TOKEN, connections: 1, ms: 500 });
      await load({ port: server.port, path: "/hooks/agent", body: RUN_BODY, token: TOKEN, connections: CONNECTIONS, ms: 1000 });
      const before = turns();
      const cpu = server.cpuMicros();
      await new Promise((done) => setTimeout(done, ms));
      const ran = turns() - before;
      return {
        row: "whole runs a second",
        ratio: null,
        least: 400,
        perSecond: [Math.round((ran / ms) * 1000), null],
        cpuMicros: [Math.round((server.cpuMicros() - cpu) / Math.max(1, ran)), null],
        errors: 0,
      };
    }),
  );
}

async function startAndMemory(name: string, program?: string): Promise<Row> {
  const ready: number[] = [];
  let rss = 0;
  for (let i = 0; i < 5; i++) {
    await withServers([startGateway({}, [], {}, program)], async ([gateway]) => {
      ready.push((gateway as Server).readyMs);
      await new Promise((done) => setTimeout(done, 1000));
      // The first start of all compiles, and keeps what it compiled.
      if (i > 0) rss = Math.max(rss, (gateway as Server).rssMb());
    });
  }
  const note = `${(median(ready) / 1000).toFixed(2)} s (first ${((ready[0] ?? 0) / 1000).toFixed(2)} s), ${Math.round(rss)} MB`;
  return figure(`${name}: ready after start (at most 0.8 s), memory when idle (at most 120 MB)`, note);
}

/** A row that is no pair. */
export function figure(row: string, note: string): Row {
  return { row, ratio: null, least: null, perSecond: [0, null], cpuMicros: [0, null], errors: 0, note };
}

/** The package as users get it: packed, installed into an empty folder without optional dependencies, and started. */
export async function installed(): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-installed-"));
  const npm = (args: string[], cwd: string): string =>
    execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  try {
    const [packed] = JSON.parse(npm(["pack", "--json", "--pack-destination", dir], ROOT)) as { filename: string }[];
    writeFileSync(join(dir, "package.json"), '{ "private": true }');
    npm(["install", "--no-audit", "--no-fund", "--omit=dev", "--omit=optional", join(dir, packed?.filename ?? "")], dir);
    const bytes = readdirSync(join(dir, "node_modules"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      // Whole blocks, as they lie on disk.
      .reduce((sum, entry) => sum + lstatSync(join(entry.parentPath, entry.name)).blocks * 512, 0);
    return [
      await startAndMemory("from a clone"),
      await startAndMemory("the installed package", join(dir, "node_modules/rouse/bin/rouse.js")),
      figure("installed size without optional dependencies (at most 100 MB)", `${Math.round(bytes / 2 ** 20)} MB`),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
