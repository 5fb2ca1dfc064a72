import { existsSync } from "node:fs";
import { editText, type ConfigChange } from "../../config/edit.ts";
import { PRESET_NAME } from "../../config/schema/mapping.ts";
import { RouseError } from "../../core/errors.ts";
import type { Snapshot } from "../../intake/types.ts";
import { listWrittenMappings, withoutIndent } from "../edits/mapping-text.ts";
import { findMapping, planChange, type MappingChange } from "../edits/planned-change.ts";
import type { AnswerContext, MappingParts } from "./proposal-answer.ts";
import { mappingFile, readNow, type FileChange, type MappingPlaces } from "../edits/user-files.ts";

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

/** What a proposal is made of besides its parts. */
export interface ProposalFrame extends Pick<AnswerContext, "name" | "say"> {
  file: string;
  path: string;
  events: number;
  settings: OperatorSettings;
  fixed?: FixedMapping | undefined;
}

/** The id of the mapping that a proposal makes or mends. */
export const getMappingId = ({ name, fixed }: Pick<ProposalFrame, "name" | "fixed">): string =>
  fixed?.id ?? `${name}.event`;

/** Finds a live mapping that is to be mended. @throws RouseError `not_found`, or `usage` if it is in no file of the user. */
export function findFixed(id: string, snapshot: Snapshot, places: MappingPlaces): FixedMapping {
  const { file, home, index } = findMapping(id, snapshot, places);
  const written = listWrittenMappings(readNow(file) ?? "{}", home)[index];
  if (!written)
    throw new RouseError({ code: "not_found", message: `${file} has no mapping "${id}" any more` });
  return { id, value: written.value, text: written.text };
}

function describe({ events, path, say }: ProposalFrame): string {
  const what = `Proposed from ${events} recorded ${events === 1 ? "event" : "events"} of ${path}`;
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

/** The file of a new mapping, as it is written or as it is once it is live. */
function renderNew(
  frame: ProposalFrame,
  { payload, headers, ...rest }: MappingParts,
  { shadow }: { shadow: boolean },
): string {
  const match = { path: frame.path, payload: payload ?? {}, ...(headers && { headers }) };
  const mapping = {
    id: getMappingId(frame),
    ...(shadow && { shadow }),
    match,
    ...toSettings(frame.settings),
    ...rest,
  };
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

/** A proposal as a change: what is written, and what its file has once the mapping is live. */
interface BuiltProposal {
  change: Extract<MappingChange, { kind: "file" | "replace" }>;
  live: FileChange;
}

/** Builds a proposal of its parts: a file with the mapping in shadow, or the change of the mapping that it mends. */
export function buildProposal(
  frame: ProposalFrame,
  parts: MappingParts,
  snapshot: Snapshot,
  places: MappingPlaces,
): BuiltProposal {
  const { name, file, fixed } = frame;
  if (!fixed) {
    const text = renderNew(frame, parts, { shadow: true });
    const after = renderNew(frame, parts, { shadow: false });
    return {
      change: { kind: "file", file: `${name}.json`, text },
      live: { file, before: null, after },
    };
  }
  const from = withoutIndent(fixed.text);
  const text = editText(from, listPartChanges(parts));
  const change = { kind: "replace" as const, mapping: fixed.id, text, from };
  return { change, live: planChange(change, snapshot, places).change };
}

/**
 * The file of a new mapping.
 * @throws RouseError `usage` if its name is none for a mapping file, or taken.
 */
export function getNewFile(
  name: string,
  { mappings }: Snapshot,
  { mappingsDir }: MappingPlaces,
): string {
  const refuse = (message: string): never => {
    throw new RouseError({ code: "usage", message });
  };
  if (!PRESET_NAME.test(name)) refuse(`"${name}": use lower-case letters, digits and "-"`);
  const file = mappingFile(mappingsDir, `${name}.json`);
  const taken = [file, `${file}5`].find((one) => existsSync(one));
  if (taken !== undefined) refuse(`${taken} is there already: choose another name, or edit it`);
  const id = getMappingId({ name, fixed: undefined });
  if (mappings.mappings.some((mapping) => mapping.id === id))
    refuse(`there is a mapping "${id}" already: choose another name`);
  return file;
}
