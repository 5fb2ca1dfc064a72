import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import {
  ALL_SENT,
  callOf,
  callsOf,
  countMails,
  createMailWorld,
  mailConfig,
  mailPlugins,
  type MailWorld,
} from "./mail.ts";

let mail: MailWorld;
let world: World | undefined;
beforeEach(async () => {
  mail = await createMailWorld();
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await mail.close();
});

const start = async (more: object = {}): Promise<World> => {
  world = await createWorld({ config: mailConfig(mail, more), files: mailPlugins(mail) });
  return world;
};

interface Run {
  id: string;
  status: string;
  reply: string | null;
  warnings: string[];
  attempts: number;
  error: { code: string; message: string } | null;
}

const post = async (of: World, agentId: string, more: object = {}): Promise<string> =>
  of.orderRun({ message: "Mail them.", agentId, ...more });
const read = async (of: World, id: string): Promise<Run> =>
  (await of.get(`/hooks/runs/${id}`)).body.run as Run;
const settle = (of: World, id: string): Promise<Run> =>
  of.until(async () => {
    const run = await read(of, id);
    return ["succeeded", "failed", "timed_out", "cancelled", "waiting"].includes(run.status) && run;
  });

const ONCE = { 1: 1, 2: 1, 3: 1 };

describe("a provider that fails", () => {
  it("at every step, more often than one attempt may: each e-mail is sent once", async () => {
    const failures = new Map<number, number>();
    mail.failModel = (_index, step) => {
      const known = failures.get(step) ?? 0;
      failures.set(step, known + 1);
      return known < 4 ? 503 : undefined;
    };
    const of = await start();
    expect(await settle(of, await post(of, "mcp"))).toMatchObject({
      status: "succeeded",
      reply: ALL_SENT,
    });
    expect(countMails(mail.sent)).toEqual(ONCE);
  });

  it("for good: the run fails, its retry continues after its last step", async () => {
    let isDown = true;
    mail.failModel = (_index, step) => (step === 2 && isDown ? 400 : undefined);
    const of = await start();
    const id = await post(of, "post");
    expect(await settle(of, id)).toMatchObject({
      status: "failed",
      error: { code: "provider_refused" },
    });
    expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 1 });
    isDown = false;
    expect((await of.admin(`/admin/v1/runs/${id}/retry`, { method: "POST" })).status).toBe(200);
    const ended = await of.until(async () => {
      const run = await read(of, id);
      return run.status === "succeeded" && run;
    });
    expect(ended.reply).toBe(ALL_SENT);
    expect(countMails(mail.sent)).toEqual(ONCE);
  });

  it("under a run that is tried again: the boundary and all that was rendered before stay the same", async () => {
    let failed = 0;
    mail.failModel = (_index, step) => (step === 2 && failed++ < 4 ? 503 : undefined);
    const of = await start();
    expect(await settle(of, await post(of, "mcp"))).toMatchObject({
      status: "succeeded",
      attempts: 2,
    });
    const [longest] = mail.requests.slice(-1).map(({ messages }) => messages);
    for (const { messages } of mail.requests)
      expect(messages).toEqual(longest?.slice(0, messages.length));
  });
});

describe("a heartbeat", () => {
  it("whose provider fails between its e-mails continues, and its events are done once", async () => {
    let failed = 0;
    mail.failModel = (_index, step) => (step === 2 && failed++ < 4 ? 503 : undefined);
    const of = await start();
    await of.post("/hooks/wake", { text: "Mail them.", mode: "now" });
    await of.until(async () => mail.requests.length >= 8);
    const [run] = await of.until(async () => {
      const { runs } = (await of.admin("/admin/v1/runs?kind=heartbeat")).body as {
        runs: { status: string }[];
      };
      const ended = runs.filter(({ status }) => status === "succeeded");
      return ended.length > 0 && ended;
    });
    expect(run).toMatchObject({ status: "succeeded" });
    expect(countMails(mail.sent)).toEqual(ONCE);
  });
});

describe("the calls of a step", () => {
  it("run at the same time, and their ids are their positions", async () => {
    const waiting: (() => void)[] = [];
    mail.says = (step) =>
      step === 0
        ? callsOf([
            ["post__send", { n: 1 }],
            ["post__send", { n: 2 }],
          ])
        : { role: "assistant", content: ALL_SENT };
    // Each is answered only once the other has arrived.
    mail.watch = ({ kind }, moment) => {
      if (kind !== "mail" || moment === "after") return undefined;
      return new Promise<void>((done) => {
        waiting.push(done);
        if (waiting.length === 2) for (const open of waiting) open();
      });
    };
    const of = await start();
    const ended = await settle(of, await post(of, "post"));
    expect(ended.status).toBe("succeeded");
    expect(mail.sent.map(({ n, key }) => [n, key] as const).toSorted(([a], [b]) => a - b)).toEqual([
      [1, `${ended.id}.0.0`],
      [2, `${ended.id}.0.1`],
    ]);
  });

  it("end after sixteen steps: the last one has no tools, and the run says so", async () => {
    mail.says = (step, { tools }) =>
      tools ? callOf("post__send", { n: step }) : { role: "assistant", content: "Enough." };
    const of = await start();
    const ended = await settle(of, await post(of, "post"));
    expect(ended).toMatchObject({ status: "succeeded", reply: "Enough." });
    expect(ended.warnings).toEqual([expect.stringContaining("limit of 16 steps")]);
    expect(mail.requests).toHaveLength(16);
    expect(mail.requests.map(({ tools }) => tools !== undefined)).toEqual([
      ...Array.from({ length: 15 }, () => true),
      false,
    ]);
    expect(mail.sent).toHaveLength(15);
  });
});

describe("a call whose connection is cut", () => {
  /** Cuts the first connection of the second e-mail, after it was sent. */
  const cut = (): void => {
    mail.watch = ({ kind, index }, moment) => {
      if (kind === "mail" && moment === "before" && index === 1) throw new Error("cut");
    };
  };

  it("is repeated under its id if the tool says that it may be", async () => {
    cut();
    const of = await start();
    const ended = await settle(of, await post(of, "safe"));
    expect(ended).toMatchObject({ status: "succeeded", reply: ALL_SENT });
    expect(mail.sent.map(({ n, key }) => [n, key])).toEqual([
      [1, `${ended.id}.0.0`],
      [2, `${ended.id}.1.0`],
      [2, `${ended.id}.1.0`],
      [3, `${ended.id}.2.0`],
    ]);
  });

  it("by a server leaves the run waiting, and is not made again by itself", async () => {
    cut();
    const of = await start();
    const id = await post(of, "mcp");
    expect(await settle(of, id)).toMatchObject({ status: "waiting" });
    expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 1 });
    expect((await of.admin(`/admin/v1/runs/${id}/cancel`, { method: "POST" })).status).toBe(200);
    expect(await read(of, id)).toMatchObject({ status: "cancelled" });
    expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 1 });
  });
});

describe("a run that ends while a call is under way", () => {
  const statesOf = async (of: World, id: string): Promise<string[]> => {
    const { steps } = (await of.admin(`/admin/v1/runs/${id}/steps`)).body as {
      steps: { calls: { state: string }[] }[];
    };
    return steps.flatMap(({ calls }) => calls.map(({ state }) => state));
  };
  beforeEach(() => {
    // The second e-mail is sent, and gets no answer.
    mail.watch = ({ kind, index }, moment) =>
      kind === "mail" && moment === "before" && index === 1
        ? new Promise<void>(() => undefined)
        : undefined;
  });

  it("since it was cancelled: the call has an unknown outcome", async () => {
    const of = await start();
    const id = await post(of, "mcp");
    await of.until(async () => mail.sent.length === 2);
    expect(await statesOf(of, id)).toEqual(["done", "started"]);
    expect((await of.admin(`/admin/v1/runs/${id}/cancel`, { method: "POST" })).status).toBe(200);
    expect(await settle(of, id)).toMatchObject({ status: "cancelled" });
    expect(await statesOf(of, id)).toEqual(["done", "unknown"]);
  });

  it("since its time was over: the same", async () => {
    const of = await start();
    const id = await post(of, "post", { timeoutSeconds: 4 });
    expect(await settle(of, id)).toMatchObject({ status: "timed_out" });
    expect(await statesOf(of, id)).toEqual(["done", "unknown"]);
    expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 1 });
  });

  it("since it waited for a person and was cancelled: what it asked for was not made", async () => {
    const agents = {
      defaults: { model: "local/m", heartbeat: { every: 0 } },
      list: [{ id: "post", tools: ["post.*"], approve: ["*"] }],
    };
    const of = await start({ agents });
    const id = await post(of, "post");
    expect(await settle(of, id)).toMatchObject({ status: "waiting" });
    expect(await statesOf(of, id)).toEqual(["waiting"]);
    await of.admin(`/admin/v1/runs/${id}/cancel`, { method: "POST" });
    expect(await statesOf(of, id)).toEqual(["denied"]);
    expect(mail.sent).toEqual([]);
  });
});

describe("a call of unknown outcome in a turn of an API user", () => {
  it("is not made again: the model learns of it, and the run has a warning", async () => {
    mail.watch = ({ kind, index }, moment) => {
      if (kind === "mail" && moment === "before" && index === 1) throw new Error("cut");
    };
    const key = "rk_mail-key-0123456789-0123456789";
    const of = await start({ platform: { apiKeys: [{ id: "desk", key }] } });
    const answer = await fetch(`${of.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "post", messages: [{ role: "user", content: "Mail them." }] }),
    });
    const { choices } = (await answer.json()) as { choices: { message: { content: string } }[] };
    expect([answer.status, choices[0]?.message.content]).toEqual([200, ALL_SENT]);
    expect(countMails(mail.sent)).toEqual(ONCE);
    expect(JSON.stringify(mail.requests[2]?.messages.at(-1))).toContain(
      "no answer came: it may have been carried out, or not",
    );
    const [run] = (await of.admin("/admin/v1/runs")).body.runs as Run[];
    expect(run).toMatchObject({
      status: "succeeded",
      warnings: ["the outcome of a call of post.send is not known: this was reported to the model"],
    });
  });
});
