import { expect, it } from "vitest";
import type { Effect } from "../../src/intake/resolve.ts";
import type { ValidItem } from "../../src/intake/types.ts";
import { compareEffects, type ChangeKind } from "../../src/operate/what-if/changes.ts";
import type { HookSpec } from "../../src/store/types.ts";
import { runAction } from "../http/admin-world.ts";

type Changed = Omit<Partial<ValidItem>, "action"> & { spec?: Partial<HookSpec> };

/** The run that a mapping makes of an event. */
function make(mapping: string, { spec, ...more }: Changed = {}): ValidItem {
  const action = runAction();
  return {
    action: { ...action, mapping, spec: { ...action.spec, ...spec } },
    ok: true,
    missing: [],
    ...more,
  };
}
const toEffect = (
  outcome: Effect["outcome"],
  mapping: string | null,
  ...actions: ValidItem[]
): Effect => ({ outcome, mapping, reason: null, actions, shadow: [], missing: [] });
const compare = (before: Effect, after: Effect, unchanged: string[] = []) =>
  compareEffects(before, after, {
    unchanged: new Set(unchanged),
    isSameSession: (a, b) => a.endsWith("by chance") && b.endsWith("by chance"),
  });

const NONE = toEffect("unmatched", null);
const ONE = toEffect("accepted", "order", make("order"));
const TWO = toEffect("accepted", "order", make("order"), make("copy"));
const VIP = toEffect("accepted", "vip", make("vip"));
const REJECTED = toEffect("rejected", "order");
const SKIPPED = toEffect("skipped", "order");

it.each<[ChangeKind, string, before: Effect, after: Effect]>([
  ["starts", "order", NONE, ONE],
  ["starts", "copy", ONE, TWO],
  ["stops", "order", ONE, NONE],
  ["stops", "copy", TWO, ONE],
  ["other-mapping", "vip", ONE, VIP],
  ["other-mapping", "order", NONE, SKIPPED],
  ["rejected", "order", ONE, REJECTED],
  ["rejected", "order", NONE, REJECTED],
  ["outcome", "order", REJECTED, SKIPPED],
])("compareEffects: %s, by %s", (kind, mapping, before, after) => {
  expect(compare(before, after)).toMatchObject([{ kind, mapping }]);
});

const BATCH: NonNullable<ValidItem["batch"]> = {
  key: "all",
  windowSeconds: 1,
  maxSeconds: 10,
  maxEvents: 10,
  event: { at: 0, payload: "{}", headers: {}, query: {}, path: "p" },
};
const SESSION = { agentId: "main", origin: "hook", key: "hook:1" } as const;

it.each<[ChangeKind, Changed, values: Record<string, [before: unknown, after: unknown]>]>([
  ["text", { spec: { input: [{ text: "Bye", outside: true }] } }, { message: ["Hi", "Bye"] }],
  ["text", { spec: { input: [{ text: "Hi", outside: false }] } }, { marked: ["⟦Hi⟧", "Hi"] }],
  ["text", { spec: { unsafe: true } }, { boundary: [true, false] }],
  ["session", { spec: { session: { ...SESSION, key: "a:1" } } }, { session: ["hook:1", "a:1"] }],
  ["recipient", { spec: { target: { channel: "last", to: "me" } } }, { to: [null, "me"] }],
  ["recipient", { spec: { deliver: false } }, { deliver: [true, false], channel: ["last", null] }],
  ["agent", { spec: { session: { ...SESSION, agentId: "ops" } } }, { agent: ["main", "ops"] }],
  ["model", { spec: { thinking: "high" } }, { thinking: [null, "high"] }],
  ["key", { key: { scope: "p|order", key: "3" } }, { dedupeKey: [null, "3"] }],
  ["key", { batch: BATCH }, { batchKey: [null, "all"] }],
  ["missing", { missing: ["discount"] }, { missing: [[], ["discount"]] }],
])("compareEffects: %s of one action, %j", (kind, changed, values) => {
  const next = toEffect("accepted", "order", make("order", changed));
  const [before, after] = [0, 1].map((side) =>
    Object.fromEntries(Object.entries(values).map(([name, pair]) => [name, pair[side]])),
  );
  expect(compare(ONE, next)).toEqual([{ kind, mapping: "order", before, after }]);
  // A difference of a mapping whose text is the same is chance.
  expect(compare(ONE, next, ["order"])).toEqual([]);
});

it("compareEffects: sessions that mean the same are no change", () => {
  const [before, after] = ["1 by chance", "2 by chance"].map((key) =>
    toEffect("accepted", "order", make("order", { spec: { session: { ...SESSION, key } } })),
  ) as [Effect, Effect];
  expect(compare(before, after)).toEqual([]);
});
