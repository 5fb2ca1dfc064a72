import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import {
  describePrivatePostgres,
  startPrivatePostgres,
  type PrivatePostgres,
} from "../e2e/private-postgres.ts";
import type { Program } from "../e2e/program.ts";
import { scale } from "../soak.ts";
import {
  ALL_SENT,
  countMails,
  createMailWorld,
  MAILS,
  type Arrival,
  type MailWorld,
} from "./mail.ts";
import { orderMails, pause, settleRun, startMailProgram, type MailRun } from "./mail-program.ts";

/** Fleets of three gateways that are killed at the same time, each on a database of its own. */
const FLEETS = scale(1, 3);
const ONCE = { 1: 1, 2: 1, 3: 1 };

let dir: string;
let mail: MailWorld;
let programs: Program[] = [];
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-mail-"));
  mail = await createMailWorld();
});
afterEach(async () => {
  await Promise.all(programs.splice(0).map((program) => program.kill().catch(() => undefined)));
  await mail.close();
  rmSync(dir, { recursive: true, force: true });
});

const start = async (storeUrl?: string): Promise<Program> => {
  const program = await startMailProgram(
    mail,
    dir,
    storeUrl === undefined ? {} : { store: { url: storeUrl } },
  );
  programs.push(program);
  return program;
};

/** Checks one run against what the world outside saw. Returns its status. */
function expectOnce(
  agent: string,
  { status, reply }: MailRun,
  where: string,
  { sent } = mail,
): string {
  const counts = countMails(sent, agent === "safe");
  expect(["succeeded", "waiting"], where).toContain(status);
  for (const [n, count] of Object.entries(counts)) expect([where, n, count]).toEqual([where, n, 1]);
  if (status === "succeeded") expect([where, reply, counts]).toEqual([where, ALL_SENT, ONCE]);
  // A tool that may be repeated never needs a person.
  if (agent === "safe") expect([where, status]).toEqual([where, "succeeded"]);
  return status;
}

type Point = Arrival & { moment: "before" | "after" };
const POINTS: Point[] = (["before", "after"] as const).flatMap((moment) => [
  ...Array.from({ length: MAILS + 1 }, (_, index): Point => ({ kind: "model", index, moment })),
  ...Array.from({ length: MAILS }, (_, index): Point => ({ kind: "mail", index, moment })),
]);
const AGENTS = ["mcp", "post", "safe"];
/** Each point with each agent; in the short form every other point, once. */
const KILLS = AGENTS.flatMap((agent, n) =>
  POINTS.filter((_, at) => scale(at % 2 === 0 && at % AGENTS.length === n, true)).map((point) => ({
    ...point,
    agent,
  })),
);
const renderPoint = (agent: string, { kind, index, moment }: Point): string =>
  `${agent}: ${moment} the answer to ${kind} ${index}`;

it(
  "SQLite: a gateway that is killed at each point of a turn sends no e-mail twice and loses none",
  { timeout: 600_000 },
  async () => {
    const states: Record<string, number> = {};
    let program: Program | undefined = await start();
    let kills = 0;
    for (const { agent, ...point } of KILLS) {
      mail.reset();
      let killed: Promise<void> | undefined;
      const victim = program;
      const dead = new Promise<void>((done) => {
        mail.watch = async ({ kind, index }, moment) => {
          if (killed || kind !== point.kind || index !== point.index || moment !== point.moment)
            return;
          killed = victim.kill();
          kills++;
          await killed;
          done();
        };
      });
      const id = await orderMails(victim, agent);
      await dead;
      program = undefined;
      program = await start();
      const run = await settleRun(() => program?.url, id);
      const status = expectOnce(agent, run, renderPoint(agent, point));
      states[`${agent} ${status}`] = (states[`${agent} ${status}`] ?? 0) + 1;
    }
    console.log(`${kills} kills: ${JSON.stringify(states)}`);
    expect(kills).toBe(KILLS.length);
  },
);

describePrivatePostgres("three gateways on one database", () => {
  let postgres: PrivatePostgres;
  // Of its own: the fleets together need most of the connections that a server has.
  beforeAll(async () => void (postgres = await startPrivatePostgres()));
  afterAll(() => postgres.remove());
  let schemas = 0;
  const newStore = (): string => {
    const url = new URL(postgres.url);
    url.searchParams.set("schema", `rouse_${++schemas}`);
    return url.href;
  };

  /** Kills gateways of a fleet of its own at these points. Returns how many, and what the runs came to. */
  async function killFleet(points: readonly (Point & { agent: string })[], part: number) {
    const own = await createMailWorld();
    const store = { url: newStore() };
    const home = join(dir, `fleet-${part}`);
    const begin = async (): Promise<Program> => {
      const program = await startMailProgram(own, home, { store });
      programs.push(program);
      return program;
    };
    const states: string[] = [];
    let kills = 0;
    try {
      const gateways = [await begin(), ...(await Promise.all([begin(), begin()]))];
      for (const point of points) {
        own.reset();
        const hit = Promise.withResolvers<void>();
        let isHit = false;
        own.watch = async ({ kind, index }, moment) => {
          if (isHit || kind !== point.kind || index !== point.index || moment !== point.moment)
            return;
          isHit = true;
          // The test does not know which of them has the run: all are killed but the last, which takes it over or continues it.
          const victims = gateways.splice(0, 2);
          kills += victims.length;
          await Promise.all(victims.map((victim) => victim.kill()));
          hit.resolve();
        };
        const id = await orderMails(gateways[0] as Program, point.agent);
        await hit.promise;
        gateways.push(...(await Promise.all([begin(), begin()])));
        const run = await settleRun(() => gateways[0]?.url, id);
        states.push(
          `${point.agent} ${expectOnce(point.agent, run, renderPoint(point.agent, point), own)}`,
        );
      }
      await Promise.all(gateways.map((gateway) => gateway.kill()));
      return { kills, states };
    } finally {
      await own.close();
    }
  }

  it(
    "are killed at each point of a turn: another one continues it, sends no e-mail twice and loses none",
    { timeout: 600_000 },
    async () => {
      const points = AGENTS.flatMap((agent) => POINTS.map((point) => ({ ...point, agent }))).filter(
        (_, at) => scale(at === 11 || at === 33, true),
      );
      // A fleet waits most of the time, for the leases of those that were killed.
      const parts = Array.from({ length: FLEETS }, (_, part) =>
        points.filter((_point, at) => at % FLEETS === part),
      );
      const came = await Promise.all(parts.map(killFleet));
      const kills = came.reduce((sum, one) => sum + one.kills, 0);
      const states: Record<string, number> = {};
      for (const state of came.flatMap((one) => one.states))
        states[state] = (states[state] ?? 0) + 1;
      console.log(`${kills} kills at ${points.length} points: ${JSON.stringify(states)}`);
      expect(kills).toBe(2 * points.length);
    },
  );

  const SUSPENDED: [agent: string, kind: Point["kind"], index: number][] = [
    ["post", "mail", 1],
    ["post", "model", 1],
    ["safe", "mail", 1],
  ];
  it.each(SUSPENDED.slice(0, scale(1, 3)))(
    "that is suspended past its lease (%s, %s %i) writes nothing afterwards and starts no tool",
    { timeout: 300_000 },
    async (agent, kind, index) => {
      const storeUrl = newStore();
      const first = await start(storeUrl);
      let release = (): void => undefined;
      const stopped = new Promise<void>((done) => {
        let isHit = false;
        mail.watch = async (arrival, moment) => {
          if (isHit || arrival.kind !== kind || arrival.index !== index || moment === "after")
            return;
          isHit = true;
          process.kill(first.child.pid as number, "SIGSTOP");
          done();
          await new Promise<void>((open) => (release = open));
        };
      });
      const id = await orderMails(first, agent);
      await stopped;
      const [second] = await Promise.all([start(storeUrl), start(storeUrl)]);
      // The lease is over after ten seconds: then one of the other two takes the run.
      const run = await settleRun(() => second.url, id);
      const sent = mail.sent.length;
      const asked = mail.requests.length;
      expectOnce(agent, run, `${agent}: suspended at ${kind} ${index}`);
      expect(run.status).toBe(agent === "post" && kind === "mail" ? "waiting" : "succeeded");
      release();
      process.kill(first.child.pid as number, "SIGCONT");
      await pause(4000);
      expect([mail.sent.length, mail.requests.length]).toEqual([sent, asked]);
      expect(await settleRun(() => second.url, id)).toEqual(run);
    },
  );
});
