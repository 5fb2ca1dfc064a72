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
      usage: "export [file]",
      about:
        "write all that the store holds, documents included, as lines of JSON into a new file or to standard output, also while gateways run; for a backup, or to move between SQLite and PostgreSQL. It holds bodies and replies: keep it safe",
      examples: ["rouse store export rouse.jsonl"],
      answer: async (io, options, file) =>
        (await import("./store-transfer.ts")).exportStore(file, options, io),
      print: ({ file, bytes: size, seconds }, io) =>
        io.out(
          `${file}  ${bytes(size)} in ${seconds.toFixed(1)} s; it holds bodies and replies: keep it safe\n`,
        ),
    }),
    answering({
      usage: "import <file>",
      about:
        "fill the store with an export; it must be empty, and no gateway may run on it. If it is interrupted, nothing is kept: start it again",
      examples: [
        "rouse store import rouse.jsonl",
        "gunzip -c rouse.jsonl.gz | rouse store import /dev/stdin",
      ],
      answer: async (io, options, file) =>
        (await import("./store-transfer.ts")).importStore(file, options, io),
      print: ({ rows, seconds }, io) =>
        io.out(`${plural(rows, "row")} in ${seconds.toFixed(1)} s; start the gateway\n`),
    }),
  ],
};
