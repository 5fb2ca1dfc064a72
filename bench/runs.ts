/** Rows of whole runs: hooks that are accepted and executed, with a model that answers immediately. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AGENT_ALONE } from "./bodies.ts";
import {
  alternate,
  CONNECTIONS,
  countErrors,
  medianBy,
  medianRatio,
  medians,
  type Row,
} from "./measure.ts";
import { withModel, type Model } from "./model.ts";
import { withSchema } from "./postgres.ts";
import { load, ROOT, startGateway, TOKEN, withServers, type Server } from "./servers.ts";

/** The number of runs in a round. */
export const HOOKS = { SQLite: 1500, PostgreSQL: 500 };

interface Carried {
  /** Runs that ended in a second, after all hooks were accepted. */
  perSecond: number;
  /** Hooks in a second from the first request to the end of the last run. */
  whole: number;
  /** The gateway's CPU time of one run without its hook, in microseconds. */
  cpu: number;
  errors: number;
}

/** Posts hooks, and waits until their runs have ended. */
export async function carryOut(
  server: Server,
  { turns, reached }: Model,
  hooks: number,
): Promise<Carried> {
  const known = turns();
  const began = performance.now();
  const job = {
    path: "/hooks/agent",
    body: AGENT_ALONE,
    token: TOKEN,
    connections: CONNECTIONS,
    ms: 600_000,
    requests: hooks,
  };
  const { requests, errors } = await load({ ...job, port: server.port });
  const [before, cpu, accepted] = [turns(), server.cpuMicros(), performance.now()];
  await reached(known + requests - errors);
  const ended = performance.now();
  const ran = turns() - before;
  return {
    perSecond: (ran / (ended - accepted)) * 1000,
    whole: (requests / (ended - began)) * 1000,
    cpu: (server.cpuMicros() - cpu) / Math.max(1, ran),
    errors,
  };
}

/** Runs a second and CPU time of one, each run with so many steps that call a tool. */
export function wholeRuns(rounds: number, steps = 0): Promise<Row> {
  return withModel(
    (model) =>
      withServers([startGateway(model.config)], async ([gateway]) => {
        const [all = []] = await alternate([() => carryOut(gateway, model, HOOKS.SQLite)], rounds);
        const value = medianBy(all, ({ perSecond }) => perSecond);
        return {
          row:
            steps === 0
              ? "runs a second"
              : `runs a second, each with ${steps} steps that call a tool`,
          value,
          unit: "a second",
          cpuMicros: [medianBy(all, ({ cpu }) => cpu)],
          errors: countErrors(all),
        } as const;
      }),
    steps,
  );
}

/** Unpacks a commit of this repository, with the packages that are installed here. */
async function withCommit<T>(commit: string, work: (program: string) => Promise<T>): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-commit-"));
  try {
    const archive = execFileSync("git", ["archive", commit], { cwd: ROOT, maxBuffer: 2 ** 30 });
    execFileSync("tar", ["-x", "-C", dir], { input: archive });
    symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
    return await work(join(dir, "bin/rouse.js"));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Carries out hooks with two gateways in turn. Returns the first against the second, by what `read` takes. */
export function compareRuns(
  [ours, theirs]: readonly [(model: Model) => Promise<Server>, (model: Model) => Promise<Server>],
  { hooks, rounds, read }: { hooks: number; rounds: number; read: "perSecond" | "whole" },
): Promise<Pick<Row, "value" | "perSecond" | "cpuMicros" | "errors">> {
  return withModel((model) =>
    withServers([ours(model), theirs(model)], async (gateways) => {
      const sides = gateways.map((gateway) => () => carryOut(gateway, model, hooks));
      const [here = [], there = []] = await alternate(sides, rounds);
      return {
        value: medianRatio(here, there, (one) => one[read]),
        perSecond: medians(here, there, (one) => one[read]),
        cpuMicros: medians(here, there, ({ cpu }) => cpu),
        errors: countErrors(here, there),
      };
    }),
  );
}

/** Whole runs of this checkout against those of a commit, on both stores. */
export function runsAgainst(commit: string, hasPostgres: boolean, rounds: number): Promise<Row[]> {
  return withCommit(commit, async (program) => {
    const measure = async (
      store: "SQLite" | "PostgreSQL",
      [ours, theirs]: readonly [object, object],
    ): Promise<Row> => ({
      row: `runs a second on ${store}, against commit ${commit}`,
      ...(await compareRuns(
        [
          ({ config }) => startGateway({ ...config, ...ours }),
          ({ config }) => startGateway({ ...config, ...theirs }, { program }),
        ],
        { hooks: HOOKS[store], rounds, read: "perSecond" },
      )),
    });
    const onSqlite = await measure("SQLite", [{}, {}]);
    if (!hasPostgres) return [onSqlite];
    const toStore = (url: string): object => ({ store: { url } });
    const onPostgres = await withSchema((ours) =>
      withSchema((theirs) => measure("PostgreSQL", [toStore(ours), toStore(theirs)])),
    );
    return [onSqlite, onPostgres];
  });
}
