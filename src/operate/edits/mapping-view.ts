import JSON5 from "json5";
import { mappingFileJsonSchema, type JsonSchema } from "../../config/json-schema.ts";
import { getConsoleMode } from "../../config/console-mode.ts";
import { getMaxBodyBytes } from "../../intake/body.ts";
import type { PathRules } from "../../mapping/types.ts";
import { FUNCTIONS } from "../../mapping/jsonata/functions.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found } from "../records/operation.ts";
import { place } from "../records/texts.ts";
import type { Snapshot } from "../../intake/types.ts";
import { withoutIndent } from "./mapping-text.ts";
import { readMapping } from "./planned-change.ts";

/** A live mapping, with the place where it is written. */
export type PlacedMapping = ReturnType<typeof listPlacedMappings>[number];

/** The text of one mapping as it can be edited. For operators only. */
export type MappingText = ReturnType<typeof showMapping>;

/** Lists the live mappings in the order in which they are tried. */
const listPlacedMappings = (snapshot: Snapshot) =>
  place(snapshot.mappings.mappings, snapshot).map((mapping) => ({
    ...mapping,
    /** True if it stands in a file of the user, so that it can be changed. */
    own: !mapping.origin.startsWith("preset:"),
  }));

/** Names the way in which callers of a path authenticate; never a value. */
function describeAuth({ auth }: PathRules): "hooks.token" | "token" | "basic" | "signature" {
  if (!auth) return "hooks.token";
  if ("token" in auth) return "token";
  return "user" in auth ? "basic" : "signature";
}

/** Lists the live mappings and their paths, with what a sender's address and credential are made of. */
export function listMappings(snapshot: Snapshot) {
  const { mappings, config, hookTokenInShell = null } = snapshot;
  const { gateway, hooks } = config;
  return {
    mappings: listPlacedMappings(snapshot),
    paths: mappings.paths.map((rules) => ({
      path: rules.path,
      methods: rules.methods,
      auth: describeAuth(rules),
      allowIps: rules.allowIps ?? null,
      maxBodyBytes: getMaxBodyBytes(rules.path, snapshot),
    })),
    base: hooks.path,
    enabled: hooks.enabled ?? false,
    publicUrl: gateway.publicUrl?.replace(/\/$/, "") ?? null,
    tokenInShell: hookTokenInShell,
    console: getConsoleMode(gateway),
  };
}

/** Renders a mapping of a preset without the secrets that its options bring. */
function renderPreset(id: string, { mappings }: Snapshot): string {
  const { auth: _auth, ...config } =
    mappings.configs.find(({ info }) => info.id === id)?.config ?? {};
  return JSON5.stringify(config, null, 2);
}

/**
 * Shows a live mapping with its text, as it is written in `file` without the indent of its place. A preset is in no file of the
 * user, and is written with its options in place.
 * @throws RouseError `not_found`
 */
export function showMapping(id: string, snapshot: Snapshot) {
  const mapping = found(
    listPlacedMappings(snapshot).find((one) => one.id === id),
    unknownId("mapping", id),
  );
  if (!mapping.own) return { ...mapping, file: null, text: renderPreset(id, snapshot) };
  const { file, written } = readMapping(id, snapshot);
  return { ...mapping, file, text: withoutIndent(written.text) };
}

/** Describes mappings for editors: their schema, and the functions of expressions. */
export function describeMapping() {
  const { $defs = {}, ...file } = mappingFileJsonSchema();
  const mapping: JsonSchema = file.properties?.["mappings"]?.items ?? {};
  return { mapping, $defs, functions: [...FUNCTIONS].toSorted() };
}
