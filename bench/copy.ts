/**
 * How long `rouse store copy` takes for a store with so many events, runs, sessions and documents, and whether a gateway
 * goes on from the copy: what waits, duplicates, sessions, documents.
 * `npm run bench:copy -- --to postgres://127.0.0.1:5432/test [--events 100000] [--documents 1000]`; the schema is dropped at the end.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import { runCommandLine } from "../src/cli/run.ts";
import { knowledgeSchema } from "../src/config/schema/knowledge.ts";
import { systemClock } from "../src/core/clock.ts";
import { newId } from "../src/core/ids.ts";
import { createLogger } from "../src/core/log.ts";
import { createKnowledge } from "../src/knowledge/knowledge.ts";
import { scratchSchema } from "../plugins/postgres/scratch.ts";
import { stageBytes } from "../src/knowledge/upload-staging.ts";
import { openStore } from "../src/store/open.ts";
import { DEDUPE_SCOPE, goOn, HOOK } from "./copy-goes-on.ts";
import type { RunSpec } from "../src/store/types.ts";

const { values } = parseArgs({
  options: {
    to: { type: "string", default: "postgres://127.0.0.1:5432/test" },
    events: { type: "string", default: "100000" },
    documents: { type: "string", default: "1000" },
  },
});
const EVENTS = Number(values.events);
const DOCUMENTS = Number(values.documents);
/** So many runs have not started yet when the copy is made. */
const WAITING = Math.min(2000, Math.floor(EVENTS / 2));
const TOGETHER = 500;
const BODY_BYTES = 2000;
const DOCUMENT_BYTES = 20_000;

const dir = mkdtempSync(join(tmpdir(), "rouse-bench-copy-"));
const log = createLogger("error");
const file = join(dir, "rouse.db");

async function makeStore(): Promise<void> {
  const { store, queue } = await openStore({ url: `sqlite:${file}`, clock: systemClock, log });
  for (let from = 0; from < EVENTS; from += TOGETHER) {
    const numbers = Array.from(
      { length: Math.min(TOGETHER, EVENTS - from) },
      (_, index) => from + index,
    );
    await Promise.all(
      numbers.map(async (n) => {
        const at = Date.now();
        const session = { agentId: "main", origin: "hook" as const, key: `hook:${n}` };
        const input = [{ text: `Event ${n}`, outside: true }];
        const spec: RunSpec = {
          session,
          name: "Bench",
          hook: HOOK,
          input,
          wakeMode: "next-heartbeat",
          deliver: false,
          channel: "last",
          unsafe: false,
        };
        const body = Buffer.from(JSON.stringify({ n, text: `${n} `.repeat(BODY_BYTES / 8) }));
        const runId = newId("run", at);
        await store.accept(
          {
            id: newId("evt", at),
            receivedAt: at,
            path: HOOK,
            credential: "hooks.token",
            outcome: "accepted",
            actions: [{ kind: "run", runId, spec, warnings: [] }],
            request: { method: "POST", headers: {}, query: {}, body },
          },
          [
            {
              scope: DEDUPE_SCOPE,
              key: `key-${n}`,
              expiresAt: at + 86_400_000,
              receipt: { outcome: "accepted", actions: [] },
            },
          ],
        );
        const messages = [{ role: "assistant", content: `Answer to ${n}` }];
        await store.commit((tx) =>
          tx.add("turn", session, { runId, at, hook: HOOK, input, unsafe: false, messages }),
        );
      }),
    );
  }
  await queue.recover();
  await store.close();
  // All but the last have ended.
  const db = new DatabaseSync(file);
  const last =
    (db.prepare("SELECT max(seq) AS seq FROM runs").get() as { seq: number }).seq - WAITING;
  db.exec(`BEGIN; DELETE FROM jobs WHERE id IN (SELECT id FROM runs WHERE seq <= ${last});
    UPDATE runs SET status = 'succeeded', ended = created, record = json_set(record, '$.status', 'succeeded') WHERE seq <= ${last}; COMMIT`);
  db.close();
}

async function makeDocuments(): Promise<void> {
  const knowledge = await createKnowledge({
    dir,
    clock: systemClock,
    log,
    config: knowledgeSchema.parse({}),
  });
  await knowledge.start();
  const ids: string[] = [];
  for (let n = 0; n < DOCUMENTS; n++) {
    const words = Array.from(
      { length: DOCUMENT_BYTES / 8 },
      (_, index) => `word${(n * 31 + index * index) % 9973}`,
    ).join(" ");
    const staged = await stageBytes(
      dir,
      Buffer.from(`# Document ${n}\n\n${words}.`),
      DOCUMENT_BYTES * 2,
    );
    ids.push(
      (await knowledge.add({ tenant: "bench", ...staged, filename: `${n}.md` })).document.id,
    );
  }
  for (const id of ids) await knowledge.wait(id, 600_000);
  await knowledge.close();
}

const megabytes = (name: string): string =>
  `${Math.round(statSync(join(dir, name)).size / 1e6)} MB`;
const scratch = await scratchSchema({ url: values.to });

/** The command itself, as a shell would run it. */
async function copy(): Promise<number> {
  const began = performance.now();
  const io = {
    out: (text: string) => void process.stdout.write(text),
    err: (text: string) => void process.stderr.write(text),
    env: { ROUSE_STATE_DIR: dir },
    cwd: dir,
    terminal: { in: false, out: false, err: false, columns: undefined },
    now: () => Date.now(),
    exitCode: 0,
  };
  const code = await runCommandLine(
    ["store", "copy", "--from", `sqlite:${file}`, "--to", scratch.url],
    io,
  );
  if (code !== 0) throw new Error(`rouse store copy ended with ${code}`);
  return (performance.now() - began) / 1000;
}

try {
  await makeStore();
  await makeDocuments();
  console.log(
    `source: ${EVENTS} events, runs, sessions and turns (${megabytes("rouse.db")}), ${DOCUMENTS} documents (${megabytes("knowledge.db")})`,
  );
  const first = await copy();
  const again = await copy();
  await goOn({ url: scratch.url, events: EVENTS, waiting: WAITING, documents: DOCUMENTS });
  console.log(
    `copied and compared in ${first.toFixed(1)} s; a second time, with nothing to do but compare, ${again.toFixed(1)} s`,
  );
} finally {
  await scratch.drop();
  rmSync(dir, { recursive: true, force: true });
}
