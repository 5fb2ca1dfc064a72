/** Rows of runs with limits, over a store that has a day of history, against the same gateway and store without limits. */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fillPostgres, fillSqlite } from "./history.ts";
import type { Row } from "./measure.ts";
import { withModel, type Model } from "./model.ts";
import { copyDatabase, withDatabases } from "./postgres.ts";
import { carryOut, compareRuns, HOOKS } from "./runs.ts";
import { pause, startGateway, withServers } from "./servers.ts";

/** All limits, none of which binds: they are counted, and park nothing. */
const LIMITS = {
  concurrent: 10_000,
  runsPerHour: 1_000_000_000,
  tokensPerDay: 1_000_000_000_000,
  budget: { perDay: "1000000 USD" },
};
const PRICES = { "local/m": { input: 1, output: 1 } };

/** Measures two stores with the same history. */
async function limitsRow(
  store: "SQLite" | "PostgreSQL",
  [limited, free]: readonly [string, string],
  history: number,
  rounds: number,
): Promise<Row> {
  const start = (url: string, more: object) => (model: Model) => {
    const { models, ...config } = model.config;
    return startGateway({
      ...config,
      models: { ...models, prices: PRICES },
      store: { url },
      ...more,
    });
  };
  return {
    row: `${store}, ${history.toLocaleString("en-US")} runs in the last day`,
    ...(await compareRuns([start(limited, { hooks: { limits: LIMITS } }), start(free, {})], {
      hooks: HOOKS[store],
      rounds,
      read: "whole",
    })),
  };
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
    return await limitsRow("SQLite", [`sqlite:${limited}`, `sqlite:${free}`], history, rounds);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const onPostgres = (history: number, rounds: number): Promise<Row> =>
  withDatabases(2, async ([limited = "", free = ""]) => {
    await prepare(limited);
    await fillPostgres(limited, history);
    await copyDatabase(limited, free);
    return limitsRow("PostgreSQL", [limited, free], history, rounds);
  });

/** Both stores with so many runs of history. */
export async function limitsRows(
  history: number,
  hasPostgres: boolean,
  rounds: number,
): Promise<Row[]> {
  return [
    await onSqlite(history, rounds),
    ...(hasPostgres ? [await onPostgres(history, rounds)] : []),
  ];
}
