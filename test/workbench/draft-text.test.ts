import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TextEvaluation } from "../../src/workbench/text-evaluation.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const LIVE = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}}",
};
/** Replaces a mapping of the config, and adds another one. */
const DRAFT = `{
  id: "shop-fix", // ours
  mappings: [
    { id: "order", match: { path: "shop", payload: { type: ["order", "sale"] } }, messageTemplate: "Order {{id}}" },
    { id: "refund", match: { path: "shop", payload: { type: "refund" } }, messageTemplate: "Refund {{id}}" },
  ],
}
`;

let world: World;
beforeEach(async () => {
  world = await createWorld({
    workers: false,
    config: { hooks: { mappings: [LIVE] } },
    files: { "mappings/drafts/shop-fix.json5": DRAFT },
  });
});
afterEach(() => world.stop());

const post = (path: string, body: object): Promise<Answer> =>
  world.admin(`/admin/v1${path}`, { method: "POST", body: JSON.stringify(body) });
const change = (text: string, from?: string) => ({
  kind: "draft-text",
  name: "shop-fix",
  text,
  ...(from === undefined ? {} : { from }),
});
const evaluate = async (text: string, event?: string): Promise<TextEvaluation> =>
  (await post("/changes/evaluate", { change: change(text), event })).body
    .evaluation as TextEvaluation;
const readDraft = (): string =>
  readFileSync(join(world.dir, "mappings/drafts/shop-fix.json5"), "utf8");
const send = async (type: string): Promise<string> =>
  (await world.post("/hooks/shop", { type, id: 7 })).body.eventId as string;

describe("the text of a draft", () => {
  it("is evaluated as if it were accepted: each mapping in its place, with its conditions and problems in the text", async () => {
    const sale = await send("sale");
    const good = await evaluate(DRAFT, sale);
    expect(good).toMatchObject({
      mapping: "order",
      problems: [],
      result: { outcome: "actions", mapping: "order" },
    });
    const marks = good.marks.map(({ at, result }) => [DRAFT.slice(at.start, at.end), result]);
    expect(marks).toContainEqual(["type: [", true]);
    expect(marks).toContainEqual(['type: "refund"', false]);
    const broken = DRAFT.replace("Refund {{id}}", "Refund {{id + }}");
    const { problems } = await evaluate(broken, sale);
    expect(problems[0]).toMatchObject({
      path: "mappings[1].messageTemplate",
      message: expect.stringContaining("JSONata"),
    });
    expect(problems[0]?.at?.start).toBeGreaterThan(broken.indexOf("Refund {{"));
    const unknown = (
      await evaluate(DRAFT.replace('id: "shop-fix"', 'id: "shop-fix", wrong: 1'), sale)
    ).problems;
    expect(unknown[0]?.message).toBeDefined();
    expect((await world.admin(`/admin/v1/events/${sale}`)).body.event.outcome).toBe("unmatched");
  });

  it("is compared with recorded events, and changes nothing", async () => {
    await send("sale");
    const wider = DRAFT.replace('"sale"]', '"other"]');
    const check = (await post("/changes/check", { change: change(wider) })).body.check;
    expect(check).toMatchObject({
      problems: [],
      confirm: [],
      whatIf: { wouldRun: 0 },
      obstacle: null,
    });
    expect(check.diff).toMatch(/-.*"sale"[^]*\+.*"other"/);
    expect((await post("/changes/check", { change: change(DRAFT) })).body.check).toMatchObject({
      diff: "",
      whatIf: { wouldRun: 1 },
    });
    expect(readDraft()).toBe(DRAFT);
  });

  it("is saved as it is, also with problems; nothing is live, and no change is kept that could be taken back", async () => {
    const broken = DRAFT.replace("Refund {{id}}", "Refund {{id + }}");
    const { check } = (await post("/changes/check", { change: change(broken, DRAFT) })).body;
    expect(check.problems).toHaveLength(1);
    expect(
      (await post("/changes", { change: change(broken, DRAFT), base: check.base })).body.result,
    ).toMatchObject({ landed: true });
    expect(readDraft()).toBe(broken);
    expect((await world.admin("/admin/v1/changes")).body.versions).toEqual([]);
    expect((await world.post("/hooks/shop", { type: "refund", id: 1 })).body.runId).toBeUndefined();
    expect((await post("/changes", { change: change(DRAFT, broken) })).body.result).toMatchObject({
      landed: true,
    });
    const accepted = await post("/changes", { change: { kind: "draft", name: "shop-fix" } });
    expect(accepted.body.result).toMatchObject({ landed: true });
    expect((await world.post("/hooks/shop", { type: "refund", id: 2 })).body.runId).toMatch(
      /^run_/,
    );
  });

  it("is written as a new draft, under a name that none has", async () => {
    const text = `{ id: "sales", mappings: [{ id: "sale", match: { path: "shop", payload: { type: "sale" } }, messageTemplate: "{{id}}" }] }`;
    const added = { kind: "draft-text", name: "sales", text, new: true };
    const { check } = (await post("/changes/check", { change: added })).body;
    expect(check).toMatchObject({ problems: [], confirm: [] });
    expect((await post("/changes", { change: added, base: check.base })).body.result).toMatchObject(
      { landed: true, inUse: false },
    );
    expect(readFileSync(join(world.dir, "mappings/drafts/sales.json5"), "utf8")).toBe(text);
    expect((await post("/trials/sales", {})).status).toBe(200);
    expect((await post("/changes", { change: added })).body.error.message).toContain(
      "is there already",
    );
    expect(
      (await post("/changes", { change: { ...added, name: "Not a name" } })).body.error.message,
    ).toContain("lower-case");
    expect(
      (await post("/changes", { change: { ...added, name: "more", new: false } })).body.error.code,
    ).toBe("not_found");
  });

  it("is a conflict if the draft has another text by now, with both changes", async () => {
    const theirs = DRAFT.replace("Refund {{id}}", "A refund: {{id}}");
    world.write("mappings/drafts/shop-fix.json5", theirs);
    const mine = DRAFT.replace('"sale"]', '"other"]');
    for (const path of ["/changes/check", "/changes"]) {
      const { status, body } = await post(path, { change: change(mine, DRAFT) });
      expect([path, status, body.error?.code]).toEqual([path, 409, "conflict"]);
      expect(body.error.issues[0].detail).toMatch(/\+.*A refund/);
      expect(body.error.issues[1].detail).toMatch(/\+.*"other"/);
    }
    expect(readDraft()).toBe(theirs);
    expect((await post("/changes", { change: change(theirs, DRAFT) })).body.result).toMatchObject({
      landed: true,
    });
  });

  it("starts a trial again that is under way; a text that cannot be tried ends it", async () => {
    const trial = async () =>
      (await world.admin("/admin/v1/trials")).body.trials[0] as { matched: number; ended: unknown };
    await post("/trials/shop-fix", {});
    await send("sale");
    await world.until(async () => (await trial()).matched === 1);
    const narrow = DRAFT.replace('["order", "sale"]', '"order"');
    expect((await post("/changes", { change: change(narrow) })).body.result).toMatchObject({
      landed: true,
    });
    expect(await trial()).toMatchObject({ matched: 0, ended: null });
    await send("refund");
    await world.until(async () => (await trial()).matched === 1);
    await post("/changes", { change: change(narrow.replace("Refund {{id}}", "{{id + }}")) });
    expect(await world.until(async () => (await trial()).ended)).toMatchObject({
      reason: expect.stringContaining("the draft was changed"),
    });
  });
});

describe("the text of a live mapping that was written from another text", () => {
  it("is a conflict before and when it is saved, with both changes", async () => {
    const { text: from } = (await world.admin("/admin/v1/mappings/order")).body.mapping as {
      text: string;
    };
    const replace = (text: string) => ({
      change: { kind: "replace", mapping: "order", text, from },
    });
    const theirs = JSON.stringify({ ...LIVE, messageTemplate: "Their order {{id}}" });
    expect((await post("/changes", replace(theirs))).body.result).toMatchObject({ landed: true });
    const before = readFileSync(join(world.dir, "rouse.json5"), "utf8");
    for (const path of ["/changes/check", "/changes"]) {
      const { status, body } = await post(
        path,
        replace(JSON.stringify({ ...LIVE, messageTemplate: "My order {{id}}" })),
      );
      expect([path, status, body.error?.code]).toEqual([path, 409, "conflict"]);
      expect(
        body.error.issues.map(
          ({ detail }: { detail: string }) => /Their order|My order/.exec(detail)?.[0],
        ),
      ).toEqual(["Their order", "My order"]);
    }
    expect(readFileSync(join(world.dir, "rouse.json5"), "utf8")).toBe(before);
  });
});
