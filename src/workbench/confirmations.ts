import { isDeepStrictEqual } from "node:util";
import JSON5 from "json5";
import type { Confirmation } from "./confirmation-names.ts";
import type { TestSummary } from "./landing-checks.ts";
import { listWrittenMappings, type MappingHome } from "./mapping-text.ts";
import type { FileChange } from "./user-files.ts";

/** What follows from the text of a change alone. */
type ConfirmedField = Exclude<Confirmation, "failing-tests">;

type Fields = Record<string, unknown>;

const isTemplate = (value: unknown): boolean => typeof value === "string" && value.includes("{{");

/** The values of a mapping that need a confirmation; undefined if it has none. In shadow, callers are let in and code is run, and no more. */
function pickConfirmed({
  shadow,
  auth,
  allowUnsafeExternalContent,
  transform,
  channel,
  to,
}: Fields): Record<ConfirmedField, unknown> {
  const recipient = shadow === true ? [] : [channel, to].filter(isTemplate);
  return {
    auth,
    allowUnsafeExternalContent:
      allowUnsafeExternalContent === true && shadow !== true ? true : undefined,
    "transform.module": (transform as Fields | undefined)?.["module"],
    recipient: recipient.length > 0 ? recipient : undefined,
  };
}

function readParts(text: string | null, home: MappingHome): Fields[] {
  if (text === null) return [];
  const mappings = listWrittenMappings(text, home).map(({ value }, index) => ({
    ...value,
    id: value["id"] ?? index,
  }));
  const document = home === "mappings" ? JSON5.parse<Fields | null>(text) : undefined;
  return [
    ...mappings,
    ...(document?.["auth"] === undefined ? [] : [{ id: null, auth: document["auth"] }]),
  ];
}

/** Finds fields that a change of a file sets, or sets to something else, and that must be confirmed. */
function findFields(
  { before, after }: Pick<FileChange, "before" | "after">,
  home: MappingHome,
): ConfirmedField[] {
  const known = new Map(readParts(before, home).map((part) => [part["id"], pickConfirmed(part)]));
  const changed = readParts(after, home).map((part) => ({
    fields: pickConfirmed(part),
    old: known.get(part["id"]),
  }));
  return (Object.keys(pickConfirmed({})) as ConfirmedField[]).filter((name) =>
    changed.some(
      ({ fields, old }) =>
        fields[name] !== undefined && !isDeepStrictEqual(fields[name], old?.[name]),
    ),
  );
}

/**
 * Finds what a change of a file must be confirmed for.
 * @param tests what the tests say with the change; null if the config has problems with it.
 */
export function findConfirmations(
  change: Pick<FileChange, "before" | "after">,
  home: MappingHome,
  tests: TestSummary | null,
): Confirmation[] {
  const fails = tests !== null && tests.failed.length + tests.issues.length > 0;
  return [...findFields(change, home), ...(fails ? ["failing-tests" as const] : [])];
}
