import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Proposal, ProposalLine } from "../../src/operate/proposals/proposals.ts";
import { ANSWER, createProposeWorld, type ProposeWorld } from "./propose-world.ts";

const SMALL = {
  id: "other",
  match: { path: "shop", payload: { type: "refund", total: { $lt: 0 } } },
  messageTemplate: "Other {{id}}",
};
const BIG = {
  id: "big",
  match: { path: "shop", payload: { type: "order", total: { $gte: 100 } } },
  messageTemplate: "Big order {{id}}",
};

let world: ProposeWorld;
/** The model's answer: it moves the limit. */
const WIDER = {
  ...ANSWER,
  sessionField: null,
  conditions: [
    { in: "payload", field: "type", operator: "$eq", values: ["order"] },
    { in: "payload", field: "total", operator: "$gte", values: [40] },
  ],
};
beforeAll(async () => void (world = await createProposeWorld()));
afterAll(() => world.close());
const open = async (...mappings: object[]): Promise<void> => {
  await world.renew(mappings);
  world.answers.splice(0, 1, WIDER);
};

async function propose(body: object): Promise<{ reasons: unknown; proposal: Proposal }> {
  const text = await (await world.admin("/proposals", body)).text();
  const lines = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as ProposalLine);
  const [plan, end] = [lines[0], lines.at(-1)];
  if (plan?.type !== "plan" || end?.type !== "end" || !end.ok) throw new Error(text);
  return { reasons: plan.plan.mends?.reasons, proposal: end.proposal };
}

describe("a proposal that mends the nearest mapping", () => {
  it("of an event that none takes: says which condition failed and why, shows the change, and writes nothing", async () => {
    await open(SMALL, BIG);
    const events = await world.post("shop", { type: "order", id: 7, total: 40 });
    const { reasons, proposal } = await propose({ fix: true, events });
    expect(reasons).toEqual([
      { condition: "match.payload.total", reason: expect.stringContaining("40") },
    ]);
    expect(proposal).toMatchObject({
      mapping: "big",
      problems: [],
      events: [{ isTaken: true, takenBefore: null }],
      fixtures: [],
      whatIf: null,
    });
    const { before = "", after = "", diff = "" } = proposal.edit ?? {};
    expect(JSON.parse(before)).toEqual(BIG);
    expect(JSON.parse(after)).toEqual({
      ...BIG,
      match: { path: "shop", payload: { type: "order", total: { $gte: 40 } } },
    });
    expect(diff).toMatch(/^diff --git a\/rouse\.json5[^]*\n\+/);
    expect(await world.listFixtures("shop").catch(() => [])).toEqual([]);
  });

  it("of an event that the wrong mapping took: says that this mapping still takes it before", async () => {
    await open({ id: "all", match: { path: "shop" }, messageTemplate: "Any {{id}}" }, BIG);
    const events = await world.post("shop", { type: "order", id: 7, total: 40 });
    const { proposal } = await propose({ fix: true, events });
    expect(proposal).toMatchObject({
      mapping: "big",
      events: [{ isTaken: true, takenBefore: "all" }],
    });
  });

  it("on the command line: `--fix` alone, with the reason and the change", async () => {
    await open(SMALL, BIG);
    const events = await world.post("shop", { type: "order", id: 7, total: 40 });
    const { code, out } = await world.propose("--fix --yes --event", ...events);
    expect(code).toBe(0);
    expect(out).toMatch(/mends big, which does not take them:\n {2}match\.payload\.total: .*40/);
    expect(out).toMatch(/\n\+.*\$gte.*40/);
    await world.post("shop", { type: "order", id: 8, total: 41 });
    expect(await world.countRuns("big")).toBe(1);
  });

  it("is refused with the reason if no mapping is near", async () => {
    await open({ ...BIG, match: { path: "shop", payload: { type: { $regex: "^x" } } } });
    const events = await world.post("shop", { type: "x1", id: 8 });
    const near = await world.admin("/proposals", { fix: true, events });
    expect([near.status, await near.text()]).toEqual([
      400,
      expect.stringContaining("no mapping of your files is near"),
    ]);
  });

  it("of a path that no mapping has: gives the text of a file that is not written", async () => {
    await open(BIG);
    const events = await world.post("crm", { type: "deal", id: 7 });
    const { proposal } = await propose({ name: "crm", write: false, model: false, events });
    expect(JSON.parse(proposal.text)).toMatchObject({
      mappings: [{ id: "crm.event", match: { path: "crm", payload: { type: "deal" } } }],
    });
    expect([world.hasWritten("crm"), proposal.fixtures]).toEqual([false, []]);
  });
});
