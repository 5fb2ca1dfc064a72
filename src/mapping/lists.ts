import type { Focus, Implementation } from "./jsonata-internals.ts";
import { isJsonataFunction, MAX_SEQUENCE, MAX_TEXT, tooLong, tooMany } from "./values.ts";

/** Functions of JSONata whose time grows with the square of a list: the same results in linear time. */

type Comparator = (left: unknown, right: unknown) => unknown;

/** Returns a text that is equal for equal values. Keys of objects have no order, and a function equals itself alone. */
function identity(value: unknown, left: { chars: number; functions: Map<unknown, number> }): string {
  if (isJsonataFunction(value)) {
    const number = left.functions.get(value) ?? left.functions.size;
    left.functions.set(value, number);
    return `function ${number}`;
  }
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

/** `$distinct`. JSONata's own compares each member with each. */
export const distinct = (): Implementation =>
  function distinctMembers(this: Focus, list: unknown): unknown {
    if (!Array.isArray(list) || list.length <= 1) return list;
    const seen = new Set<unknown>();
    const left = { chars: MAX_TEXT, functions: new Map<unknown, number>() };
    const kept = "sequence" in list ? this.createSequence() : [];
    for (const member of list as unknown[]) {
      const isObject = typeof member === "object" && member !== null;
      const key = isObject ? identity(member, left) : typeof member === "string" ? ` ${member}` : member;
      if (!seen.has(key)) kept.push(member);
      seen.add(key);
    }
    return kept;
  };

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

/** `$sort`: stable. JSONata's own copies the rest of the list for each member. */
export function sort(list: unknown, isAfter?: unknown): unknown {
  if (list === undefined || (list as unknown[]).length <= 1) return list;
  if (isAfter !== undefined) return Array.isArray(list) ? mergeSort(list as unknown[], isAfter as Comparator) : list;
  const hasOnly = (type: string): boolean => Array.isArray(list) && list.every((member) => typeof member === type && !Number.isNaN(member));
  if (!hasOnly("number") && !hasOnly("string")) throw Object.assign(new Error("not sortable"), { code: "D3070", index: 1 });
  return (list as string[]).toSorted((a, b) => (a > b ? 1 : a < b ? -1 : 0));
}

/** `$spread`, given JSONata's own for what is not a list. It copies what it has so far for each member of one. */
export const spread = (own: Implementation): Implementation =>
  function spreadAll(this: Focus, value: unknown): unknown {
    if (!Array.isArray(value)) return own.call(this, value);
    const parts = (value as unknown[]).map((member) => spreadAll.call(this, member)).filter((part) => part !== undefined);
    // As JSONata has it: nothing at all is a sequence, anything else is a list.
    if (parts.length === 0) return this.createSequence();
    const all = parts.flat();
    return all.length > MAX_SEQUENCE ? tooMany() : all;
  };
