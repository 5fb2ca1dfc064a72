import { copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createRandom } from "../../faults/random.ts";
import { startProgram, type Program } from "../../e2e/program.ts";
import { scale } from "../../soak.ts";
import {
  createMailWorld,
  mailConfig,
  mailPlugins,
  MAILS,
  type MailWorld,
  type ModelBody,
} from "../../runs/mail.ts";
import {
  choosePoints,
  createLosses,
  Disk,
  findDamage,
  findLost,
  readOperations,
  type Operation,
} from "./power-loss.ts";
import { compileShim, describeWithCompiler } from "./shim.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const TOKEN = "power-work-token-0123456789";
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
/** So many orders are sent between two looks at the log. */
const ORDERS = 40;
/** The number of times that the log is written from its beginning: twice by the start, then under load. */
const RESTARTS = scale(3, 4);
const SENDERS = 12;
/** Each order has these words in it, which fill the log. */
const WORDS = "word ".repeat(4000);
/** Messages, and as many e-mails, right after which the power fails, besides the points around each restart of the log. */
const POINTS = scale(6, 20);
/** So many of them are also started again, with what the power loss left. */
const STARTS = scale(2, 6);
const SEED = 20_261_123;
/** Messages to the channel are told from e-mails by their number. */
const MESSAGE = 1000;

const desk = ({ mailUrl }: MailWorld): string => `
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "desk",
  channel: () => ({
    async send({ text, idempotencyKey }) {
      const order = Number(/order-(\\d+)/.exec(text)[1]);
      await globalThis.fetch("${mailUrl}", { method: "POST", body: JSON.stringify({ n: ${MESSAGE} + order, key: idempotencyKey }) });
      return { status: "sent", messageIds: [idempotencyKey] };
    },
  }),
});
`;

function writeHome(dir: string, world: MailWorld): void {
  const { hooks, plugins, ...rest } = mailConfig(world) as { hooks: object; plugins: object };
  const config = {
    gateway: { port: 0, drainSeconds: 0 },
    hooks: { enabled: true, token: TOKEN, allowRequestSessionKey: true, ...hooks },
    plugins,
    channels: { desk: {} },
    ...rest,
  };
  for (const [name, text] of Object.entries({
    "rouse.json5": JSON.stringify(config),
    "plugins/desk.ts": desk(world),
    ...mailPlugins(world),
  })) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
}

const start = (dir: string, env: Record<string, string> = {}): Promise<Program> =>
  startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
    cwd: dir,
    env: { ROUSE_LOG_LEVEL: "silent", ...env },
  });

const orderIn = ({ messages }: ModelBody): number =>
  Number(
    /order-(\d+)/.exec(
      JSON.stringify(messages.findLast(({ role }) => role === "user")?.content),
    )?.[1] ?? -1,
  );

/** An effect that the outside saw. `at` is the length of the disk's record then: all in the record came before. */
interface Seen {
  at: number;
}
interface Ledgers {
  acknowledged: (Seen & { order: number; runId: string })[];
  asked: (Seen & { order: number })[];
  /** E-mails and messages. */
  sent: (Seen & { n: number; key: string })[];
}
const until = ({ acknowledged, asked, sent }: Ledgers, end: number): Ledgers => {
  const isBefore = ({ at }: Seen): boolean => at <= end;
  return {
    acknowledged: acknowledged.filter(isBefore),
    asked: asked.filter(isBefore),
    sent: sent.filter(isBefore),
  };
};

/** Begins ledgers of what reaches the world outside. */
function observe(world: MailWorld, getLength: () => number): Ledgers {
  const ledgers: Ledgers = { acknowledged: [], asked: [], sent: [] };
  world.reset();
  world.says = (step, body) =>
    step < MAILS ? undefined : { role: "assistant", content: `order-${orderIn(body)} is done` };
  world.watch = ({ kind, index }, moment) => {
    if (moment === "after") return;
    const at = getLength();
    const { n = 0, key = "" } = world.sent[index] ?? {};
    if (kind === "mail") ledgers.sent.push({ at, n, key });
    else ledgers.asked.push({ at, order: orderIn(world.requests[index] as ModelBody) });
  };
  return ledgers;
}

async function sendOrders(
  { url }: Program,
  ledgers: Ledgers,
  getLength: () => number,
): Promise<void> {
  let next = ledgers.acknowledged.length;
  const end = next + ORDERS;
  const send = async (): Promise<void> => {
    while (next < end) {
      const order = next++;
      const body = {
        message: `Do order-${order}. ${WORDS}`,
        agentId: "post",
        sessionKey: `hook:${order}`,
        deliver: true,
        channel: "desk",
        to: "all",
      };
      const answer = await fetch(`${url}/hooks/agent`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
      });
      if (answer.status !== 202) throw new Error(`${answer.status} ${await answer.text()}`);
      const { runId } = (await answer.json()) as { runId: string };
      ledgers.acknowledged.push({ at: getLength(), order, runId });
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, send));
}

interface RunView {
  status: string;
  delivery: { status: string } | null;
}
const ENDED = ["delivered", "failed", "unknown"];

/** Waits for the ends of runs and of their deliveries. Returns the runs, by id. */
async function settle({ url }: Program, ids: readonly string[]): Promise<Map<string, RunView>> {
  const runs = new Map<string, RunView>();
  const end = Date.now() + 120_000;
  for (const id of ids) {
    for (;;) {
      const answer = await fetch(`${url}/hooks/runs/${id}`, { headers });
      const { run } = (await answer.json()) as { run?: RunView };
      if (run) runs.set(id, run);
      const isOver =
        run?.status === "waiting" ||
        (run?.status === "succeeded" && ENDED.includes(run.delivery?.status ?? ""));
      if (isOver || Date.now() > end) break;
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  return runs;
}

const count = <T>(list: readonly T[], of: (one: T) => string): Map<string, number> => {
  const counts = new Map<string, number>();
  for (const one of list) counts.set(of(one), (counts.get(of(one)) ?? 0) + 1);
  return counts;
};

/** Says of what the outside has seen the database knows nothing, so that it would be done again. */
function findForgotten(
  db: DatabaseSync,
  { acknowledged, asked, sent }: Ledgers,
  runIds: ReadonlyMap<number, string>,
): string[] {
  const read = (text: string): Set<string> =>
    new Set((db.prepare(text).all() as { id: string }[]).map(({ id }) => id));
  const begun = read("SELECT id FROM runs WHERE status <> 'queued'");
  const called = read(
    "SELECT id FROM tool_calls WHERE json_extract(record, '$.state') <> 'planned'",
  );
  const taken = read(`SELECT id FROM deliveries WHERE status <> 'pending'
    OR EXISTS (SELECT 1 FROM jobs WHERE kind = 'delivery' AND jobs.id = deliveries.id AND attempts > 0)`);
  const starts = asked.filter(({ order }) => !begun.has(runIds.get(order) ?? ""));
  const calls = sent.filter(({ n, key }) => n < MESSAGE && !called.has(key));
  const messages = sent.filter(({ n, key }) => n >= MESSAGE && !taken.has(key.replace(/\.0$/, "")));
  return [
    ...findLost(
      db,
      acknowledged.map(({ runId }) => runId),
    ),
    ...(starts.length > 0
      ? [`${starts.length} of ${asked.length} model calls are of runs that have not begun`]
      : []),
    ...(calls.length > 0
      ? [`${calls.length} tool calls were made that were not begun: ${calls[0]?.key}`]
      : []),
    ...(messages.length > 0
      ? [`${messages.length} messages were sent that nobody has taken: ${messages[0]?.key}`]
      : []),
  ];
}

/** Says what is wrong once a gateway has gone on with what a power loss left: by what the outside saw before and after it. */
function findWrong(before: Ledgers, after: Ledgers, runs: ReadonlyMap<string, RunView>): string[] {
  const sent = [...before.sent, ...after.sent];
  const repeats = [
    ...count(
      sent.filter(({ n }) => n < MESSAGE),
      ({ key }) => key,
    ),
  ].filter(([, times]) => times > 1);
  return [
    ...repeats.map(([key, times]) => `the call ${key} was made ${times} times`),
    ...before.acknowledged.flatMap(({ order, runId }) => {
      const { status = "not there", delivery } = runs.get(runId) ?? {};
      const mails = sent
        .filter(({ n, key }) => n < MESSAGE && key.startsWith(`${runId}.`))
        .map(({ n }) => n);
      const keys = new Set(sent.filter(({ n }) => n === MESSAGE + order).map(({ key }) => key));
      if (status === "waiting" && keys.size === 0) return [];
      // The power failed after the gateway had noted that it sends the message, and before the message left: it says that it cannot know.
      const isUnknown = keys.size === 0 && delivery?.status === "unknown";
      const isRight =
        status === "succeeded" &&
        mails.toSorted((a, b) => a - b).join() === "1,2,3" &&
        (keys.size === 1 || isUnknown);
      return isRight
        ? []
        : [
            `run ${runId} is ${status}, with the e-mails ${mails.join()} and ${keys.size} messages (${delivery?.status})`,
          ];
    }),
  ];
}

describeWithCompiler("a power loss while workers run", () => {
  let dir: string;
  let world: MailWorld;
  let ledgers: Ledgers;
  let operations: Operation[];
  let ready: number;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "rouse-power-work-"));
    world = await createMailWorld();
    const home = join(dir, "home");
    const record = join(dir, "record");
    const getLength = (): number => statSync(record).size;
    writeHome(home, world);
    const env = {
      LD_PRELOAD: compileShim(),
      DISK_LOG: record,
      DISK_FOLDER: join(home, ".rouse"),
      DISK_DELAY_MS: "2",
    };
    const rouse = await start(home, env);
    ready = getLength();
    ledgers = observe(world, getLength);
    const runs = new Map<string, RunView>();
    for (
      let restarts = 0;
      restarts < RESTARTS;
      restarts = choosePoints(readOperations(record), 0, () => 0).restarts
    ) {
      await sendOrders(rouse, ledgers, getLength);
      const ids = ledgers.acknowledged.map(({ runId }) => runId).filter((id) => !runs.has(id));
      for (const [id, run] of await settle(rouse, ids)) runs.set(id, run);
    }
    await rouse.kill();
    expect(count([...runs.values()], ({ status }) => status)).toEqual(
      new Map([["succeeded", ledgers.acknowledged.length]]),
    );
    operations = readOperations(record);
  }, 300_000);
  afterAll(async () => {
    await world.close();
    rmSync(dir, { recursive: true, force: true });
  });

  it("the event loop syncs nothing, and writes to the log alone, which waits for no disk", () => {
    const work = operations.filter(({ end }) => end > ready);
    const name = ({ kind, file, isMain }: Operation): string =>
      `${isMain ? "event loop" : "other thread"}: ${kind} ${file}`;
    const counts = Object.fromEntries(count(work, name));
    console.log(JSON.stringify(counts));
    expect(Object.keys(counts).filter((what) => what.startsWith("event loop"))).toEqual([
      "event loop: w l",
    ]);
    for (const what of ["s l", "e l", "w d", "s d"])
      expect(counts[`other thread: ${what}`]).toBeGreaterThan(0);
  });

  it(
    "forgets nothing that the outside saw, and a gateway that continues does nothing twice",
    { timeout: 300_000 },
    async () => {
      const random = createRandom(SEED).next;
      const { points } = choosePoints(operations, 0, random);
      // The power fails at the first operation after an effect, which loses a write that was not yet on disk.
      for (const isMessage of [true, false]) {
        const sent = ledgers.sent.filter(({ n }) => n >= MESSAGE === isMessage);
        for (let n = 0; n < POINTS; n++) {
          const { at } = sent[Math.floor(random() * sent.length)] ?? { at: 0 };
          points.add(operations.findIndex(({ end }) => end >= at));
        }
      }
      const runIds = new Map(ledgers.acknowledged.map(({ order, runId }) => [order, runId]));
      const disk = new Disk();
      const damage: string[] = [];
      const kept: { state: string; before: Ledgers; where: string }[] = [];
      let checked = 0;
      for (const [index, operation] of operations.entries()) {
        disk.apply(operation);
        const known = until(ledgers, operation.end);
        if (!points.has(index) || known.sent.length === 0) continue;
        for (const [name, loss] of Object.entries(createLosses(random))) {
          const where = `at ${index} of ${operations.length}, ${name}`;
          const state = join(dir, `after-${index}-${name.replaceAll(" ", "-")}`);
          mkdirSync(state);
          const file = disk.lose(state, loss);
          const isStarted = file !== undefined && checked % 11 === 5 && kept.length < STARTS;
          const copy = join(dir, `home-${kept.length}`);
          if (isStarted) {
            mkdirSync(join(copy, ".rouse"), { recursive: true });
            for (const end of ["", "-wal"])
              copyFileSync(`${file}${end}`, join(copy, ".rouse", `rouse.db${end}`));
            kept.push({ state: copy, before: known, where });
          }
          const found =
            file === undefined
              ? ["the file is gone"]
              : findDamage(file, (db) => findForgotten(db, known, runIds));
          damage.push(...found.map((what) => `${where}: ${what}`));
          rmSync(state, { recursive: true });
          checked++;
        }
      }
      expect(damage).toEqual([]);
      expect(checked).toBeGreaterThan(4 * POINTS);

      expect(kept).toHaveLength(STARTS);
      for (const { state, before, where } of kept) {
        writeHome(state, world);
        const after = observe(world, () => 0);
        const rouse = await start(state);
        const runs = await settle(
          rouse,
          before.acknowledged.map(({ runId }) => runId),
        );
        await rouse.kill();
        const statuses = Object.fromEntries(count([...runs.values()], ({ status }) => status));
        console.log(
          `${where}: ${before.acknowledged.length} acknowledged, ${before.sent.length} sent before, ${after.sent.length} after`,
          statuses,
        );
        damage.push(...findWrong(before, after, runs).map((what) => `${where}: ${what}`));
      }
      expect(damage).toEqual([]);
    },
  );
});
