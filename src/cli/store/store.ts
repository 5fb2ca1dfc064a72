import { systemClock } from "../../core/clock.ts";
import { acquireLock } from "../../store/lock.ts";
import type { StoreStatus } from "../../store/types.ts";
import { doing, type Noun } from "../command.ts";
import type { CliIo } from "../io.ts";
import { createCommandLogger } from "../log.ts";
import type { CommonOptions } from "../options.ts";
import { printJson } from "../print.ts";
import { findStore } from "../settings.ts";
import { findDriver } from "./store-driver.ts";
import { bytes } from "../text.ts";

function table({ driver, where, schema, known, bytes: size }: StoreStatus): string {
  const state =
    schema === known
      ? "up to date"
      : schema < known
        ? `this program brings ${known}`
        : `of a newer program; known here up to ${known}`;
  return `store   ${where}\ndriver  ${driver}\nschema  ${schema} (${state})\nsize    ${bytes(size)}\n`;
}

async function status(io: CliIo, options: CommonOptions): Promise<void> {
  const { url } = await findStore(options, io);
  const found = await (await findDriver(url, options, io)).status({ url, env: io.env });
  if (options.json) printJson(io, { ok: true, ...found });
  else io.out(table(found));
}

async function migrate(io: CliIo, options: CommonOptions): Promise<void> {
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

export const storeCommand: Noun = {
  list: doing({
    usage: "",
    about:
      "where the store is, the version of its schema and its size; changes nothing, also while gateways run",
    examples: ["rouse store"],
    json: true,
    run: status,
  }),
  views: {
    "--migrate": doing({
      usage: "",
      about:
        "bring the store's schema up to date, as a start does; on PostgreSQL also while older gateways still run",
      examples: ["rouse store --migrate"],
      json: true,
      run: migrate,
    }),
  },
  commands: [
    doing({
      usage: "export [file]",
      about:
        "write all that the store holds, documents included, as lines of JSON into a new file or to standard output, also while gateways run; for a backup, or to move between SQLite and PostgreSQL. It holds bodies and replies: keep it safe",
      examples: ["rouse store export rouse.jsonl"],
      json: true,
      run: async (io, options, file) =>
        (await import("./store-transfer.ts")).exportStore(file, options, io),
    }),
    doing({
      usage: "import <file>",
      about:
        "fill the store with an export; it must be empty, and no gateway may run on it. If it is interrupted, nothing is kept: start it again",
      examples: [
        "rouse store import rouse.jsonl",
        "gunzip -c rouse.jsonl.gz | rouse store import /dev/stdin",
      ],
      json: true,
      run: async (io, options, file) =>
        (await import("./store-transfer.ts")).importStore(file, options, io),
    }),
  ],
};
