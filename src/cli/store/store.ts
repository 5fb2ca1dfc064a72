import { systemClock } from "../../core/clock.ts";
import { plural } from "../../core/text.ts";
import { acquireLock } from "../../store/lock.ts";
import { findStoreDriver } from "../../store/open.ts";
import type { StoreStatus } from "../../store/types.ts";
import { answering, type Noun } from "../command.ts";
import { printRecord } from "../print.ts";
import { createCommandLogger } from "../log.ts";
import { findStore } from "../settings.ts";
import { bytes } from "../text.ts";

const renderSchema = ({ schema, known }: StoreStatus): string => {
  if (schema === known) return `${schema} (up to date)`;
  const other =
    schema < known
      ? `this program brings ${known}`
      : `of a newer program; known here up to ${known}`;
  return `${schema} (${other})`;
};

const status = answering({
  usage: "",
  about:
    "where the store is, the version of its schema and its size; changes nothing, also while gateways run",
  examples: ["rouse store"],
  async answer(io, options) {
    const { url } = await findStore(options, io);
    const driver = await findStoreDriver(url);
    return { ok: true, ...(await driver.status({ url, env: io.env })) };
  },
  print: (found, io) =>
    printRecord(io, found, [
      ["store", ({ where }) => where],
      "driver",
      ["schema", renderSchema],
      ["size", (one) => bytes(one.bytes)],
    ]),
});

const migrate = answering({
  usage: "",
  about:
    "bring the store's schema up to date, as a start does; on PostgreSQL also while older gateways still run",
  examples: ["rouse store --migrate"],
  async answer(io, options) {
    const { url, stateDir } = await findStore(options, io);
    const driver = await findStoreDriver(url);
    const before = await driver.status({ url, env: io.env });
    // A store with the current schema is not opened, so it may be in use by a gateway.
    if (before.schema !== before.known) {
      const lock = await acquireLock(stateDir, undefined, driver);
      try {
        const log = createCommandLogger(options, io);
        const { store } = await driver.open({ url, env: io.env, clock: systemClock, log });
        await store.close();
      } finally {
        lock.release();
      }
    }
    return { ok: true, from: before.schema, ...(await driver.status({ url, env: io.env })) };
  },
  print: ({ from, schema }, io) =>
    io.out(from === schema ? `schema ${schema}: up to date\n` : `schema ${from} → ${schema}\n`),
});

export const storeCommand: Noun = {
  list: status,
  views: { "--migrate": migrate },
  commands: [
    answering({
      usage: "import <store>",
      about:
        "fill the store with all that another one holds, documents included: a URL, or the path of a SQLite file. No gateway may run on either, and the store to fill must be empty. If it is interrupted, nothing is kept: start it again",
      examples: [
        "rouse store import .rouse/rouse.db",
        "PGPASSWORD=… rouse store import postgres://rouse@db:5432/rouse",
      ],
      answer: async (io, options, from) =>
        (await import("./store-transfer.ts")).importStore(from, options, io),
      print: ({ rows, seconds }, io) =>
        io.out(`${plural(rows, "row")} in ${seconds.toFixed(1)} s; start the gateway\n`),
    }),
  ],
};
