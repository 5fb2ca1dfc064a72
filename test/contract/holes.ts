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

/** Every body that differs from the given one by one field whose name `uses` accepts: left out, null, or empty. */
export function* withOneFieldLess(
  body: unknown,
  uses: (name: string) => boolean,
): Generator<{ change: string; body: unknown }> {
  for (const path of pathsBelow(body)) {
    const name = path.at(-1) as string;
    const parentIn = (root: unknown) =>
      path.slice(0, -1).reduce((at, step) => (at as Members)[step], root) as Members;
    const value = parentIn(body)[name];
    if (Array.isArray(parentIn(body)) || !uses(name)) continue;
    const changes = [
      undefined,
      null,
      ...(typeof value === "string" ? [""] : []),
      ...(Array.isArray(value) ? [[]] : []),
    ];
    for (const change of changes) {
      const changed = structuredClone(body);
      if (change === undefined) delete parentIn(changed)[name];
      else parentIn(changed)[name] = change;
      yield { change: `${path.join(".")}: ${JSON.stringify(change) ?? "left out"}`, body: changed };
    }
  }
}
