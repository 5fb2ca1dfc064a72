import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
const TOKEN = "operator-token-0123456789";

let dir: string;
let provider: Provider;
let program: Program | undefined;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-schedules-"));
  provider = await createProvider();
});
afterEach(async () => {
  await program?.kill();
  await provider.close();
  rmSync(dir, { recursive: true, force: true });
});

const wait = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** The due times that the model was asked for, in seconds. */
const getDue = (): number[] =>
  provider.requests.map(
    (request) => Date.parse(/due at (\S+)\./.exec(provider.text(request))?.[1] ?? "") / 1000,
  );

/** Starts the program again and again, kills it each time, and returns the due times of all runs at the end. */
async function killOften(
  store: object,
  times: number,
): Promise<{ runs: number[]; asked: number[] }> {
  const schedules = [{ id: "tick", every: "1s", prompt: "Tick.", deliver: false, catchUp: "all" }];
  const { agents, ...config } = modelConfig(provider, { list: [{ id: "main", schedules }] }) as {
    agents: object;
  };
  writeFileSync(
    join(dir, "rouse.json5"),
    JSON.stringify({
      ...config,
      agents,
      ...store,
      gateway: { port: 0, token: TOKEN },
      hooks: { enabled: false },
    }),
  );
  for (let kills = 0; kills < times; kills++) {
    program = await startProgram(process.execPath, [ROUSE, "start"], { cwd: dir });
    const before = provider.requests.length;
    for (let tries = 0; tries < 400 && provider.requests.length < before + 2; tries++)
      await wait(50);
    await wait(kills * 137);
    await program.kill();
  }
  program = await startProgram(process.execPath, [ROUSE, "start"], { cwd: dir });
  const { url } = program;
  await fetch(`${url}/admin/v1/schedules/main/tick/pause`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  type Run = { kind: string; status: string; schedule: { dueAt: string } | null };
  for (let tries = 0; ; tries++) {
    const answer = await fetch(`${url}/admin/v1/runs?limit=500`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    const { runs } = (await answer.json()) as { runs: Run[] };
    const ticks = runs.filter(({ kind }) => kind === "schedule");
    if (ticks.every(({ status }) => status === "succeeded"))
      return {
        runs: ticks.map(({ schedule }) => Math.floor(Date.parse(schedule?.dueAt ?? "") / 1000)),
        asked: getDue(),
      };
    expect(tries).toBeLessThan(200);
    await wait(100);
  }
}

async function expectExact(store: object, times: number): Promise<void> {
  const { runs, asked } = await killOften(store, times);
  const first = Math.min(...asked);
  const all = Array.from({ length: Math.max(...asked) - first + 1 }, (_, n) => first + n);
  // Each second has one run, and the model was asked about each: no gap, nothing twice.
  expect(runs.toSorted((a, b) => a - b)).toEqual(all);
  expect([...new Set(asked)].toSorted((a, b) => a - b)).toEqual(all);
  // A kill in the midst of a turn has the turn tried again.
  expect(asked.length - all.length).toBeLessThanOrEqual(times);
}

describe("a schedule of a program that is killed again and again", () => {
  it("has one run for each due time, on SQLite", () => expectExact({}, 2));
});

describePostgres("a schedule of a program that is killed again and again", () => {
  it("has one run for each due time, on PostgreSQL", async () => {
    const schema = newSchema();
    try {
      await expectExact({ store: { url: schema.url } }, 2);
    } finally {
      await program?.kill();
      await schema.drop();
    }
  });
});
