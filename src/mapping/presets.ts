import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { MappingConfig, MappingFile } from "../config/schema/mapping.ts";
import type { PresetUse } from "../config/schema/preset.ts";
import type { Issue } from "../core/errors.ts";
import type { PresetEntry, MappingSource, WrittenSource } from "./source.ts";

/** The folder of the presets that ship with Rouse: `mappings/` at the root of the clone or of the package. */
export const PRESETS_DIR = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts") ? "../../mappings" : "../../../mappings",
    import.meta.url,
  ),
);

/** The folder of the signature schemes that ship with Rouse. */
export const SCHEMES_DIR = join(PRESETS_DIR, "schemes");

const AGENT_FIELDS = [
  "agentId",
  "channel",
  "to",
  "deliver",
  "wakeMode",
  "summary",
  "model",
  "tools",
  "approve",
  "coalesce",
  "callback",
] as const;

/** Settings about a preset's turns in the section of the plugin that brings it: `hooks.<plugin>.model` and the like. */
const SECTION_FIELDS = ["model", "thinking", "allowUnsafeExternalContent"] as const;

function withSettings(mapping: MappingConfig, settings: object): MappingConfig {
  const section = settings as Partial<Record<string, unknown>>;
  const stated = SECTION_FIELDS.filter((field) => section[field] !== undefined).map((field) => [
    field,
    section[field],
  ]);
  return { ...mapping, ...(Object.fromEntries(stated) as Partial<MappingConfig>) };
}

/** One of a preset's mappings, as the options want it. Fields that say nothing to a wake are left out of it. */
function adapt(mapping: MappingConfig, use: PresetUse, suffix: string): MappingConfig {
  const made: MappingConfig = { ...mapping };
  if (mapping.id !== undefined) made.id = mapping.id + suffix;
  if (use.path !== undefined) made.match = { ...mapping.match, path: use.path };
  for (const field of ["enabled", "shadow", "lint"] as const)
    if (use[field] !== undefined) Object.assign(made, { [field]: use[field] });
  if (use.ignoreSelf && made.ignoreSelf)
    made.ignoreSelf = { ...made.ignoreSelf, ...use.ignoreSelf };
  if (made.action === "agent")
    for (const field of AGENT_FIELDS)
      if (use[field] !== undefined) Object.assign(made, { [field]: use[field] });
  return made;
}

/**
 * Returns the authentication of the preset's requests: by its scheme with the options' secret, else by the hook token.
 */
function toAuth(
  file: MappingFile,
  use: PresetUse,
  { at, entry }: { at: string; entry: PresetEntry },
  issues: Issue[],
): Pick<WrittenSource, "unsigned"> & Pick<MappingSource["shared"], "auth"> {
  const { secret, verifyToken, audience, email, duplicate } = use;
  const given = { secret, verifyToken, audience, email, duplicate };
  const stated = Object.entries(given).filter(([, value]) => value !== undefined);
  const field = `${at}.${stated[0]?.[0]}`;
  if (!file.auth || !("scheme" in file.auth)) {
    const callers = file.auth ? "what its own `auth` says" : "the hook token";
    if (stated.length > 0)
      issues.push({
        path: field,
        message: `this preset has no signature: its callers send ${callers}`,
      });
    return file.auth && use.auth !== "token" ? { auth: file.auth } : {};
  }
  if (use.auth === "token") {
    if (stated.length > 0)
      issues.push({
        path: field,
        message: 'has no effect beside `auth: "token"`: remove one of them',
      });
    return {};
  }
  // A document of one's own may bring its secret, or what stands in place of one.
  const { scheme: _scheme, duplicate: _duplicate, ...own } = file.auth;
  const isProven = stated.some(([name]) => name !== "duplicate") || Object.keys(own).length > 0;
  if (!isProven) return { unsigned: entry };
  return { auth: { ...file.auth, ...Object.fromEntries(stated) } };
}

/** The mappings of a preset with its options. `again`: the same preset is in use before, on another path. */
export function presetSources(
  file: MappingFile,
  use: PresetUse,
  { at, entry, again }: { at: string; entry: PresetEntry; again: boolean },
  issues: Issue[],
): WrittenSource[] {
  const { unsigned, ...shared }: ReturnType<typeof toAuth> & MappingSource["shared"] = toAuth(
    file,
    use,
    { at, entry },
    issues,
  );
  const maxBodyBytes = use.maxBodyBytes ?? file.maxBodyBytes;
  if (maxBodyBytes !== undefined) shared.maxBodyBytes = maxBodyBytes;
  if (again && use.path === undefined)
    issues.push({
      path: at,
      message: "this preset is in use before: give each a `path` of its own",
    });
  const named = file.mappings.some((mapping) => mapping.event !== undefined);
  if (use.events !== undefined && !named)
    issues.push({ path: `${at}.events`, message: "this preset does not tell its events apart" });
  if (use.ignoreSelf && !file.mappings.some((mapping) => mapping.ignoreSelf !== undefined))
    issues.push({
      path: `${at}.ignoreSelf`,
      message: "this preset's events do not name who caused them",
    });
  const fields = AGENT_FIELDS.filter((field) => use[field] !== undefined);
  const budget = use.limits && {
    scope: `preset:${use.use}${again ? `@${use.path}` : ""}`,
    limits: use.limits,
  };
  return file.mappings.map((mapping, index): WrittenSource => ({
    config: adapt(withSettings(mapping, entry.settings ?? {}), use, again ? `@${use.path}` : ""),
    at: `${entry.label}: mappings[${index}]`,
    origin: `preset:${use.use}`,
    shared,
    sharedAt: at,
    folder: entry.folder,
    options: { at, fields },
    ...(unsigned === undefined ? {} : { unsigned }),
    ...(use.events === undefined ? {} : { events: use.events }),
    ...(budget && mapping.action === "agent" ? { budget } : {}),
  }));
}

/** Returns whether an event's name is among those that are wanted: itself, or everything under `issue`. */
export function isWanted(event: string, wanted: readonly string[]): boolean {
  return wanted.some((one) => event === one || event.startsWith(`${one.replace(/\.?\*$/, "")}.`));
}
