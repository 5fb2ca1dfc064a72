import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { newParking } from "../parking.ts";
import { createQuestions, recordLost } from "../../src/people/notify.ts";
import { createChannels } from "../../src/delivery/channels.ts";
import { createDeliveryWorker, type DeliveryWorker } from "../../src/delivery/deliver.ts";
import { writeDelivery } from "../../src/delivery/plan.ts";
import type {
  ApprovalQuestion,
  Channel,
  EndedQuestion,
  OutgoingMessage,
  SendResult,
} from "../../src/plugin/api.ts";
import { openStore } from "../../src/store/open.ts";
import type { ApprovalRecord, DeliveryRecord, RunSpec, Store } from "../../src/store/types.ts";
import { keptLog, manualClock, settle, type ManualClock } from "../delivery/support.ts";

let folder: string;
let store: Store;
let clock: ManualClock;
let worker: DeliveryWorker;
let poke: () => void;
let logged: string[];
/** The messages that each channel received. They are the truth, and the store is not. */
let seen: {
  channel: string;
  to: string;
  kind: "ask" | "end" | "text";
  what: ApprovalQuestion | EndedQuestion | OutgoingMessage;
}[];
let answers: Record<string, SendResult[]>;
let decided: boolean;

function channel(id: string, kind: "buttons" | "text"): Channel {
  const take = (
    what: ApprovalQuestion | EndedQuestion | OutgoingMessage,
    form: "ask" | "end" | "text",
  ): Promise<SendResult> => {
    seen.push({ channel: id, to: what.to, kind: form, what });
    return Promise.resolve(
      answers[id]?.shift() ?? { status: "sent", messageIds: [`${id}-${seen.length}`] },
    );
  };
  const base: Channel = {
    send: (message) => take(message, "text"),
    directRecipient: (person) => `user:${person}`,
  };
  if (kind === "text") return base;
  return {
    ...base,
    ask: (question) => take(question, "ask"),
    endQuestion: (ended) => take(ended, "end"),
  };
}

const channels = () =>
  createChannels(
    [],
    new Map([
      ["tg", channel("tg", "buttons")],
      ["wa", channel("wa", "buttons")],
      ["mm", channel("mm", "text")],
    ]),
  );

const SPEC = {
  session: { agentId: "main", origin: "hook", key: "h" },
  channel: "last",
  input: [],
} as unknown as RunSpec;
const APPROVERS = ["operator", "tg:42", "api:ann", "wa:1", "mm:rosa", "tg:42", "gone:1"];

const approval = (id = "apr_1"): ApprovalRecord => ({
  id,
  code: "7f3",
  runId: "run_1",
  callId: "run_1.0.0",
  agentId: "main",
  tool: "bank.transfer",
  input: { to: "ACME" },
  reason: "rule",
  why: "A rule.",
  askedAt: clock.now(),
  expiresAt: clock.now() + 86_400_000,
});

const questions = (approvers = APPROVERS) =>
  createQuestions({
    store,
    clock,
    snapshot: () => ({ approvers, channels: channels(), config: { language: "en", tools: {} } }),
  });

async function ask(spec: RunSpec = SPEC, approvers = APPROVERS): Promise<void> {
  const planned = questions(approvers).plan(approval(), { id: "run_1", spec });
  await store.commit((tx) => planned.forEach((one) => writeDelivery(tx, one)));
  await pass(0);
}

async function pass(ms: number): Promise<void> {
  await clock.advance(ms);
  poke();
  await settle();
}

const deliveries = async (): Promise<DeliveryRecord[]> =>
  (await store.deliveries.list({ limit: 100 })).toReversed();
const told = () => seen.map(({ channel: id, to, kind }) => `${kind} ${id} ${to}`);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rouse-ask-"));
  clock = manualClock();
  seen = [];
  answers = {};
  decided = false;
  const { log, lines } = keptLog();
  logged = lines;
  const opened = await openStore({ url: `sqlite:${join(folder, "test.db")}`, clock, log });
  store = opened.store;
  worker = createDeliveryWorker({
    store,
    parking: newParking(store, clock),
    queue: {
      fetch: (kind, limit) => opened.queue.fetch(kind, limit),
      onReady(listener) {
        poke = () => listener("delivery");
        return opened.queue.onReady(listener);
      },
    },
    snapshot: () => ({
      channels: channels(),
      agents: { default: { id: "main" } },
      config: { delivery: { maxAge: 86_400_000 } },
    }),
    callbacks: { send: async () => ({ status: "sent" }) },
    isDecided: async () => decided,
    clock,
    log,
  });
  worker.start();
});
afterEach(async () => {
  const stopped = worker.stop();
  await clock.advance(10_000);
  await stopped;
  await store.close();
  await rm(folder, { recursive: true });
});

it("approval questions: the first approver who has a channel is asked, directly, with buttons, and no one else", async () => {
  await ask();
  expect(told()).toEqual(["ask tg user:42"]);
  expect(seen[0]?.what).toMatchObject({
    code: "7f3",
    verdicts: [
      { verdict: "approve", label: "Approve" },
      { verdict: "deny", label: "Deny" },
    ],
    instruction: 'Reply "approve 7f3" or "deny 7f3".',
    text: expect.stringContaining("bank.transfer") as unknown,
  });
  expect((await deliveries()).map(({ status }) => status)).toEqual(["delivered"]);
});

it("approval questions: the next approver is asked if a question fails, each once, and the log says if none is left", async () => {
  answers = {
    tg: [{ status: "failed", reason: "blocked" }],
    wa: [{ status: "failed", reason: "more than 24 hours" }],
  };
  await ask();
  expect(told()).toEqual(["ask tg user:42", "ask wa user:1", "text mm user:rosa"]);
  expect((await deliveries()).map(({ status, error }) => [status, error?.message])).toEqual([
    ["failed", "blocked"],
    ["failed", "more than 24 hours"],
    ["delivered", undefined],
  ]);
  expect(logged.join("\n")).toContain("an approver could not be asked: the next one is");
  // An operator who sends a failed question again asks no one else twice.
  answers = { tg: [{ status: "failed", reason: "blocked" }] };
  const [first] = await deliveries();
  await worker.retry(first?.id as string);
  await pass(0);
  expect(told()).toEqual([
    "ask tg user:42",
    "ask wa user:1",
    "text mm user:rosa",
    "ask tg user:42",
  ]);
  expect(await deliveries()).toHaveLength(3);
});

it("approval questions: the log says that no approver could be asked", async () => {
  answers = { tg: [{ status: "failed", reason: "blocked" }] };
  await ask(SPEC, ["tg:42"]);
  expect(told()).toEqual(["ask tg user:42"]);
  expect(logged.join("\n")).toContain("no approver could be asked on a channel");
});

it("approval questions: the next approver is asked within a minute if the first one's channel is down", async () => {
  answers = {
    tg: Array.from({ length: 12 }, () => ({ status: "retry", reason: "busy" }) as const),
  };
  await ask();
  for (let seconds = 0; seconds < 60; seconds++) await pass(1_000);
  expect(told()).toEqual([...Array.from({ length: 5 }, () => "ask tg user:42"), "ask wa user:1"]);
});

it("approval questions: no question is sent about an approval that was decided meanwhile", async () => {
  answers = { tg: [{ status: "retry", reason: "busy" }] };
  await ask();
  decided = true;
  await pass(5_000);
  expect(told()).toEqual(["ask tg user:42"]);
  expect((await deliveries()).map(({ status, error }) => [status, error?.code])).toEqual([
    ["failed", "decided"],
  ]);
});

/** Plans what is done about the question once the operator has decided. */
async function endQuestion(verdict: "approve" | "deny"): Promise<void> {
  const decision = { verdict, by: "operator", at: clock.now() };
  const ends = await questions().planEnd("apr_1", decision);
  await store.commit((tx) => ends.forEach((end) => writeDelivery(tx, end)));
}

it("approval questions: the buttons go away once, after the question, from the message that asked", async () => {
  await ask();
  await endQuestion("approve");
  await pass(0);
  expect(told()).toEqual(["ask tg user:42", "end tg user:42"]);
  expect(seen[1]?.what).toMatchObject({
    messageIds: ["tg-1"],
    text: expect.stringMatching(/bank\.transfer[^]*\*\*Approved\*\* by `operator`/) as unknown,
  });
  // The end is a delivery of its own id: the same decision cannot plan it a second time.
  await expect(endQuestion("approve")).rejects.toThrow();
});

it("approval questions: the buttons go away from a question that was being sent when it was decided", async () => {
  answers = { tg: [{ status: "retry", reason: "busy" }] };
  await ask();
  await endQuestion("deny");
  await pass(5_000);
  expect(told()).toEqual(["ask tg user:42", "ask tg user:42", "end tg user:42"]);
});

it("approval questions: the same question is not planned twice", async () => {
  await ask();
  await expect(ask()).rejects.toThrow();
  await pass(1_000);
  expect(told()).toEqual(["ask tg user:42"]);
});

it("approval questions: the next approver is asked, once, if the vendor reports later that the question did not arrive", async () => {
  await ask();
  const [first] = await deliveries();
  const id = first?.id;
  const deps = { store, channels, clock };
  const lost = { idempotencyKey: `${id}.0`, reason: "error 131047" };
  await recordLost("wa", lost, deps);
  expect(await deliveries()).toHaveLength(1);
  await recordLost("tg", lost, deps);
  await recordLost("tg", lost, deps);
  await pass(0);
  expect(told()).toEqual(["ask tg user:42", "ask wa user:1"]);
  expect((await deliveries())[0]).toMatchObject({
    status: "failed",
    error: { code: "not_delivered", message: "error 131047" },
  });
});
