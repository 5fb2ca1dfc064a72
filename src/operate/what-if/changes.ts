import { markOutside, plainText } from "../../core/text.ts";
import type { Effect } from "../../intake/resolve.ts";
import type { ValidItem } from "../../intake/types.ts";

/** The end of a session key that is made for each event. */
export const UUID_END = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;

/** The fields of an action by which two actions are compared. `message` is marked where only the marks can differ. */
interface ComparedFields {
  action: "agent" | "wake";
  message: string;
  /** The message with what came from outside between ⟦ and ⟧. */
  marked: string;
  [name: string]: string | number | boolean | null;
}

/** Lists the fields of an action, each with its value or null, as the run would have them. */
export function getFields({ action, key, batch }: ValidItem): ComparedFields {
  const [dedupeKey, batchKey] = [key?.key ?? null, batch?.key ?? null];
  if (action.kind === "wake") {
    const { text, agentId, mode, unsafe } = action;
    const message = plainText(text);
    return {
      action: "wake",
      message,
      marked: markOutside(text),
      agent: agentId,
      wakeMode: mode,
      boundary: !unsafe,
      dedupeKey,
      batchKey,
    };
  }
  const { session, input, name, deliver, target, unsafe, ...spec } = action.spec;
  return {
    action: "agent",
    name,
    message: plainText(input),
    marked: markOutside(input),
    instructions: spec.instructions ?? null,
    boundary: !unsafe,
    session: session.key,
    agent: session.agentId,
    model: spec.model ?? null,
    thinking: spec.thinking ?? null,
    timeoutSeconds: spec.timeoutSeconds ?? null,
    wakeMode: spec.wakeMode,
    deliver,
    channel: deliver ? target.channel : null,
    to: deliver ? (target.to ?? null) : null,
    dedupeKey,
    batchKey,
  };
}

/** In what two effects of one event can differ, in words for operators. */
export const CHANGE_TEXTS = {
  starts: "starts a run",
  stops: "stops",
  "other-mapping": "another mapping takes it",
  rejected: "is rejected",
  text: "text changes",
  session: "session changes",
  recipient: "recipient changes",
  agent: "agent changes",
  model: "model or its settings change",
  key: "key of duplicates or batches changes",
  missing: "new missing fields",
  outcome: "outcome changes, without a run",
} as const;
export type ChangeKind = keyof typeof CHANGE_TEXTS;

/** Values of a change, by the names of their fields. For operators only: they quote the event. */
export type ChangeValues = Record<string, unknown>;

/** One difference. `mapping`: whose action it is; null if no mapping takes the event. */
export interface Change {
  kind: ChangeKind;
  mapping: string | null;
  before: ChangeValues;
  after: ChangeValues;
  /** The action that starts, or that does not. */
  action?: ValidItem;
}

/** The fields that each kind of change compares. */
const FIELDS = {
  text: ["message", "marked", "name", "instructions", "boundary"],
  session: ["session"],
  recipient: ["deliver", "channel", "to"],
  agent: ["action", "agent"],
  model: ["model", "thinking", "timeoutSeconds", "wakeMode"],
  key: ["dedupeKey", "batchKey"],
} as const satisfies Partial<Record<ChangeKind, readonly string[]>>;

const MAX_TEXT = 2000;
const cut = (value: unknown): unknown =>
  typeof value === "string" && value.length > MAX_TEXT
    ? `${value.slice(0, MAX_TEXT)}… (${value.length} characters)`
    : value;

const getMapping = ({ action }: ValidItem): string | null => action.mapping ?? null;

const pick = (fields: Partial<ComparedFields>, names: readonly string[]): ChangeValues =>
  Object.fromEntries(names.map((name) => [name, cut(fields[name] ?? null)]));

/** Describes an action that starts, stops, or is another mapping's. */
function describeAction(made: ValidItem): ChangeValues {
  const { marked: _marked, message, ...fields } = getFields(made);
  const given = Object.entries(fields).filter(([, value]) => value !== null);
  return { mapping: getMapping(made), ...Object.fromEntries(given), message: cut(message) };
}

const describeOutcome = ({ outcome, mapping, reason, missing }: Effect): ChangeValues => ({
  outcome,
  mapping,
  reason,
  ...(missing.length > 0 && { missing }),
});

const isRefusal = ({ outcome }: Effect): boolean => outcome === "rejected" || outcome === "failed";

/** Compares the fields of an action that one mapping makes before and after. `isSame` says of two session keys that they mean the same. */
function compareFields(
  before: ValidItem,
  after: ValidItem,
  isSameSession: (a: string, b: string) => boolean,
): Change[] {
  const [old, next]: [Partial<ComparedFields>, Partial<ComparedFields>] = [
    getFields(before),
    getFields(after),
  ];
  if (
    old["session"] &&
    next["session"] &&
    isSameSession(String(old["session"]), String(next["session"]))
  )
    next["session"] = old["session"];
  // The marks are shown only if nothing else of the message differs.
  if (old.message !== next.message) next.marked = old.marked ?? "";
  const mapping = getMapping(after);
  const changes = Object.entries(FIELDS).flatMap(([kind, names]): Change[] => {
    const differing = names.filter((name) => (old[name] ?? null) !== (next[name] ?? null));
    if (differing.length === 0) return [];
    return [
      {
        kind: kind as ChangeKind,
        mapping,
        before: pick(old, differing),
        after: pick(next, differing),
      },
    ];
  });
  return [...changes, ...compareMissing(mapping, before, after)];
}

type WithMissing = Pick<Effect, "missing">;

/** Compares the template expressions that find nothing. Those that find something by now are no change. */
function compareMissing(mapping: string | null, before: WithMissing, after: WithMissing): Change[] {
  const isNew = after.missing.some((expression) => !before.missing.includes(expression));
  const [old, next] = [{ missing: before.missing }, { missing: after.missing }];
  return isNew ? [{ kind: "missing", mapping, before: old, after: next }] : [];
}

/** Takes for each action of `actions` the first of `others` that `fits`, out of `others`. */
function pair(
  actions: readonly ValidItem[],
  others: ValidItem[],
  fits: (a: ValidItem, b: ValidItem) => boolean,
): { pairs: [ValidItem, ValidItem][]; rest: ValidItem[] } {
  const pairs: [ValidItem, ValidItem][] = [];
  const rest = actions.filter((action) => {
    const at = others.findIndex((other) => fits(action, other));
    const [found] = at < 0 ? [] : others.splice(at, 1);
    if (found) pairs.push([action, found]);
    return !found;
  });
  return { pairs, rest };
}

interface CompareOptions {
  /** Mappings that are written alike on both sides: what a transform makes by chance is no change. */
  unchanged: ReadonlySet<string>;
  isSameSession(a: string, b: string): boolean;
}

/** Compares what becomes of an event. No change: an empty list. */
export function compareEffects(
  before: Effect,
  after: Effect,
  { unchanged, isSameSession }: CompareOptions,
): Change[] {
  const others = [...after.actions];
  const same = pair(before.actions, others, (a, b) => getMapping(a) === getMapping(b));
  const moved = pair(same.rest, others, () => true);
  const fields = same.pairs
    .filter(([, next]) => !unchanged.has(getMapping(next) ?? ""))
    .flatMap(([old, next]) => compareFields(old, next, isSameSession));
  const changes: Change[] = [
    ...moved.pairs.map(([old, next]): Change => ({
      kind: "other-mapping",
      mapping: getMapping(next),
      before: describeAction(old),
      after: describeAction(next),
    })),
    ...others.map((next): Change => ({
      kind: "starts",
      mapping: getMapping(next),
      before: describeOutcome(before),
      after: describeAction(next),
      action: next,
    })),
    ...moved.rest.map((old): Change => ({
      kind: isRefusal(after) ? "rejected" : "stops",
      mapping: isRefusal(after) ? after.mapping : getMapping(old),
      before: describeAction(old),
      after: describeOutcome(after),
      action: old,
    })),
    ...fields,
  ];
  return before.actions.length === 0 && after.actions.length === 0
    ? compareOutcomes(before, after)
    : changes;
}

/** Compares two effects without actions. */
function compareOutcomes(before: Effect, after: Effect): Change[] {
  const isOther = before.mapping !== after.mapping;
  if (!isOther && before.outcome === after.outcome)
    return compareMissing(after.mapping, before, after);
  const kind =
    isRefusal(after) && !isRefusal(before) ? "rejected" : isOther ? "other-mapping" : "outcome";
  return [
    {
      kind,
      mapping: after.mapping,
      before: describeOutcome(before),
      after: describeOutcome(after),
    },
  ];
}
