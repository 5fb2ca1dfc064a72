import pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type Answer, type World } from "../e2e/world.ts";
import { manualClock, type ManualClock } from "../delivery/support.ts";
import { scale } from "../soak.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";

const MINUTE = 60_000;
const HOOKS = scale(200, 500);
const AT_ONCE = 25;
const MOST_CALLS = 1.2;

/** The provider, and what it was asked: for each hook, how often, and how often it has answered. */
const provider = {
  isAway: false,
  asked: new Map<number, number>(),
  answered: new Map<number, number>(),
};
const add = (counts: Map<number, number>, hook: number): void =>
  void counts.set(hook, (counts.get(hook) ?? 0) + 1);
const sum = (counts: ReadonlyMap<number, number>): number =>
  [...counts.values()].reduce((all, n) => all + n, 0);

const fetchModel: typeof fetch = async (_input, init) => {
  const hook = Number(/number (\d+)(?![^]*number \d)/.exec(init?.body as string)?.[1]);
  add(provider.asked, hook);
  if (provider.isAway) return Response.json({ error: { message: "no" } }, { status: 503 });
  add(provider.answered, hook);
  const choices = [
    { index: 0, finish_reason: "stop", message: { role: "assistant", content: "Done." } },
  ];
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  return Response.json({
    id: "c1",
    object: "chat.completion",
    created: 1,
    model: "big",
    choices,
    usage,
  });
};

let clock: ManualClock;
let world: World;
beforeEach(() => {
  clock = manualClock(Date.now());
  Object.assign(provider, { isAway: false, asked: new Map(), answered: new Map() });
});

/** Moves the time on by steps, so that what a moment starts is done before the next: the store takes real time. */
const STEP = 2000;
const STEP_TAKES = 40;
async function passUntil(check: () => Promise<boolean> | boolean, most: number): Promise<void> {
  for (let passed = 0; passed < most && !(await check()); passed += STEP) {
    await clock.advance(STEP);
    await new Promise((resolve) => setTimeout(resolve, STEP_TAKES));
  }
}
async function passWhile<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  void work.finally(() => (isDone = true)).catch(() => undefined);
  await passUntil(() => isDone, Infinity);
  return work;
}
const count = async (status: string): Promise<number> =>
  (await world.admin("/admin/v1/status")).body.status.counts[`runs.${status}`];

/** Lets hooks wait for a provider that is away for ten minutes. */
async function testOutage(store: object): Promise<void> {
  const starting = createWorld({
    clock,
    fetch: fetchModel,
    config: {
      ...store,
      models: {
        providers: { local: { type: "openai-compatible", baseUrl: "http://model.test/v1" } },
      },
      agents: { defaults: { model: "local/big", heartbeat: { every: 0 } } },
      hooks: { allowRequestSessionKey: true },
    },
  });
  world = await passWhile(starting);
  provider.isAway = true;
  const begun = clock.now();
  const order = (n: number): Promise<Answer> =>
    world.post("/hooks/agent", {
      message: `number ${n}`,
      sessionKey: `hook:${n % 50}`,
      deliver: false,
      wakeMode: "next-heartbeat",
    });
  for (let n = 0; n < HOOKS; n += AT_ONCE)
    for (const answer of await Promise.all(Array.from({ length: AT_ONCE }, (_, k) => order(n + k))))
      expect(answer.status).toBe(202);
  await passUntil(() => clock.now() >= begun + 10 * MINUTE, 11 * MINUTE);
  expect(await count("parked")).toBe(HOOKS);
  const during = sum(provider.asked);
  provider.isAway = false;
  const back = clock.now();
  await passUntil(async () => (await count("succeeded")) === HOOKS, 15 * MINUTE);
  expect(await count("succeeded")).toBe(HOOKS);
  const calls = sum(provider.asked) / HOOKS;
  const took = (clock.now() - back) / MINUTE;
  console.log(
    `${HOOKS} of ${HOOKS}, ${calls} calls each, ${during} calls during the outage, all done after ${took.toFixed(1)} min`,
  );
  expect(during).toBeGreaterThan(0);
  expect(calls).toBeLessThanOrEqual(MOST_CALLS);
  // Each was answered once.
  expect([...provider.answered.values()]).toEqual(Array.from({ length: HOOKS }, () => 1));
}

async function stop(): Promise<void> {
  await passWhile(world.stop());
}

const NAME = `a provider that is away for ten minutes: ${HOOKS} hooks succeed, with at most ${MOST_CALLS} model calls each`;

describe("SQLite", () => {
  afterEach(stop);
  it(NAME, { timeout: 180_000 }, () => testOutage({}));
});

/** Answers the store's queries for the database's time with the test's clock. */
function setDatabaseClock(): () => void {
  const { prototype } = pg.Client;
  const query = prototype.query as (...given: unknown[]) => unknown;
  let asked = 0;
  prototype.query = function (this: pg.Client, ...given: unknown[]): unknown {
    const [config, ...rest] = given as [{ text?: string } | undefined, ...unknown[]];
    if (config?.text !== "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at")
      return query.apply(this, given);
    asked++;
    return query.call(this, { text: `SELECT ${clock.now()}::bigint AS at` }, ...rest);
  } as typeof prototype.query;
  return () => {
    prototype.query = query as typeof prototype.query;
    expect(asked).toBeGreaterThan(0);
  };
}

describePostgres("PostgreSQL", () => {
  let schema: Schema;
  let restore: () => void;
  beforeEach(() => {
    schema = newSchema();
    restore = setDatabaseClock();
  });
  afterEach(async () => {
    await stop();
    restore();
    await schema.drop();
  });
  it(NAME, { timeout: 180_000 }, () => testOutage({ store: { url: schema.url } }));
});
