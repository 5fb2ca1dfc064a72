import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Program } from "../e2e/program.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { ALL_SENT, countMails, createMailWorld, MAILS, type Arrival, type MailWorld } from "./mail.ts";
import { orderMails, pause, settleRun, startMailProgram, type MailRun } from "./mail-program.ts";

/** Fleets of three gateways that are killed at the same time, each on a database of its own. */
const FLEETS = 3;
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
  const program = await startMailProgram(mail, dir, storeUrl === undefined ? {} : { store: { url: storeUrl } });
  programs.push(program);
  return program;
};

/** Checks one run against what the world outside saw. Returns its status. */
function expectOnce(agent: string, { status, reply }: MailRun, where: string, { sent } = mail): string {
  const counts = countMails(sent, agent === "safe");
  expect(["succeeded", "waiting"], where).toContain(status);
  for (const [n, count] of Object.entries(counts)) expect([where, n, count]).toEqual([where, n, 1]);
  if (status === "succeeded") expect([where, reply, counts]).toEqual([where, ALL_SENT, ONCE]);
  // What can be repeated never needs a person.
  if (agent === "safe") expect([where, status]).toEqual([where, "succeeded"]);
  return status;
}

type Point = Arrival & { moment: "before" | "after" };
const POINTS: Point[] = (["before", "after"] as const).flatMap((moment) => [
  ...Array.from({ length: MAILS + 1 }, (_, index): Point => ({ kind: "model", index, moment })),
  ...Array.from({ length: MAILS }, (_, index): Point => ({ kind: "mail", index, moment })),
]);
const renderPoint = (agent: string, { kind, index, moment }: Point): string => `${agent}: ${moment} the answer to ${kind} ${index}`;

it("SQLite: killed at each point of a turn, it sends no e-mail twice and loses none", { timeout: 400_000 }, async () => {
  const states: Record<string, number> = {};
  let program: Program | undefined = await start();
  let kills = 0;
  for (const agent of ["mcp", "post", "safe"])
    for (const point of POINTS) {
      mail.reset();
      let killed: Promise<void> | undefined;
      const victim = program;
      const dead = new Promise<void>((done) => {
        mail.watch = async ({ kind, index }, moment) => {
          if (killed || kind !== point.kind || index !== point.index || moment !== point.moment) return;
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
  expect(kills).toBe(3 * POINTS.length);
  expect(kills).toBeGreaterThanOrEqual(40);
});

describePostgres("three gateways on one database", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  afterEach(() => schema.drop());

  /** Kills gateways of a fleet of its own at these points. Returns how many, and what the runs came to. */
  async function killFleet(points: readonly (Point & { agent: string })[], part: number) {
    const own = await createMailWorld();
    const ownSchema = newSchema();
    const home = join(dir, `fleet-${part}`);
    const begin = async (): Promise<Program> => {
      const program = await startMailProgram(own, home, { store: { url: ownSchema.url } });
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
          if (isHit || kind !== point.kind || index !== point.index || moment !== point.moment) return;
          isHit = true;
          // Which of them has the run is nobody's to know: all are killed but the last, which takes it over or goes on.
          const victims = gateways.splice(0, 2);
          kills += victims.length;
          await Promise.all(victims.map((victim) => victim.kill()));
          hit.resolve();
        };
        const id = await orderMails(gateways[0] as Program, point.agent);
        await hit.promise;
        gateways.push(...(await Promise.all([begin(), begin()])));
        const run = await settleRun(() => gateways[0]?.url, id);
        states.push(`${point.agent} ${expectOnce(point.agent, run, renderPoint(point.agent, point), own)}`);
      }
      await Promise.all(gateways.map((gateway) => gateway.kill()));
      return { kills, states };
    } finally {
      await own.close();
      await ownSchema.drop();
    }
  }

  it("are killed at each point of a turn: another goes on, sends no e-mail twice and loses none", { timeout: 500_000 }, async () => {
    const points = ["mcp", "post", "safe"].flatMap((agent) => POINTS.map((point) => ({ ...point, agent })));
    // A fleet waits most of the time, for the leases of those that were killed.
    const parts = Array.from({ length: FLEETS }, (_, part) => points.filter((_point, at) => at % FLEETS === part));
    const came = await Promise.all(parts.map(killFleet));
    const kills = came.reduce((sum, one) => sum + one.kills, 0);
    const states: Record<string, number> = {};
    for (const state of came.flatMap((one) => one.states)) states[state] = (states[state] ?? 0) + 1;
    console.log(`${kills} kills at ${points.length} points: ${JSON.stringify(states)}`);
    expect(points.length).toBeGreaterThanOrEqual(40);
    expect(kills).toBe(2 * points.length);
  });

  it.each([
    ["post", "model", 1],
    ["post", "mail", 1],
    ["safe", "mail", 1],
  ] as const)(
    "that is suspended past its lease (%s, %s %i) writes nothing afterwards and starts no tool",
    { timeout: 120_000 },
    async (agent, kind, index) => {
      const first = await start(schema.url);
      let release = (): void => undefined;
      const stopped = new Promise<void>((done) => {
        let isHit = false;
        mail.watch = async (arrival, moment) => {
          if (isHit || arrival.kind !== kind || arrival.index !== index || moment === "after") return;
          isHit = true;
          process.kill(first.child.pid as number, "SIGSTOP");
          done();
          await new Promise<void>((open) => (release = open));
        };
      });
      const id = await orderMails(first, agent);
      await stopped;
      const [second] = await Promise.all([start(schema.url), start(schema.url)]);
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
