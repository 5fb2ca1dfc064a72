/** Rows of runs with limits, over a store that has a day of history, against the same gateway and store without limits. */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fillPostgres, fillSqlite } from "./history.ts";
import { alternate, medianBy, medianRatio, type Row } from "./measure.ts";
import { withModel } from "./model.ts";
import { copyDatabase, withDatabases } from "./postgres.ts";
import { carryOut, HOOKS, type Carried } from "./runs.ts";
import { pause, startGateway, withServers } from "./servers.ts";

/** All limits, none of which binds: they are counted, and park nothing. */
const LIMITS = { concurrent: 10_000, runsPerHour: 1_000_000_000, tokensPerDay: 1_000_000_000_000, budget: { perDay: "1000000 USD" } };
const PRICES = { "local/m": { input: 1, output: 1 } };

/** Two stores with the same history. */
interface Stores {
  name: string;
  hooks: number;
  limited: string;
  free: string;
}

const count = (rows: number): string => rows.toLocaleString("en-US");

function limitsRow({ name, hooks, limited, free }: Stores, history: number, rounds: number): Promise<Row> {
  return withModel(async (model) => {
    const config = (url: string, more: object): object => ({
      ...model.config,
      models: { ...(model.config as { models: object }).models, prices: PRICES },
      store: { url },
      ...more,
    });
    const starts = [startGateway(config(limited, { hooks: { limits: LIMITS } })), startGateway(config(free, {}))] as const;
    return withServers(starts, async (gateways) => {
      const sides = gateways.map((gateway) => () => carryOut(gateway, model, hooks));
      const [ours = [], theirs = []] = await alternate(sides, rounds);
      const both = (read: (one: Carried) => number): [number, number] => [
        Math.round(medianBy(ours, read)),
        Math.round(medianBy(theirs, read)),
      ];
      return {
        section: "Limits",
        row: `hooks accepted and carried out with limits, ${name}, ${count(history)} runs in the last day, against no limits`,
        value: medianRatio(ours, theirs, ({ whole }) => whole),
        target: { least: 0.8 },
        perSecond: both(({ whole }) => whole),
        cpuMicros: both(({ cpu }) => cpu),
        errors: [...ours, ...theirs].reduce((sum, one) => sum + one.errors, 0),
      };
    });
  });
}

/** Makes a store as a gateway leaves it that has carried out one run, with the schema of this checkout. */
function prepare(url: string): Promise<void> {
  return withModel((model) =>
    withServers([startGateway({ ...model.config, store: { url } })], async ([gateway]) => {
      await carryOut(gateway, model, 1);
      // The model has answered: the end of the run is yet to be written.
      await pause(500);
    }),
  );
}

async function onSqlite(history: number, rounds: number): Promise<Row> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-history-"));
  const [limited, free] = [join(dir, "limited.db"), join(dir, "free.db")];
  try {
    await prepare(`sqlite:${limited}`);
    await fillSqlite(limited, history);
    copyFileSync(limited, free);
    return await limitsRow({ name: "SQLite", hooks: HOOKS.sqlite, limited: `sqlite:${limited}`, free: `sqlite:${free}` }, history, rounds);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const onPostgres = (history: number, rounds: number): Promise<Row> =>
  withDatabases(2, async ([limited = "", free = ""]) => {
    await prepare(limited);
    await fillPostgres(limited, history);
    await copyDatabase(limited, free);
    return limitsRow({ name: "PostgreSQL", hooks: HOOKS.postgres, limited, free }, history, rounds);
  });

/** Both stores with so many runs of history. */
export async function limitsRows(history: number, hasPostgres: boolean, rounds: number): Promise<Row[]> {
  return [await onSqlite(history, rounds), ...(hasPostgres ? [await onPostgres(history, rounds)] : [])];
}
