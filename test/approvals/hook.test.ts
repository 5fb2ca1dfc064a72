import { rmSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { parseJsonToPrint } from "../../src/core/json.ts";
import { approvalWorld, createFastClock, transferOnce, type ApprovalWorld } from "./world.ts";

let world: ApprovalWorld;
afterEach(async () => {
  await world.close();
  rmSync(world.dir, { recursive: true, force: true });
});

const DAY = 86_400_000;
const AGENT = { approve: ["bank.transfer"] };
const order = async (more: object = {}): Promise<string> =>
  world.orderRun({ message: "Pay the order.", ...more });
const decide = (code: string, body: object) =>
  world.admin(`/admin/v1/approvals/${code}`, { method: "POST", body: JSON.stringify(body) });
const showRun = async (id: string) => (await world.admin(`/admin/v1/runs/${id}`)).body.run;

describe("a hook whose agent calls a tool in `approve`", () => {
  it("waits, survives a restart, is approved on the command line, and the tool sees one call", async () => {
    world = await approvalWorld({ agent: AGENT });
    const runId = await order();
    const [asked] = await world.open();
    expect(asked).toMatchObject({
      runId,
      tool: "bank.transfer",
      reason: "rule",
      input: { to: "ACME", amount: 50 },
    });
    expect(asked?.code).toMatch(/^[2-9a-f]{3,}$/);
    expect((await showRun(runId)).status).toBe("waiting");
    await world.restart();
    const { out: list } = await world.rouse("approvals");
    expect(list).toContain(asked?.code);
    const { out: shown } = await world.rouse("approvals", asked?.code as string);
    expect(shown).toContain('"to": "ACME"');
    expect(shown).toContain('Calls of bank.transfer need approval: `approve` has "bank.transfer".');
    expect(world.bank.calls).toEqual([]);
    const approved = await world.rouse("approvals", "decide", asked?.code as string, "approve");
    expect(approved).toMatchObject({
      code: 0,
      out: expect.stringContaining("approve by operator"),
    });
    expect(await world.runEnded(runId)).toMatchObject({
      status: "succeeded",
      reply: expect.stringContaining("It was sent."),
    });
    expect(world.bank.calls).toEqual([
      { tool: "transfer", input: { to: "ACME", amount: 50 }, callId: asked?.callId },
    ]);
    const again = await world.rouse("approvals", "decide", asked?.code as string, "deny");
    expect(again).toMatchObject({
      code: 1,
      err: expect.stringContaining("was decided before (approved by operator"),
    });
    expect(world.bank.calls).toHaveLength(1);
  });

  it("shows and makes the call with all digits that the model wrote, and a rule covers no other", async () => {
    world = await approvalWorld({ agent: AGENT });
    const callWith = (digits: string): void => {
      const input = parseJsonToPrint(`{"order":${digits},"amount":19.90}`) as object;
      world.model.handler = transferOnce(input);
    };
    callWith("12345678901234567891");
    const first = await order();
    const [asked] = await world.open();
    const exact = { order: "12345678901234567891", amount: 19.9 };
    expect(asked).toMatchObject({ input: exact });
    const always = { verdict: "approve", always: { any: [] } };
    expect((await decide(asked?.code as string, always)).status).toBe(200);
    expect((await world.runEnded(first)).status).toBe("succeeded");
    expect(world.bank.calls).toMatchObject([{ input: exact }]);
    const [step] = (await world.admin(`/admin/v1/runs/${first}/steps`)).body.steps;
    expect(step.calls[0].input).toEqual(exact);
    // To JavaScript it is the same number.
    callWith("12345678901234567892");
    await order();
    expect(await world.open()).toMatchObject([{ input: { order: "12345678901234567892" } }]);
  });

  it("is denied: the model gets the person's words, and the tool is not called", async () => {
    world = await approvalWorld({ agent: AGENT });
    const runId = await order();
    const [asked] = await world.open();
    expect(
      (
        await world.rouse(
          "approvals",
          "decide",
          asked?.code as string,
          "deny",
          "--note",
          "Ask Ann first.",
        )
      ).code,
    ).toBe(0);
    expect(await world.runEnded(runId)).toMatchObject({ status: "succeeded" });
    expect(world.lastRequest()).toContain("a person denied it. Their words: Ask Ann first.");
    expect(world.bank.calls).toEqual([]);
  });

  it("continues without the call once approvalTimeout is over, however long that is", async () => {
    const clock = createFastClock();
    world = await approvalWorld({
      agent: AGENT,
      clock,
      config: { tools: { approvalTimeout: "3d" }, delivery: { maxAge: "1h" } },
    });
    const runId = await order();
    const [asked] = await world.open();
    // The queue's timer is a real one: a gateway that starts looks at the clock.
    clock.advance(2.9 * DAY);
    await world.restart();
    expect((await showRun(runId)).status).toBe("waiting");
    clock.advance(0.2 * DAY);
    await world.restart();
    expect(await world.runEnded(runId)).toMatchObject({ status: "succeeded" });
    expect(world.lastRequest()).toContain("no decision was made in time");
    expect(world.bank.calls).toEqual([]);
    expect(await decide(asked?.code as string, { verdict: "approve" })).toMatchObject({
      status: 409,
      body: { error: { code: "approval_expired" } },
    });
  });

  it("is shown by doctor and readyz", async () => {
    world = await approvalWorld({ agent: AGENT });
    await order();
    const [asked] = await world.open();
    expect((await world.rouse("doctor")).out).toContain(
      `calls that wait for approval: 1; ${asked?.code} (bank.transfer by the agent main)`,
    );
    const ready = await world.admin("/readyz?detail");
    expect(ready.body.approvals).toMatchObject([
      { code: asked?.code, tool: "bank.transfer", agentId: "main" },
    ]);
  });
});

describe("what needs no approval", () => {
  it("a rule of --always covers the next call with the same arguments, also after a restart, and no other", async () => {
    world = await approvalWorld({ agent: AGENT });
    const first = await order();
    const [asked] = await world.open();
    const refused = await world.rouse(
      "approvals",
      "decide",
      asked?.code as string,
      "approve",
      "--always",
      "--any",
      "amount",
    );
    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        'bank.transfer by the agent main, if to is "ACME" and amount is anything',
      ),
    });
    const { out } = await world.rouse(
      "approvals",
      "decide",
      asked?.code as string,
      "approve",
      "--always",
      "--any",
      "amount",
      "--yes",
    );
    expect(out).toContain("saved: bank.transfer by the agent main");
    await world.runEnded(first);
    await world.restart();
    world.model.handler = (await import("./world.ts")).transferOnce({ to: "ACME", amount: 70 });
    expect(await world.runEnded(await order())).toMatchObject({ status: "succeeded" });
    expect(world.bank.calls.map(({ input }) => input)).toEqual([
      { to: "ACME", amount: 50 },
      { to: "ACME", amount: 70 },
    ]);
    world.model.handler = (await import("./world.ts")).transferOnce({ to: "EVIL", amount: 70 });
    await order();
    expect(await world.open()).toHaveLength(1);
    const { out: rules } = await world.rouse("approvals", "--rules");
    const id = /rul_\S+/.exec(rules)?.[0] as string;
    expect((await world.rouse("approvals", "--rules", "--remove", id)).code).toBe(0);
    expect((await world.rouse("approvals", "--rules")).out).not.toContain("rul_");
    expect(world.bank.calls).toHaveLength(2);
  });

  it("a tool that the mapping names is not asked about in its runs, and no other tool is offered", async () => {
    world = await approvalWorld({
      hooks: {
        tools: [],
        mappings: [
          {
            match: { path: "pay" },
            messageTemplate: "{{order}}",
            deliver: false,
            wakeMode: "next-heartbeat",
            tools: ["bank.transfer"],
          },
        ],
      },
    });
    const { body } = await world.post("/hooks/pay", { order: "7" });
    expect(await world.runEnded(body.runId)).toMatchObject({ status: "succeeded" });
    expect(world.bank.calls).toHaveLength(1);
    const tools = (world.model.requests[0]?.body.tools ?? []).map(
      (tool: { function: { name: string } }) => tool.function.name,
    );
    expect(tools).toEqual(["bank__transfer"]);
    // A hook without a mapping of its own has what hooks.tools names: nothing.
    world.model.handler = () => ({ text: "No." });
    await world.runEnded(await order());
    expect(world.model.requests.at(-1)?.body.tools ?? []).toEqual([]);
  });

  it("a mapping's `approve` adds to the agent's", async () => {
    world = await approvalWorld({
      hooks: {
        mappings: [
          {
            match: { path: "pay" },
            messageTemplate: "{{order}}",
            deliver: false,
            wakeMode: "next-heartbeat",
            approve: ["*:changing"],
          },
        ],
      },
    });
    await world.post("/hooks/pay", { order: "7" });
    expect(await world.open()).toMatchObject([
      { reason: "rule", why: expect.stringContaining('"*:changing"') },
    ]);
    expect(world.bank.calls).toEqual([]);
  });
});
