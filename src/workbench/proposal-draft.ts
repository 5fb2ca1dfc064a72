import { join } from "node:path";
import JSON5 from "json5";
import { editText, type ConfigChange } from "../config/edit.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import {
  draftsDir,
  getNewDraftFile,
  planDraft,
  refuseReplacing,
  type Draft,
  type DraftPlan,
  type MappingPlaces,
} from "./drafts.ts";
import { listWrittenMappings, readMappingText } from "./mapping-text.ts";
import { findMapping } from "./planned-change.ts";
import type { AnswerContext, MappingParts } from "./proposal-answer.ts";
import { readNow } from "./versions.ts";

/** What the operator sets of a proposal, and nothing that comes in can. */
export interface OperatorSettings {
  agent?: string | undefined;
  /** False: no delivery. */
  deliver?: false | { channel: string; to?: string | undefined } | undefined;
}

/** A live mapping that is to be mended, as it is written. */
export interface FixedMapping {
  id: string;
  value: Record<string, unknown>;
  text: string;
}

/** What a draft is made of besides its parts. */
export interface DraftFrame extends Pick<AnswerContext, "name" | "say"> {
  file: string;
  path: string;
  events: number;
  settings: OperatorSettings;
  fixed?: FixedMapping | undefined;
}

/** The id of the mapping that a proposal makes or mends. */
export const getMappingId = ({ name, fixed }: Pick<DraftFrame, "name" | "fixed">): string =>
  fixed?.id ?? `${name}.event`;

/** Finds a live mapping that is to be mended. @throws RouseError `not_found`, or `usage` if it is in no file of the user. */
export function findFixed(id: string, snapshot: Snapshot, places: MappingPlaces): FixedMapping {
  const { file, home, index } = findMapping(id, snapshot, places);
  const written = listWrittenMappings(readNow(file) ?? "{}", home)[index];
  if (!written)
    throw new RouseError({ code: "not_found", message: `${file} has no mapping "${id}" any more` });
  return { id, value: written.value, text: written.text };
}

/** The name of the draft that mends a mapping. */
export const toFixName = (id: string): string =>
  `${id
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")}-fix`;

function describe({ events, path, say, fixed }: DraftFrame): string {
  const from = `${events} recorded ${events === 1 ? "event" : "events"} of ${path}`;
  const what = fixed ? `Mends ${fixed.id}, after ${from}` : `Proposed from ${from}`;
  return `${what}${say === undefined ? "" : `: ${JSON.stringify(say)}`}.`;
}

function toSettings({ agent, deliver }: OperatorSettings): Record<string, unknown> {
  const route =
    deliver === undefined
      ? {}
      : deliver === false
        ? { deliver: false }
        : { deliver: true, ...deliver };
  return { ...(agent !== undefined && { agentId: agent }), ...route };
}

function renderNew(frame: DraftFrame, { payload, headers, ...rest }: MappingParts): string {
  const match = { path: frame.path, payload: payload ?? {}, ...(headers && { headers }) };
  const mapping = { id: getMappingId(frame), match, ...toSettings(frame.settings), ...rest };
  return `${JSON.stringify({ id: frame.name, version: 1, description: describe(frame), mappings: [mapping] }, null, 2)}\n`;
}

/** What parts change of the mapping that they mend. */
export const listPartChanges = ({ payload, headers, ...rest }: MappingParts): ConfigChange[] =>
  [
    ...Object.entries({ payload, headers }).map(([name, value]) => ({
      path: ["match", name],
      value,
    })),
    ...Object.entries(rest).map(([name, value]) => ({ path: [name], value })),
  ].filter(({ value }) => value !== undefined);

/** The mended mapping with its comments: only what changes is written. */
function renderFix(frame: DraftFrame, fixed: FixedMapping, parts: MappingParts): string {
  const head = JSON5.stringify(
    { id: frame.name, version: 1, description: describe(frame) },
    null,
    2,
  ).replace(/,?\s*\}$/, "");
  const text = `${head},\n  mappings: [\n    ${readMappingText(fixed.text, frame.file).replaceAll("\n", "\n    ")},\n  ],\n}\n`;
  const at = listWrittenMappings(text, "mappings")[0];
  if (!at)
    throw new RouseError({
      code: "usage",
      message: `"${fixed.id}" cannot be mended in a draft: change it by hand`,
    });
  return text.slice(0, at.start) + editText(at.text, listPartChanges(parts)) + text.slice(at.end);
}

/**
 * Makes a draft of the parts, which is written nowhere yet, with what it does to the live files.
 * @throws RouseError `usage` if it cannot land, or would replace a mapping that it does not mend.
 */
export function buildDraft(
  frame: DraftFrame,
  parts: MappingParts,
  places: MappingPlaces,
): { draft: Draft; plan: DraftPlan } {
  const { name, file, fixed } = frame;
  const draft = {
    name,
    file,
    text: fixed ? renderFix(frame, fixed, parts) : renderNew(frame, parts),
  };
  if (!fixed) refuseReplacing(draft, places);
  return { draft, plan: planDraft(draft, places) };
}

/**
 * The file of the draft: JSON, or for a mapping that is mended JSON5, which keeps its comments.
 * @throws RouseError `usage` if it is to be written, and its name is taken or none for a draft.
 */
export function getProposalFile(
  name: string,
  { isFix, isWritten }: { isFix: boolean; isWritten: boolean },
  mappingsDir: string,
): string {
  const file = isWritten
    ? getNewDraftFile(name, mappingsDir)
    : join(draftsDir(mappingsDir), `${name}.json`);
  return isFix ? `${file}5` : file;
}
