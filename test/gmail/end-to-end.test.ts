import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createGmailWorld, type GmailWorld } from "./support.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const OPERATOR = "operator-token-0123456789";
const MESSAGES = 280;

let world: GmailWorld;
let provider: Provider;
let program: Program | undefined;
beforeAll(async () => {
  world = await createGmailWorld();
  provider = await createProvider();
  const text = world.config().replace("port: 0,", `port: 0, token: "${OPERATOR}",`);
  const model = JSON.stringify({
    ...modelConfig(provider),
    channels: { console: { enabled: false } },
  }).slice(1, -1);
  writeFileSync(world.file("rouse.json5"), text.replace(/\}\s*$/, `  ${model}\n}\n`));
});
afterAll(async () => {
  await program?.kill();
  await provider.close();
  await world.close();
});

const start = (): Promise<Program> =>
  startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
    cwd: world.dir,
    env: { ROUSE_LOG_LEVEL: "silent" },
  });
const admin = async (path: string) => {
  const answer = await fetch(`${program?.url}/admin/v1${path}`, {
    headers: { authorization: `Bearer ${OPERATOR}` },
  });
  // oxlint-disable-next-line typescript/no-explicit-any -- answers of every shape
  return (await answer.json()) as any;
};
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

interface Run {
  id: string;
  kind: string;
  status: string;
  sessionKey: string;
}

async function allRuns(): Promise<Run[]> {
  const runs: Run[] = [];
  for (;;) {
    const last = runs.at(-1)?.id;
    const { runs: page } = (await admin(
      `/runs?limit=500${last === undefined ? "" : `&before=${last}`}`,
    )) as { runs: Run[] };
    runs.push(...page);
    if (page.length < 500) return runs.filter(({ kind }) => kind !== "heartbeat");
  }
}

it("gmail: each of 280 messages has one run, through two crashes and one expired history id", async () => {
  const { google } = world;
  google.pubsub.ackDeadlineMs = 2000;
  // As far away as Gmail is: what is killed is in the middle of its work.
  google.fail(/GET .*\/messages\/\w+$/, { slowMs: 20 }, Infinity);
  google.receive({ subject: "before the setup" });
  expect((await world.setup()).code).toBe(0);
  const ids: string[] = [];
  const receive = (count: number): void => {
    for (let n = 0; n < count; n++)
      ids.push(
        google.receive({ subject: `Mail ${ids.length}`, text: `Text of mail ${ids.length}.` }),
      );
  };
  const handed = (): number => world.state().delivered.length;
  const untilHanded = async (count: number): Promise<void> => {
    for (let n = 0; n < 1000 && handed() < count; n++) await pause(10);
    expect(handed()).toBeGreaterThanOrEqual(count);
  };

  // The first crash: in the middle of a page of the backlog, mail still coming.
  receive(120);
  program = await start();
  receive(40);
  await untilHanded(50);
  await program.kill();
  expect(handed()).toBeLessThan(160);
  program = await start();
  await untilHanded(160);

  // Gmail forgets the history; the second crash: in the middle of the list of what is new.
  google.expireHistory();
  receive(90);
  await untilHanded(200);
  await program.kill();
  expect(handed()).toBeLessThan(250);
  const listed = (): number => google.requests.filter((line) => line.endsWith("/messages")).length;
  expect(listed()).toBeGreaterThan(0);

  program = await start();
  receive(MESSAGES - ids.length);
  await untilHanded(MESSAGES);
  let runs: Run[] = [];
  for (let n = 0; n < 400; n++) {
    runs = await allRuns();
    if (runs.length >= MESSAGES && runs.every(({ status }) => status === "succeeded")) break;
    await pause(100);
  }
  expect(
    Object.fromEntries(
      Map.groupBy(runs, ({ status }) => status)
        .entries()
        .map(([status, list]) => [status, list.length]),
    ),
  ).toEqual({
    succeeded: MESSAGES,
  });
  expect(runs.map(({ sessionKey }) => sessionKey).toSorted()).toEqual(
    ids.map((id) => `hook:gmail:${id}`).toSorted(),
  );
  // The model saw each text, and no other mail. A turn that a crash cut off is taken again.
  const seen = new Set(
    provider.requests.flatMap(
      (request) => /Text of mail (\d+)\./.exec(provider.text(request))?.[1] ?? [],
    ),
  );
  expect(seen.size).toBe(MESSAGES);
  expect(
    provider.requests.some((request) => provider.text(request).includes("before the setup")),
  ).toBe(false);
  const { status } = await admin("/status");
  expect(status.services).toMatchObject([{ id: "gmail", ok: true }]);
  // Nothing is left that would come again.
  for (
    let n = 0;
    n < 200 && google.subscriptions.values().some(({ waiting }) => waiting.length > 0);
    n++
  )
    await pause(50);
  expect([...google.subscriptions.values()].map(({ waiting }) => waiting.length)).toEqual([0]);
  expect((await allRuns()).length).toBe(MESSAGES);
});
