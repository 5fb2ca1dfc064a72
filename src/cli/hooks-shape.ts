import type { FieldShape } from "../workbench/shape.ts";
import { connected, read } from "./connect.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import type { CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { cell, shortTime } from "./text.ts";

export interface ShapeOptions extends CommonOptions {
  last: string;
}

const MAX_LAST = 5000;

/** The types of a field, the most frequent first. With several each has its number of bodies. */
function renderTypes({ types }: FieldShape): string {
  const found = Object.entries(types).toSorted(([, a], [, b]) => b - a);
  return found.length === 1
    ? (found[0]?.[0] ?? "")
    : found.map(([type, count]) => `${type} ${count}`).join(", ");
}

const renderShare = ({ share }: FieldShape): string =>
  share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;

/** `rouse hooks shape`: the fields of the bodies that came to a path. */
export async function printShape(path: string, options: ShapeOptions, io: CliIo): Promise<void> {
  const { last } = options;
  if (!/^[1-9]\d{0,3}$/.test(last) || Number(last) > MAX_LAST)
    throw usage(`--last: write a number from 1 to ${MAX_LAST}`);
  const answer = await connected(options, io, ({ api }) =>
    read(api.hooks.shape.$get({ query: { path, last } })),
  );
  if (options.json) return printJson(io, answer);
  const { events, fields } = answer.shape;
  io.out(
    `${cell(path)}: fields of ${events === 1 ? "1 recorded body" : `${events} recorded bodies`}\n`,
  );
  if (fields.length === 0) return;
  io.out("\n");
  const now = io.now();
  const rows = fields.map((field) => [
    cell(field.name),
    renderTypes(field),
    renderShare(field),
    shortTime(field.firstSeen, now),
    shortTime(field.lastSeen, now),
    cell((field.values ?? []).map((value) => JSON.stringify(value)).join(" ")),
  ]);
  printTable(io, ["FIELD", "TYPE", "IN", "FIRST", "LAST", "VALUES"], rows);
}
