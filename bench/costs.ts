/**
 * `npm run bench -- --costs`: measures what a hook and a run cost here, and writes it into `bench/costs.json`, from which
 * `--simulate` computes. Entries that it does not measure stay as they are: the network's, and PostgreSQL's where none answers.
 */
import {
  closeSync,
  fdatasyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { AGENT } from "./bodies.ts";
import { alternate, CONNECTIONS } from "./measure.ts";
import { withModel } from "./model.ts";
import { hasPostgres } from "./postgres.ts";
import { postgresCosts } from "./postgres-costs.ts";
import { carryOut, HOOKS } from "./runs.ts";
import { load, startGateway, TOKEN, withServers } from "./servers.ts";
import { COSTS_FILE, parseCosts, type Cost } from "./simulate/costs.ts";

const getFolderSize = (dir: string): number =>
  readdirSync(dir).reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);

/** Processor time and disk of a hook that is accepted and waits. */
async function accepting(ms: number, rounds: number): Promise<Record<string, Cost>> {
  const stateDir = mkdtempSync(join(tmpdir(), "rouse-costs-"));
  const cpu: number[] = [];
  let requests = 0;
  const job = { path: "/hooks/agent", body: AGENT, token: TOKEN, connections: CONNECTIONS, ms };
  try {
    await withServers([startGateway({ stateDir }, { workers: false })], async ([gateway]) => {
      for (let round = 0; round <= rounds; round++) {
        const before = gateway.cpuMicros();
        const result = await load({ ...job, port: gateway.port });
        requests += result.requests;
        if (round > 0) cpu.push((gateway.cpuMicros() - before) / result.requests);
      }
    });
    const how = `${rounds} rounds of ${ms / 1000} s of POST /hooks/agent (${AGENT.length} bytes) from ${CONNECTIONS} connections over loopback, no workers, store in a file`;
    return {
      "gateway.acceptCpu": {
        unit: "µs",
        value: Math.round(Math.min(...cpu)),
        how: `user and system time of the gateway's process (store included) by hook, the least of ${how}`,
      },
      "store.bytesPerHook": {
        unit: "bytes",
        value: Math.round(getFolderSize(stateDir) / requests),
        how: `size of the state folder after a stop, by hook: ${how}`,
      },
    };
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
}

/** Measures the disk under the temporary folder. */
function disk(): Record<string, Cost> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-costs-"));
  const file = openSync(join(dir, "log"), "w");
  try {
    const page = Buffer.alloc(8192, 1);
    const times = Array.from({ length: 400 }, () => {
      const began = performance.now();
      writeSync(file, page);
      fdatasyncSync(file);
      return (performance.now() - began) * 1000;
    });
    const block = Buffer.alloc(1 << 20, 1);
    const began = performance.now();
    for (let n = 0; n < 256; n++) {
      writeSync(file, block);
      if (n % 16 === 15) fdatasyncSync(file);
    }
    const perSecond = 256 / ((performance.now() - began) / 1000);
    return {
      "disk.flush": {
        unit: "µs",
        value: Math.round(times.toSorted((a, b) => a - b)[100] ?? 0),
        how: "lower quartile of 400 times: append 8 KB, fdatasync",
      },
      "disk.logSpeed": {
        unit: "MB/s",
        value: Math.round(perSecond),
        how: "256 MB appended, fdatasync every 16 MB",
      },
    };
  } finally {
    closeSync(file);
    rmSync(dir, { recursive: true, force: true });
  }
}

/**
 * Measures, and writes what was found over what was there. The least of several rounds: what else runs on the machine only adds.
 */
export async function writeCosts(ms: number, rounds: number): Promise<void> {
  const known = parseCosts(readFileSync(COSTS_FILE, "utf8"));
  // Others' work makes everything dearer: whoever reads the figures should know of it.
  const [busy = 0] = loadavg();
  const accept = await accepting(ms, rounds);
  const [runs = []] = await withModel((model) =>
    withServers([startGateway(model.config)], ([gateway]) =>
      alternate([() => carryOut(gateway, model, HOOKS.SQLite)], rounds),
    ),
  );
  const run: Record<string, Cost> = {
    "gateway.runCpu": {
      unit: "µs",
      value: Math.round(Math.min(...runs.map(({ cpu }) => cpu))),
      how: `user and system time of the gateway's process by whole run, accepted before, with a model that answers at once; the least of ${rounds} rounds of ${HOOKS.SQLite} hooks`,
    },
  };
  const measuredOn = `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}, load average before ${busy.toFixed(1)}`;
  const postgres = (await hasPostgres()) ? await postgresCosts(AGENT, ms, rounds) : {};
  const found = { ...accept, ...run, ...postgres, ...disk() };
  for (const cost of Object.values(found)) cost.on = measuredOn;
  writeFileSync(
    COSTS_FILE,
    `${JSON.stringify({ ...known, costs: { ...known.costs, ...found } }, null, 2)}\n`,
  );
  for (const [name, { value, unit }] of Object.entries(found))
    console.log(`${name}: ${value} ${unit}`);
}
