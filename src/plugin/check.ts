import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { parseWithVariables, type Variables } from "../config/environment.ts";
import { mappingFileSchema, PRESET_NAME, type MappingFile } from "../config/schema/mapping.ts";
import { schemeSchema } from "../config/schema/signature.ts";
import { configIssues, renderPath, schemaIssues } from "../config/issues.ts";
import type { Issue } from "../core/errors.ts";
import { CALLBACK } from "../delivery/callback.ts";
import type { Plugin } from "../contract/define.ts";

const ID = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "use lower-case letters, digits and `-`")
  .refine((id) => id !== "last", "`last` already means the last channel used")
  .refine((id) => id !== CALLBACK, "`callback` already means the receipts that mappings post");
const NAME = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "use lower-case letters, digits and `-`");
const text = z.string("must be text").min(1, "must not be blank");
const textList = z.array(text, "must be a list");
export const isFunction = (value: unknown): boolean => typeof value === "function";
export const method = z.custom<unknown>(isFunction, "must be a function");
export const zodSchema = z.custom<unknown>(
  (value) => isFunction((value as { safeParse?: unknown } | null)?.safeParse),
  "must be a zod schema",
);
/** Modules run in other processes: they are named by file. */
const fileUrl = z.string("must be a file URL").refine((url) => {
  try {
    return existsSync(fileURLToPath(url));
  } catch {
    return false;
  }
}, 'must be the URL of a file that exists: `new URL("./name.js", import.meta.url).href`');

const command = z.strictObject({
  summary: z.string("must be text"),
  options: z
    .record(
      z.string().regex(/^[a-z][a-zA-Z]*$/, "use letters alone"),
      z.strictObject({ describe: z.string("must be text"), value: z.string().optional() }),
    )
    .optional(),
  run: method,
});

/** The members besides `id`, which may all be absent. */
const pluginShape = {
  aliases: z.array(ID),
  config: zodSchema,
  section: z.enum(["channels", "hooks", "plugins"], 'must be "channels", "hooks" or "plugins"'),
  enabledByDefault: z.boolean("must be true or false"),
  channel: method,
  source: method,
  tools: method,
  context: method,
  routes: method,
  setup: method,
  commands: z.record(z.string().regex(/^[a-z][a-z-]*$/, "use lower-case letters and `-`"), command),
  presets: z.array(z.unknown(), "must be a list of presets"),
  schemes: z.record(NAME, z.unknown()),
  transforms: z.record(NAME, fileUrl),
  providers: z.array(
    z.looseObject({ type: text, create: method, check: method.optional() }),
    "must be a list",
  ),
  extractors: z.array(
    z.looseObject({ extensions: textList, mediaTypes: textList, module: fileUrl }),
    "must be a list",
  ),
  setupQuestions: z.looseObject({
    name: text,
    where: text,
    fields: z.array(z.looseObject({ name: text, ask: text })),
    owner: text,
  }),
};
/** The members of which a plugin must have at least one. */
const OFFERS = Object.keys(pluginShape).filter(
  (name) => !["aliases", "config", "section", "enabledByDefault", "setupQuestions"].includes(name),
) as (keyof Plugin)[];
const pluginSchema = z
  .strictObject({ id: ID, ...z.object(pluginShape).partial().shape })
  .refine((plugin) => OFFERS.some((name) => plugin[name as keyof typeof plugin] !== undefined), {
    error: `offers nothing: give it at least one of ${OFFERS.map((name) => `\`${name}\``).join(", ")}`,
  })
  .refine(
    ({ setup, channel, source, tools, context, routes }) =>
      setup === undefined || !(channel ?? source ?? tools ?? context ?? routes),
    {
      error:
        "has `setup` and one of `channel`, `source`, `tools`, `context`, `routes`: let `setup` return it",
    },
  );

/** A checked value, or what is wrong with it. */
export type CheckedPlugin<T> = { ok: true; value: T } | { ok: false; issues: Issue[] };

/** Refuses a value for one reason. */
export const refusePlugin = (path: string, message: string): CheckedPlugin<never> => ({
  ok: false,
  issues: [{ path, message }],
});

/** Checks what a preset of a plugin must not have: a secret belongs to whoever enables it, and its files have no folder. */
function checkPreset({ id, auth, mappings }: MappingFile): Issue[] {
  const issues: Issue[] = PRESET_NAME.test(id)
    ? []
    : [{ path: "id", message: "use lower-case letters, digits and `-`" }];
  const auths = [
    { path: "auth", auth },
    ...mappings.map((mapping, index) => ({ path: `mappings[${index}].auth`, auth: mapping.auth })),
  ];
  for (const { path, auth: stated } of auths)
    if (
      stated &&
      (!("scheme" in stated) || stated.secret !== undefined || stated.verifyToken !== undefined)
    )
      issues.push({
        path,
        message:
          "name a `scheme` and no secret here: whoever enables the preset writes the secret into `hooks.presets`",
      });
  for (const [index, { validate }] of mappings.entries())
    if (typeof validate === "string")
      issues.push({
        path: `mappings[${index}].validate`,
        message: "write the schema itself, not a file's name",
      });
  return issues;
}

/** Names the fields of issues as those of a plugin: its module has no paths. `around`: the field that they are in. */
const toPluginIssues = (
  issues: readonly Issue[],
  path: string,
  owner = "the plugin",
  around = "",
): Issue[] =>
  issues.map((issue) => {
    const field = [around, issue.path].filter((part) => part !== "").join(".");
    const message =
      field === "" ? `${owner} ${issue.message}` : `\`${field}\` of ${owner}: ${issue.message}`;
    return { path, message };
  });

/** The problems of a plugin's presets, which are checked as files of `hooks.mappingsDir` are. */
function presetIssues({ id, presets = [] }: Plugin, path: string): Issue[] {
  return presets.flatMap((preset: unknown, index) => {
    const checked = mappingFileSchema.safeParse(preset);
    const issues = checked.success
      ? checkPreset(checked.data)
      : configIssues(checked.error, mappingFileSchema);
    return toPluginIssues(issues, path, `the plugin "${id}"`, `presets[${index}]`);
  });
}

/** The problems of a plugin's schemes, which are checked as the files of schemes are. */
function schemeIssues({ id, schemes = {} }: Plugin, path: string): Issue[] {
  return Object.entries(schemes).flatMap(([name, scheme]) => {
    const checked = schemeSchema.safeParse(scheme);
    const issues = checked.success ? [] : configIssues(checked.error, schemeSchema);
    return toPluginIssues(issues, path, `the plugin "${id}"`, `schemes.${name}`);
  });
}

/** Checks the default export of a module as a plugin. The one of a CommonJS module lies one level deeper. */
export function checkPlugin(exports: Record<string, unknown>, path: string): CheckedPlugin<Plugin> {
  const outer = exports["default"];
  const inner = (outer as { default?: unknown } | null | undefined)?.default;
  const value = inner === undefined ? outer : inner;
  if (typeof value !== "object" || value === null)
    return refusePlugin(path, "its default export must be what definePlugin returns");
  const plugin = value as Plugin;
  const checked = pluginSchema.safeParse(plugin);
  const issues = checked.success
    ? [...presetIssues(plugin, path), ...schemeIssues(plugin, path)]
    : toPluginIssues(configIssues(checked.error, pluginSchema), path);
  return issues.length === 0 ? { ok: true, value: plugin } : { ok: false, issues };
}

/** All texts of a section that are long enough to be a secret. */
function texts(value: unknown): string[] {
  if (typeof value === "string") return value.length >= 4 ? [value] : [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(texts) : [];
}

/** The member of a section that is not the plugin's own. */
const withSwitch = z.object({ enabled: z.boolean() });

/**
 * Checks a plugin's section of the config. A plugin's own messages lose every value of the section that they quote.
 * @param variables fields of the whole config that one variable of the environment gives.
 */
export function checkSection(
  plugin: Plugin,
  section: unknown,
  path: string,
  variables: Variables,
): CheckedPlugin<unknown> {
  if (!plugin.config) return { ok: true, value: section };
  const at = (inner: readonly PropertyKey[]): string => renderPath([...path.split("."), ...inner]);
  // Keys that several accounts share stand beside them.
  const shared = path.replace(/\.accounts\.[^.]+$/, "");
  const checked = parseWithVariables(
    plugin.config,
    section,
    (inner) =>
      variables.get(at(inner)) ?? variables.get(renderPath([...shared.split("."), ...inner])),
  );
  if (checked.success) return { ok: true, value: checked.data };
  const values = texts(section).toSorted((a, b) => b.length - a.length);
  const issues = schemaIssues(checked.error, [plugin.config, withSwitch]).map((issue) => ({
    path: at(issue.path),
    message: values.reduce((message, value) => message.replaceAll(value, "…"), issue.message),
  }));
  return { ok: false, issues };
}
