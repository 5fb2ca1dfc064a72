/** Time to start, memory and installed size. */
import { execFileSync } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AGENT } from "./bodies.ts";
import { CONNECTIONS, median, medianRatio, type Row } from "./measure.ts";
import {
  load,
  pause,
  ROOT,
  startGateway,
  TOKEN,
  withServers,
  type GatewayOptions,
} from "./servers.ts";

async function startAndMemory(options: GatewayOptions): Promise<Row[]> {
  const ready: number[] = [];
  let rss = 0;
  for (let i = 0; i < 6; i++) {
    await withServers([startGateway({}, options)], async ([gateway]) => {
      // The first start of all compiles, and keeps what it compiled.
      if (i === 0) return;
      ready.push(gateway.readyMs);
      await pause(1000);
      rss = Math.max(rss, gateway.rssMb());
    });
  }
  return [
    { row: "time until hooks are accepted", value: median(ready) / 1000, unit: "s" },
    { row: "memory of an idle gateway", value: rss, unit: "MB" },
  ];
}

/** The memory of the process when it has been idle for a second, and its time to start. */
async function startOnce(
  mode: "off" | "edit",
  options: GatewayOptions,
): Promise<{ readyMs: number; rssMb: number }> {
  return withServers(
    [startGateway({ gateway: { port: 0, drainSeconds: 0, console: mode } }, options)],
    async ([gateway]) => {
      await pause(1000);
      return { readyMs: gateway.readyMs, rssMb: gateway.rssMb() };
    },
  );
}

/** Measures the console's share of a start and of an idle gateway: each round starts it with and without, in turn. */
async function consoleRows(rounds: number, options: GatewayOptions): Promise<Row[]> {
  const on: Awaited<ReturnType<typeof startOnce>>[] = [];
  const off: typeof on = [];
  for (let round = -1; round < rounds; round++) {
    // Which one comes first alternates, so that neither always finds the caches warmer. The first round of all compiles.
    const order = round % 2 === 0 ? (["edit", "off"] as const) : (["off", "edit"] as const);
    for (const mode of order) {
      const measured = await startOnce(mode, options);
      if (round >= 0) (mode === "off" ? off : on).push(measured);
    }
  }
  const compare = (row: string, read: (one: (typeof on)[number]) => number): Row => ({
    row: `${row}, with the console against without`,
    value: medianRatio(on, off, read),
  });
  return [
    compare("time until hooks are accepted", ({ readyMs }) => readyMs),
    compare("memory of an idle gateway", ({ rssMb }) => rssMb),
  ];
}

/** The size of the state folder after a stop, for each hook that was accepted. */
async function diskRow(options: GatewayOptions): Promise<Row> {
  const stateDir = mkdtempSync(join(tmpdir(), "rouse-bench-disk-"));
  const job = { path: "/hooks/agent", body: AGENT, token: TOKEN, connections: CONNECTIONS };
  try {
    const requests = await withServers(
      [startGateway({ stateDir }, { ...options, workers: false })],
      async ([gateway]) => (await load({ ...job, port: gateway.port, ms: 3000 })).requests,
    );
    const bytes = readdirSync(stateDir).reduce(
      (sum, name) => sum + statSync(join(stateDir, name)).size,
      0,
    );
    return {
      row: `disk of a hook on SQLite, with a body of ${AGENT.length} bytes`,
      value: bytes / requests,
      unit: "bytes",
    };
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
}

/** The package as users get it: packed, installed into an empty folder without optional dependencies, and started. */
export async function startRows(rounds: number): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-installed-"));
  const npm = (args: string[], cwd: string): string =>
    execFileSync("npm", args, {
      cwd,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      timeout: 300_000,
    });
  try {
    const [packed] = JSON.parse(npm(["pack", "--json", "--pack-destination", dir], ROOT)) as {
      filename: string;
    }[];
    writeFileSync(join(dir, "package.json"), '{ "private": true }');
    npm(
      [
        "install",
        "--no-audit",
        "--no-fund",
        "--omit=dev",
        "--omit=optional",
        join(dir, packed?.filename ?? ""),
      ],
      dir,
    );
    const bytes = readdirSync(join(dir, "node_modules"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      // Whole blocks, as they lie on disk.
      .reduce((sum, entry) => sum + lstatSync(join(entry.parentPath, entry.name)).blocks * 512, 0);
    const program = join(dir, "node_modules/rouse/bin/rouse.js");
    return [
      ...(await startAndMemory({ program })),
      ...(await consoleRows(rounds, { program })),
      await diskRow({ program }),
      {
        row: "installed size without optional dependencies",
        value: bytes / 2 ** 20,
        unit: "MB",
      },
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
