import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { startProgram, type Program } from "../e2e/program.ts";
import { mailConfig, mailPlugins, type MailWorld } from "./mail.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "mail-hook-token-0123456789";
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
const ENDED = ["succeeded", "failed", "timed_out", "cancelled"];

export const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Starts the real program on a folder, with the agents that send e-mails. `more` adds to the config or replaces keys of it. */
export function startMailProgram(
  mail: MailWorld,
  dir: string,
  more: object = {},
): Promise<Program> {
  const { hooks, ...rest } = mailConfig(mail) as { hooks: object };
  const config = {
    gateway: { port: 0, drainSeconds: 2 },
    hooks: { enabled: true, token: TOKEN, ...hooks },
    ...rest,
    ...more,
  };
  for (const [name, text] of Object.entries({
    "rouse.json5": JSON.stringify(config),
    ...mailPlugins(mail),
  })) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  const env = { ROUSE_LOG_LEVEL: process.env["FLEET_LOG"] ?? "silent" };
  return startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], { cwd: dir, env });
}

/** Has an agent send the e-mails. Returns the id of its run. */
export async function orderMails({ url }: Program, agentId: string): Promise<string> {
  const body = JSON.stringify({
    message: "Mail them.",
    agentId,
    deliver: false,
    wakeMode: "next-heartbeat",
  });
  const answer = await fetch(`${url}/hooks/agent`, { method: "POST", headers, body });
  return ((await answer.json()) as { runId: string }).runId;
}

export interface MailRun {
  status: string;
  reply: string | null;
}

/** Waits for the end of a run, whichever gateway executes it. A run that waits for a person counts as ended, unless `canWait` is false. */
export async function settleRun(
  getUrl: () => string | undefined,
  id: string,
  canWait = true,
): Promise<MailRun> {
  let last: MailRun | undefined;
  for (let waited = 0; waited < 90_000; waited += 50) {
    const url = getUrl();
    const answer =
      url === undefined
        ? undefined
        : await fetch(`${url}/hooks/runs/${id}`, { headers }).catch(() => undefined);
    const { run } = answer?.ok ? ((await answer.json()) as { run: MailRun }) : { run: undefined };
    if (run && (ENDED.includes(run.status) || (canWait && run.status === "waiting"))) return run;
    last = run ?? last;
    await pause(50);
  }
  throw new Error(`the run ${id} did not come to an end: ${JSON.stringify(last)}`);
}
