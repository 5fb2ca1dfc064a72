import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createRandom } from "../../../bench/simulate/random.ts";
import { startProgram } from "../../e2e/program.ts";
import { scale } from "../../soak.ts";
import {
  choosePoints,
  createLosses,
  Disk,
  findDamage,
  findLost,
  readOperations,
} from "./power-loss.ts";
import { compileShim, describeWithCompiler } from "./shim.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const TOKEN = "power-loss-token-0123456789";
/** Few at once and small: the log grows by many commits, and the database stays small. */
const SENDERS = 4;
/** So many hooks are sent between two looks at the log. */
const HOOKS = 200;
/** How often the log is written from its beginning: twice by the start, then under load. */
const RESTARTS = scale(3, 5);
/** Points of the run, besides those around each restart of the log, at which the power fails. */
const POINTS = scale(8, 40);
const SEED = 20_261_122;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-power-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** What the sender was told: the run's id, and how long the record was when the answer was there. */
interface Acknowledged {
  runId: string;
  at: number;
}

async function sendHooks(url: string, log: string): Promise<Acknowledged[]> {
  const acknowledged: Acknowledged[] = [];
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const send = async (): Promise<void> => {
    for (let n = 0; n < HOOKS / SENDERS; n++) {
      const body = JSON.stringify({ message: randomBytes(30).toString("base64") });
      const answer = await fetch(`${url}/hooks/agent`, { method: "POST", headers, body });
      const { runId = "" } = (await answer.json()) as { runId?: string };
      if (answer.status === 202) acknowledged.push({ runId, at: statSync(log).size });
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, send));
  return acknowledged;
}

describeWithCompiler("a power loss", () => {
  it(
    "loses nothing that was acknowledged, whatever of the rest the disk has kept",
    { timeout: 600_000 },
    async () => {
      const state = join(dir, ".rouse");
      const log = join(dir, "record");
      writeFileSync(
        join(dir, "rouse.json5"),
        JSON.stringify({
          gateway: { port: 0, drainSeconds: 0 },
          hooks: { enabled: true, token: TOKEN, maxBodyBytes: 100_000 },
        }),
      );
      const rouse = await startProgram(
        process.execPath,
        [join(ROOT, "bin/rouse.js"), "start", "--no-workers"],
        {
          cwd: dir,
          env: { LD_PRELOAD: compileShim(), DISK_LOG: log, DISK_FOLDER: state, DISK_DELAY_MS: "2" },
        },
      );
      const acknowledged = await sendHooks(rouse.url, log);
      while (choosePoints(readOperations(log), 0, () => 0).restarts < RESTARTS)
        acknowledged.push(...(await sendHooks(rouse.url, log)));
      acknowledged.push(...(await sendHooks(rouse.url, log)));
      await rouse.kill();
      expect(acknowledged.length % HOOKS).toBe(0);

      const operations = readOperations(log);
      const random = createRandom(SEED).next;
      const { points } = choosePoints(operations, POINTS, random);

      const disk = new Disk();
      const damage: string[] = [];
      let checked = 0;
      for (const [index, operation] of operations.entries()) {
        disk.apply(operation);
        const known = points.has(index)
          ? acknowledged.filter(({ at }) => at <= operation.end).map(({ runId }) => runId)
          : [];
        if (known.length === 0) continue;
        for (const [name, loss] of Object.entries(createLosses(random))) {
          const folder = join(dir, "after");
          mkdirSync(folder);
          const file = disk.lose(folder, loss);
          if (file !== undefined)
            damage.push(
              ...findDamage(file, (db) => findLost(db, known)).map(
                (what) => `at ${index}, ${name}: ${what}`,
              ),
            );
          else damage.push(`at ${index}: the file is gone`);
          rmSync(folder, { recursive: true });
          checked++;
        }
      }
      expect(damage).toEqual([]);
      expect(checked).toBeGreaterThan(4 * POINTS);
    },
  );
});
