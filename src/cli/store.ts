import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { systemClock } from "../core/clock.ts";
import { acquireLock } from "../store/lock.ts";
import type { StoreStatus } from "../store/types.ts";
import { connected, read } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { createCommandLogger } from "./log.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { createProgress } from "./progress.ts";
import { findStore } from "./settings.ts";
import { findDriver } from "./store-driver.ts";
import { bytes } from "./text.ts";

async function backup(name: string, options: CommonOptions, io: CliIo): Promise<void> {
  const file = resolve(io.cwd, name);
  const progress = createProgress(io, "copying");
  const timer = setInterval(() => {
    stat(file).then(
      ({ size }) => progress.update(size, bytes(size)),
      () => undefined,
    );
  }, 200);
  try {
    const answer = await connected(options, io, ({ api }) =>
      read(api.store.backup.$post({ json: { file } })),
    );
    progress.end();
    if (options.json) printJson(io, answer);
    else {
      io.out(`${answer.file}  ${bytes(answer.bytes)} in ${answer.seconds.toFixed(1)} s\n`);
      if (answer.knowledge)
        io.out(`${answer.knowledge.database}  documents, ${bytes(answer.knowledge.bytes)}\n`);
    }
  } finally {
    clearInterval(timer);
  }
}

function table({ driver, where, schema, known, bytes: size }: StoreStatus): string {
  const state =
    schema === known
      ? "up to date"
      : schema < known
        ? `this program brings ${known}`
        : `of a newer program; known here up to ${known}`;
  return `store   ${where}\ndriver  ${driver}\nschema  ${schema} (${state})\nsize    ${bytes(size)}\n`;
}

async function status(options: CommonOptions, io: CliIo): Promise<void> {
  const { url } = await findStore(options, io);
  const found = await (await findDriver(url, options, io)).status({ url, env: io.env });
  if (options.json) printJson(io, { ok: true, ...found });
  else io.out(table(found));
}

async function migrate(options: CommonOptions, io: CliIo): Promise<void> {
  const { url, stateDir } = await findStore(options, io);
  const driver = await findDriver(url, options, io);
  const before = await driver.status({ url, env: io.env });
  // What is up to date is left alone, also while a gateway has it.
  if (before.schema !== before.known) {
    const lock = await acquireLock(stateDir, undefined, driver);
    try {
      const { store } = await driver.open({
        url,
        env: io.env,
        clock: systemClock,
        log: createCommandLogger(options, io),
      });
      await store.close();
    } finally {
      lock.release();
    }
  }
  const after = await driver.status({ url, env: io.env });
  if (options.json) printJson(io, { ok: true, from: before.schema, ...after });
  else
    io.out(
      before.schema === after.schema
        ? `schema ${after.schema}: up to date\n`
        : `schema ${before.schema} → ${after.schema}\n`,
    );
}

export function register(program: Command, io: CliIo): void {
  const store = program
    .command("store")
    .description("show the store, update its schema, back it up, export and import it");
  reading(
    store
      .command("backup <file>")
      .description(
        "a consistent copy of the store in a new file, also while the gateway runs, with one of the documents beside it, if there are any; on PostgreSQL use pg_dump. It holds bodies and replies: keep it safe",
      ),
    "rouse store backup /backups/rouse-$(date +%F).db",
  ).action((file: string, options: CommonOptions) => backup(file, options, io));
  reading(
    store
      .command("status")
      .description(
        "where the store is, the version of its schema and its size; changes nothing, also while gateways run",
      ),
    "rouse store status",
  ).action((options: CommonOptions) => status(options, io));
  reading(
    store
      .command("migrate")
      .description(
        "bring the store's schema up to date, as a start does; on PostgreSQL also while older gateways still run",
      ),
    "rouse store migrate",
  ).action((options: CommonOptions) => migrate(options, io));
  reading(
    store
      .command("export [file]")
      .description(
        "write all that the store holds, documents included, as lines of JSON into a new file or to standard output, also while gateways run; for a backup, or to move between SQLite and PostgreSQL. It holds bodies and replies: keep it safe",
      ),
    "rouse store export rouse.jsonl",
  ).action(async (file: string | undefined, options: CommonOptions) =>
    (await import("./store-transfer.ts")).exportStore(file, options, io),
  );
  reading(
    store
      .command("import <file>")
      .description(
        "fill the store with an export; it must be empty, and no gateway may run on it. If it is interrupted, nothing is kept: start it again",
      ),
    "rouse store import rouse.jsonl",
    "gunzip -c rouse.jsonl.gz | rouse store import /dev/stdin",
  ).action(async (file: string, options: CommonOptions) =>
    (await import("./store-transfer.ts")).importStore(file, options, io),
  );
}
