import type { LintedMapping } from "./covering.ts";
import { getReadFields } from "./read-fields.ts";
import { countAround, type Shape } from "./shape.ts";

/** So many bodies without a field that nearly all bodies before them had. */
const ENOUGH = 20;
const NEARLY_ALL = 0.95;

/** Fields that are gone, each with the time of the last body that had it. What lay inside of one is left out. */
function findGone(shape: Shape): { name: string; lastSeen: number }[] {
  const gone = [...shape.fields].filter(([name, { events, around }]) => {
    if (name.endsWith("[]") || name.includes("*")) return false;
    return (
      around >= ENOUGH &&
      events / around >= NEARLY_ALL &&
      countAround(shape, name) - around >= ENOUGH
    );
  });
  return gone.map(([name, { lastSeen }]) => ({ name, lastSeen }));
}

/** Made when a date is said: loading the names of months takes a part of each start. */
const renderDay = (at: number): string =>
  new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", timeZone: "UTC" }).format(at);

/** A field that bodies no longer have, and a mapping that reads it. */
export interface BodyChange {
  mapping: string;
  message: string;
}

/** Says of each field that bodies of a path no longer have, and that mappings read: since when, and how many of them. */
export function findBodyChanges(
  mappings: readonly LintedMapping[],
  shapes: ReadonlyMap<string, Shape>,
): BodyChange[] {
  return [...shapes.values()].flatMap((shape) => {
    const gone = findGone(shape);
    if (gone.length === 0) return [];
    const readers = mappings.filter(
      ({ config, info }) => config.enabled && info.paths.includes(shape.path),
    );
    const reads = readers.map(({ config, info }) => ({
      id: info.id,
      fields: [...getReadFields(config)],
    }));
    return gone.flatMap(({ name, lastSeen }) => {
      const field = name.replaceAll("[]", "").replaceAll("`", "");
      const [first, ...more] = reads.filter(({ fields }) =>
        fields.some((read) => read === field || read.startsWith(`${field}.`)),
      );
      if (!first) return [];
      const count = more.length + 1;
      const message = `${shape.path}: ${name} is gone since ${renderDay(lastSeen)}, ${count} ${count === 1 ? "mapping reads" : "mappings read"} it`;
      return [{ mapping: first.id, message }];
    });
  });
}
