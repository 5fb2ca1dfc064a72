import { expect } from "vitest";

const OPEN = /<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>/g;
const CLOSE = /<<<END_EXTERNAL_CONTENT ([0-9a-f]{32})>>>/g;
const PAIR = /<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>([^]*?)<<<END_EXTERNAL_CONTENT \1>>>/g;

/** All texts of a value, the names of its fields included. Texts that are JSON themselves count as what they hold, too. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, field]) => [name, ...textsOf(field)]);
}

/**
 * Divides the texts of a request to a model into those inside the boundary and those outside. All markers must be pairs with
 * the id of one of its `turns`: a past turn keeps its own id.
 */
export function divide(
  body: unknown,
  turns = 1,
): { inside: string; outside: string; ids: Set<string> } {
  const texts = textsOf(body);
  const ids = new Set<string>();
  let inside = "";
  let outside = "";
  for (const text of texts) {
    const [opened, closed] = [OPEN, CLOSE].map((pattern) =>
      [...text.matchAll(pattern)].map((found) => found[1] as string),
    );
    expect(opened).toEqual(closed);
    for (const id of opened ?? []) ids.add(id);
    for (const found of text.matchAll(PAIR)) inside += `${found[2]}\n`;
    outside += `${text.replace(PAIR, "")}\n`;
  }
  expect(ids.size).toBeLessThanOrEqual(turns);
  // The rule in the instructions names the markers with the word "id".
  expect(inside + outside.replace(/<<<(?:END_)?EXTERNAL_CONTENT id>>>/g, "")).not.toMatch(
    /<(?:END_)?EXTERNAL_CONTENT|\[SYSTEM_PROMPT\]/,
  );
  return { inside, outside, ids };
}
