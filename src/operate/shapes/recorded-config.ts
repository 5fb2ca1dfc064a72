import { basename, join, relative } from "node:path";
import { readFields, readJson5, renderAtLines } from "../../config/json5.ts";
import { isReference, mask } from "../../config/mask.ts";
import type { Config } from "../../config/schema/index.ts";
import { hooksKeys, hooksSchema } from "../../config/schema/hooks.ts";
import { mappingFileSchema } from "../../config/schema/mapping.ts";
import { isCredentialName } from "../../core/http/credential-name.ts";
import { isInside, readText, type FileTexts } from "../../core/files.ts";
import { isRecord } from "../../core/json.ts";
import { sha256Hex } from "../../core/secret.ts";
import type { Snapshot } from "../../intake/types.ts";
import { PRESETS_DIR } from "../../mapping/presets.ts";
import { hashModule } from "../../mapping/transforms/build.ts";
import { realPath } from "../../mapping/transforms/permissions.ts";
import type { DecidingConfig } from "../../store/types.ts";

/** The record of a config: enough to decide by it again, and none of its secrets. */
export interface ConfigContent {
  /** The config file's name, null if there was none, and what of it decides, as it is written. */
  config: { name: string | null; text: string };
  /** Mapping files, documents of presets and schemas, by names such as `mappings/shop.json5`. */
  files: Record<string, string>;
  /** A hash of the files of each transform module, by the module's name. */
  modules: Record<string, string>;
}

type Values = Record<string, unknown>;

/** The folders of the files, by the first part of their names. */
export const getFolders = ({ hooks }: Config): { mappings: string; presets: string } => ({
  mappings: realPath(hooks.mappingsDir),
  presets: realPath(PRESETS_DIR),
});

/** Fields of `hooks` that decide nothing, or are of the machine. */
const NOT_KEPT = new Set([
  "enabled",
  "token",
  "mappingsDir",
  "transformsDir",
  "testsDir",
  "transformPermissions",
  "callbackHosts",
]);
/** The fields of a plugin's section that are about the mappings of its preset. */
const SECTION_FIELDS = ["model", "thinking", "allowUnsafeExternalContent"];

const pick = (value: unknown, keep: (name: string) => boolean): Values =>
  isRecord(value) ? Object.fromEntries(Object.entries(value).filter(([name]) => keep(name))) : {};

/** Every text of a value replaced. */
function maskTexts(value: unknown): unknown {
  if (typeof value === "string") return "masked";
  if (Array.isArray(value)) return value.map(maskTexts);
  return isRecord(value) ? mapValues(value, maskTexts) : value;
}

const mapValues = (value: Values, map: (member: unknown, name: string) => unknown): Values =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [name, map(member, name)]));

/** Conditions on headers or parameters without the values of credentials: no event has them, so they decide nothing. */
function withoutCredentials(conditions: unknown): unknown {
  if (Array.isArray(conditions)) return conditions.map(withoutCredentials);
  if (!isRecord(conditions)) return conditions;
  return mapValues(conditions, (value, name) =>
    isCredentialName(name)
      ? maskTexts(value)
      : name.startsWith("$")
        ? withoutCredentials(value)
        : value,
  );
}

const keepMatch = (match: unknown): unknown =>
  isRecord(match)
    ? mapValues(match, (member, name) =>
        name === "headers" || name === "query" ? withoutCredentials(member) : member,
      )
    : match;

/**
 * A mapping, or the options of a preset, without secrets: of the masked value all but the address of a callback, which may hold
 * a key, and what must not be masked since mappings decide by it.
 */
function keepMapping(masked: unknown, written: unknown): unknown {
  if (!isRecord(masked) || !isRecord(written)) return masked;
  const { callback: _callback, ...kept } = masked;
  return mapValues(kept, (member, name) =>
    name === "match" ? keepMatch(written[name]) : name === "validate" ? written[name] : member,
  );
}

const keepMappings = (masked: unknown, written: unknown): unknown =>
  Array.isArray(masked) && Array.isArray(written)
    ? masked.map((entry, index) => keepMapping(entry, written[index]))
    : masked;

/** Returns the fields of a config's `hooks` that decide something. */
function keepHooks(written: unknown): Values {
  if (!isRecord(written)) return {};
  const masked = mask(written, [hooksSchema], isReference) as Values;
  const kept = pick(masked, (name) => !NOT_KEPT.has(name));
  return mapValues(kept, (member, name) => {
    if (name === "mappings" || name === "presets") return keepMappings(member, written[name]);
    return Object.hasOwn(hooksKeys, name)
      ? member
      : pick(written[name], (field) => SECTION_FIELDS.includes(field));
  });
}

function keepConfig(written: unknown): Values {
  return mapValues(
    pick(written, (name) => name === "hooks" || name === "agents"),
    (section, name) => {
      if (name === "hooks") return keepHooks(section);
      return mapValues(
        pick(section, (field) => field === "list" || field === "defaults"),
        (member, field) => {
          if (field === "defaults") return pick(member, (field) => field === "maxTimeoutSeconds");
          return Array.isArray(member)
            ? member.map((agent) => pick(agent, (field) => field === "id"))
            : member;
        },
      );
    },
  );
}

/** A mapping file or a preset's document without secrets; a schema as it is. */
function keepFile(file: string, texts: FileTexts | undefined): { value: unknown; text: string } {
  const parsed = readJson5(file, texts);
  if (!parsed.ok || !isRecord(parsed.value) || !Array.isArray(parsed.value["mappings"])) {
    const text = readText(file, texts);
    return { value: text, text };
  }
  const masked = mask(parsed.value, [mappingFileSchema], isReference) as Values;
  const value = { ...masked, mappings: keepMappings(masked["mappings"], parsed.value["mappings"]) };
  return { value, text: renderAtLines(value, readFields(file, texts)) };
}

/** The source of a snapshot: the config as it is written, and its parts. */
interface ConfigSource extends Pick<Snapshot, "config" | "configFile" | "mappings" | "texts"> {
  written: unknown;
}

function readContent({ written, config, configFile, mappings, texts }: ConfigSource) {
  const folders = getFolders(config);
  const named = mappings.documents.flatMap((file): [string, string][] => {
    const [name, folder] = Object.entries(folders).find(([, path]) => isInside(path, file)) ?? [];
    return name === undefined || folder === undefined
      ? []
      : [[join(name, relative(folder, file)), file]];
  });
  const files = named.map(([name, file]) => [name, keepFile(file, texts)] as const);
  const modules = Object.fromEntries(
    [...mappings.modules].map(([name, paths]) => [name, hashModule(paths)]),
  );
  const kept = keepConfig(written);
  const fields = configFile === undefined ? undefined : readFields(configFile, texts);
  const content: ConfigContent = {
    config: {
      name: configFile === undefined ? null : basename(configFile),
      text: renderAtLines(kept, fields),
    },
    files: Object.fromEntries(files.map(([name, { text }]) => [name, text])),
    modules,
  };
  // Without lines and comments: a config that only looks different decides the same.
  const values = [kept, files.map(([name, { value }]) => [name, value]), modules];
  return { content, values };
}

/** Reads the config by which a snapshot decides. Undefined if a file is not there any more: another snapshot will follow. */
export function readDecidingConfig(source: ConfigSource): DecidingConfig | undefined {
  try {
    const { content, values } = readContent(source);
    return { id: sha256Hex(JSON.stringify(values)).slice(0, 12), content: JSON.stringify(content) };
  } catch {
    return undefined;
  }
}
