import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import {
  startTelegram,
  type TelegramMessage,
  type TelegramServer,
} from "../channels/telegram-server.ts";
import type { Program } from "../e2e/program.ts";
import { scale } from "../soak.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { ALL_SENT, countMails, createMailWorld, MAILS, type MailWorld } from "./mail.ts";
import { orderMails, pause, settleRun, startMailProgram } from "./mail-program.ts";

const APPROVER = 42;
const LOOK_MS = 10;

/** The moment at which the gateways are killed, at the e-mail with this index. */
type Moment =
  | "question before" // the vendor has taken the question, and has not answered yet
  | "question after" // it has answered, and this may not be recorded yet
  | "press" // a person has pressed a button, so many milliseconds ago
  | "decision" // the decision is recorded, and the person gets its confirmation
  | "call before" // the e-mail is sent, and the tool has not answered yet
  | "call after"
  | "model before" // the model is given the result
  | "model after";
interface Point {
  agent: "post" | "safe";
  moment: Moment;
  index: number;
  ms?: number;
}

const INDEXES = Array.from({ length: MAILS }, (_, index) => index);
const AROUND_CALL = (["call before", "call after"] as const).flatMap((moment) =>
  INDEXES.map((index) => ({ moment, index })),
);
const POINTS: Point[] = [
  ...(["question before", "question after", "decision"] as const).flatMap((moment) =>
    INDEXES.map((index) => ({ moment, index })),
  ),
  ...[0, 2, 5, 10, 20, 40, 80].map((ms) => ({ moment: "press" as const, index: 1, ms })),
  ...(["model before", "model after"] as const).map((moment) => ({ moment, index: 1 })),
  ...AROUND_CALL,
].map((point) => ({ agent: "post" as const, ...point }));
POINTS.push(...AROUND_CALL.map((point) => ({ agent: "safe" as const, ...point })));

const getCode = ({ text }: TelegramMessage): string => /Approval ([0-9a-f]+)/.exec(text)?.[1] ?? "";
const getMail = ({ text }: TelegramMessage): number => Number(/"n": (\d+)/.exec(text)?.[1]);
const isAboutOutcome = ({ text }: TelegramMessage): boolean =>
  text.includes("whether the call took effect is not known");

let dir: string;
let mail: MailWorld;
let telegram: TelegramServer;
let programs: Program[] = [];
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-approval-"));
  mail = await createMailWorld();
  telegram = await startTelegram();
});
afterEach(async () => {
  await Promise.all(programs.splice(0).map((program) => program.kill().catch(() => undefined)));
  await mail.close();
  await telegram.close();
  rmSync(dir, { recursive: true, force: true });
});

async function start(storeUrl?: string): Promise<Program> {
  const agents = ["post", "safe"].map((id) => ({
    id,
    tools: [`${id}.*`],
    approve: [`${id}.send`],
  }));
  const program = await startMailProgram(mail, dir, {
    agents: { defaults: { model: "local/m", heartbeat: { every: 0 } }, list: agents },
    channels: { telegram: { token: telegram.token, apiUrl: telegram.url } },
    tools: { approvers: [`telegram:${APPROVER}`] },
    ...(storeUrl === undefined ? {} : { store: { url: storeUrl } }),
  });
  programs.push(program);
  return program;
}

/** A person who presses the button of each question once, whether a gateway is there or not. */
function createApprover(onPress: (about: TelegramMessage) => void) {
  const from = telegram.messages.length;
  let seen = from;
  let isOver = false;
  /** E-mails that were approved. */
  const approved = new Set<number>();
  const answer = (question: TelegramMessage): void => {
    const n = getMail(question);
    if (!isAboutOutcome(question)) approved.add(n);
    const wasSent = mail.sent.some((one) => one.n === n);
    telegram.press(
      isAboutOutcome(question) ? (wasSent ? "Treat as done" : "Repeat the call") : "Approve",
      APPROVER,
      question,
    );
    if (!isAboutOutcome(question)) onPress(question);
  };
  const work = (async () => {
    while (!isOver) {
      const question = telegram.messages[seen];
      if (question) {
        seen++;
        // Words without buttons tell the person something.
        if (question.asked.length > 0) answer(question);
      } else await pause(LOOK_MS);
    }
  })();
  return {
    approved,
    getQuestions: () => telegram.messages.slice(from).filter(({ asked }) => asked.length > 0),
    async stop(): Promise<void> {
      isOver = true;
      await work;
    },
  };
}

/** Calls `hit` once, at the point. Returns who decides. */
function watchFor({ moment, index, ms = 0 }: Point, hit: () => Promise<void>) {
  let isHit = false;
  let questions = 0;
  let decisions = 0;
  const once = async (): Promise<void> => {
    if (isHit) return;
    isHit = true;
    await hit();
  };
  mail.watch = async (arrival, when) => {
    // An e-mail that is sent without approval is the worst failure.
    if (arrival.kind === "mail" && when === "before")
      expect([...approver.approved]).toContain(mail.sent.at(-1)?.n);
    const at = `${arrival.kind === "mail" ? "call" : "model"} ${when}`;
    if (at === moment && arrival.index === index) await once();
  };
  telegram.watch = (method) => {
    if (method === "sendMessage" && telegram.messages.at(-1)?.asked.length !== 0) {
      if (questions++ !== index) return undefined;
      if (moment === "question after") setImmediate(() => void once());
      return moment === "question before" ? once() : undefined;
    }
    return method === "answerCallbackQuery" && decisions++ === index && moment === "decision"
      ? once()
      : undefined;
  };
  const approver = createApprover((question) => {
    if (moment === "press" && getMail(question) === index + 1) setTimeout(() => void once(), ms);
  });
  return approver;
}

async function killAt(
  point: Point,
  order: () => Promise<string>,
  kill: () => Promise<void>,
  restart: () => Promise<() => string>,
) {
  const where = `${point.agent}: ${point.moment} ${point.index} ${point.ms ?? ""}`;
  mail.reset();
  const killed = Promise.withResolvers<void>();
  const approver = watchFor(point, async () => {
    await kill();
    killed.resolve();
  });
  const id = await order();
  await killed.promise;
  const getUrl = await restart();
  const run = await settleRun(getUrl, id, false);
  await approver.stop();
  telegram.watch = () => undefined;
  expect([where, run.status, run.reply]).toEqual([where, "succeeded", ALL_SENT]);
  expect([where, countMails(mail.sent, point.agent === "safe")]).toEqual([
    where,
    { 1: 1, 2: 1, 3: 1 },
  ]);
  const questions = approver.getQuestions();
  const asked = Map.groupBy(questions, getCode);
  for (const [code, times] of asked)
    expect([where, code, times.length <= 2]).toEqual([where, code, true]);
  // Each call has one approval: a decision that was made is never asked for again under another code.
  const codes = new Set(
    questions.filter((one) => !isAboutOutcome(one)).map((one) => `${getMail(one)} ${getCode(one)}`),
  );
  expect([
    where,
    [...codes].map((one) => Number(one.split(" ")[0])).toSorted((a, b) => a - b),
  ]).toEqual([where, [1, 2, 3]]);
  return {
    twice: [...asked.values()].filter(({ length }) => length === 2).length,
    unknown: questions.filter(isAboutOutcome).length,
  };
}

interface Counts {
  kills: number;
  twice: number;
  unknown: number;
}
const report = (name: string, { kills, twice, unknown }: Counts, points: number): void =>
  console.log(
    `${name}: ${kills} kills at ${points} points: ${points} succeeded, ${twice} questions asked twice, ${unknown} unknown outcomes`,
  );

it(
  "SQLite: a gateway that is killed around approvals makes each approved call once and loses no decision",
  { timeout: 600_000 },
  async () => {
    const counts: Counts = { kills: 0, twice: 0, unknown: 0 };
    let program = await start();
    // One of each four, so that indexes change.
    const points = POINTS.filter((_, at) => scale(at % 4 === 3, true));
    for (const point of points) {
      const kill = async (): Promise<void> => {
        counts.kills++;
        await program.kill();
      };
      const restart = async (): Promise<() => string> => {
        program = await start();
        return () => program.url;
      };
      const { twice, unknown } = await killAt(
        point,
        () => orderMails(program, point.agent),
        kill,
        restart,
      );
      counts.twice += twice;
      counts.unknown += unknown;
    }
    report("SQLite", counts, points.length);
    expect(counts.kills).toBe(points.length);
  },
);

describePostgres("three gateways on one database", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  afterEach(() => schema.drop());

  it(
    "are killed around approvals: each approved call is made once, and no decision is lost",
    { timeout: 600_000 },
    async () => {
      const counts: Counts = { kills: 0, twice: 0, unknown: 0 };
      const gateways = [
        await start(schema.url),
        ...(await Promise.all([start(schema.url), start(schema.url)])),
      ];
      // Each takes as long as the leases of those that were killed.
      const points = POINTS.filter(
        ({ agent, index, moment, ms = 5 }) =>
          agent === "post" && index === 1 && ms === 5 && !moment.startsWith("model"),
      ).filter(({ moment }) => scale(moment === "decision", true));
      for (const point of points) {
        const kill = async (): Promise<void> => {
          const victims = gateways.splice(0, 2);
          counts.kills += victims.length;
          await Promise.all(victims.map((victim) => victim.kill()));
        };
        const restart = async (): Promise<() => string> => {
          gateways.push(...(await Promise.all([start(schema.url), start(schema.url)])));
          return () => (gateways[0] as Program).url;
        };
        const { twice, unknown } = await killAt(
          point,
          () => orderMails(gateways[0] as Program, point.agent),
          kill,
          restart,
        );
        counts.twice += twice;
        counts.unknown += unknown;
      }
      report("PostgreSQL", counts, points.length);
      expect(counts.kills).toBe(2 * points.length);
    },
  );
});
