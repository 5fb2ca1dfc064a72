import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Program } from "../e2e/program.ts";
import { scale } from "../soak.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { ALL_SENT, countMails, createMailWorld, type Arrival, type MailWorld } from "./mail.ts";
import { orderMails, pause, settleRun, startMailProgram, type MailRun } from "./mail-program.ts";

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

const start = async (storeUrl: string): Promise<Program> => {
  const program = await startMailProgram(mail, dir, { store: { url: storeUrl } });
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

describePostgres("a gateway of three on one database", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  afterEach(() => schema.drop());

  const SUSPENDED: [agent: string, kind: Arrival["kind"], index: number][] = [
    ["post", "mail", 1],
    ["post", "model", 1],
    ["safe", "mail", 1],
  ];
  it.each(SUSPENDED.slice(0, scale(1, 3)))(
    "that is suspended past its lease (%s, %s %i) writes nothing afterwards and starts no tool",
    { timeout: 300_000 },
    async (agent, kind, index) => {
      const { url: storeUrl } = schema;
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
