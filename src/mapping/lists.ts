import { GuardError, MAX_TEXT, tooLong } from "./functions.ts";

type Comparator = (left: unknown, right: unknown) => unknown;

/** A value as text that is the same for equal values, whatever the order of an object's keys. */
function identity(value: unknown, left: { chars: number }): string {
  if (typeof value !== "object" || value === null) {
    const text = `${typeof value} ${String(value)}`;
    if ((left.chars -= text.length) < 0) tooLong();
    return text;
  }
  if (--left.chars < 0) tooLong();
  if (Array.isArray(value)) return `[${(value as unknown[]).map((member) => JSON.stringify(identity(member, left))).join()}]`;
  const members = Object.keys(value).toSorted();
  return `{${members.map((key) => JSON.stringify([key, identity((value as Record<string, unknown>)[key], left)])).join()}}`;
}

/** Members that differ, in one pass; JSONata's own compares each with each. */
export function distinct(list: unknown): unknown {
  if (!Array.isArray(list) || list.length <= 1) return list;
  const seen = new Set<unknown>();
  const left = { chars: MAX_TEXT };
  const kept = (list as unknown[]).filter((member) => {
    const key = typeof member === "object" && member !== null ? identity(member, left) : typeof member === "string" ? ` ${member}` : member;
    return !seen.has(key) && seen.add(key);
  });
  // What a path gave is one value where one is left, as everywhere in JSONata.
  return "sequence" in list ? Object.assign(kept, { sequence: true }) : kept;
}

async function merge(left: readonly unknown[], right: readonly unknown[], isAfter: Comparator): Promise<unknown[]> {
  const merged: unknown[] = [];
  let l = 0;
  let r = 0;
  while (l < left.length && r < right.length) merged.push((await isAfter(left[l], right[r])) ? right[r++] : left[l++]);
  return [...merged, ...left.slice(l), ...right.slice(r)];
}

async function mergeSort(list: readonly unknown[], isAfter: Comparator): Promise<unknown[]> {
  if (list.length <= 1) return [...list];
  const middle = Math.floor(list.length / 2);
  return merge(await mergeSort(list.slice(0, middle), isAfter), await mergeSort(list.slice(middle), isAfter), isAfter);
}

/** Sorted, stable; `isAfter` says whether its first argument belongs behind its second. JSONata's own copies the rest for each member. */
export function sort(list: unknown[] | undefined, isAfter?: Comparator): unknown {
  if (list === undefined || list.length <= 1) return list;
  if (isAfter) return mergeSort(list, isAfter);
  const numbers = list.every((member) => typeof member === "number");
  if (!numbers && !list.every((member) => typeof member === "string"))
    throw new GuardError("sorts a list that holds neither numbers alone nor texts alone; give $sort a function");
  return (list as string[]).toSorted((a, b) => (a > b ? 1 : a < b ? -1 : 0));
}

/**
 * How much a value holds once it is written out, a part that it holds twice counted twice. What was weighed is
 * remembered: values are not changed after they were made.
 */
export function createScale(): (value: unknown) => number {
  const known = new WeakMap<object, number>();
  const weigh = (value: unknown): number => {
    if (typeof value === "string") return value.length > MAX_TEXT ? tooLong() : 1 + value.length / 10;
    // A function of the expression's own holds the frame that it was made in.
    if (typeof value !== "object" || value === null || "_jsonata_lambda" in value || "_jsonata_function" in value) return 1;
    const before = known.get(value);
    if (before !== undefined) return before;
    let weight = 1;
    if (Array.isArray(value)) for (const member of value as unknown[]) weight += weigh(member);
    else for (const key in value) weight += 1 + weigh((value as Record<string, unknown>)[key]);
    known.set(value, weight);
    return weight;
  };
  return weigh;
}
