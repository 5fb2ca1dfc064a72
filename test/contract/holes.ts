import { holesIn } from "../../src/testing/holes.ts";

/** The same body with every text that itself looks like a hole replaced: what is found then is the template's. */
export function withoutHoles(value: unknown): unknown {
  if (typeof value === "string") return value !== "" && holesIn(value).length > 0 ? "words" : value;
  if (Array.isArray(value)) return value.map(withoutHoles);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, withoutHoles(member)]),
  );
}

type Members = Record<string, unknown>;

function pathsBelow(value: unknown): string[][] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [
    [name],
    ...pathsBelow(member).map((rest) => [name, ...rest]),
  ]);
}

interface Changed {
  change: string;
  body: unknown;
}

const parentIn = (root: unknown, path: readonly string[]): Members =>
  path.slice(0, -1).reduce((at, step) => (at as Members)[step], root) as Members;

/** The body with each of the values in the place of one field; `undefined` leaves the field out. */
function* withValues(
  body: unknown,
  path: readonly string[],
  values: readonly unknown[],
): Generator<Changed> {
  const name = path.at(-1) as string;
  for (const value of values) {
    const changed = structuredClone(body);
    if (value === undefined) delete parentIn(changed, path)[name];
    else parentIn(changed, path)[name] = value;
    yield { change: `${path.join(".")}: ${JSON.stringify(value) ?? "left out"}`, body: changed };
  }
}

/** Every body that differs from the given one by one field whose name `uses` accepts: left out, null, or empty. */
export function* withOneFieldLess(
  body: unknown,
  uses: (name: string) => boolean,
): Generator<Changed> {
  for (const path of pathsBelow(body)) {
    const name = path.at(-1) as string;
    const value = parentIn(body, path)[name];
    if (Array.isArray(parentIn(body, path)) || !uses(name)) continue;
    yield* withValues(body, path, [
      undefined,
      null,
      ...(typeof value === "string" ? [""] : []),
      ...(Array.isArray(value) ? [[]] : []),
    ]);
  }
}

/** Values of every type, which senders may put where another type is documented. */
const VALUES = [
  null,
  0,
  7.5,
  1e300,
  true,
  "",
  "words",
  [],
  [7],
  [null],
  ["a", "b"],
  [{}],
  { a: 1 },
];

/** Every body that differs from the given one by the type of one field or member. `seen` has the places that are done. */
export function* withOneOtherType(body: unknown, seen: Set<string>): Generator<Changed> {
  for (const path of pathsBelow(body)) {
    const place = path.join(".").replaceAll(/(?<=^|\.)\d+(?=\.|$)/g, "0");
    if (seen.has(place)) continue;
    seen.add(place);
    yield* withValues(body, path, VALUES);
  }
}
