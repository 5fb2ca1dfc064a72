import { relative } from "node:path";
import { z } from "zod";
import { parseWithVariables, type Variables } from "../config/environment.ts";
import { mappingFileSchema, PRESET_NAME, type MappingFile } from "../config/schema/mapping.ts";
import { configIssues, renderPath } from "../config/issues.ts";
import { didYouMean } from "../config/suggest.ts";
import { safeError, type Issue } from "../core/errors.ts";
import { CALLBACK } from "../delivery/callback.ts";
import type { Channel, Plugin, Service } from "./api.ts";

const ID = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "use lower-case letters, digits and `-`")
  .refine((id) => id !== "last", "`last` already means the last channel used")
  .refine((id) => id !== CALLBACK, "`callback` already means the receipts that mappings post");
const isFunction = (value: unknown): boolean => typeof value === "function";
const method = z.custom<unknown>(isFunction, "must be a function");

const pluginShape = {
  id: ID,
  aliases: z.array(ID).optional(),
  config: z.custom<unknown>((value) => isFunction((value as { safeParse?: unknown } | null)?.safeParse), "must be a zod schema").optional(),
  section: z.enum(["channels", "hooks"], 'must be "channels" or "hooks"').optional(),
  always: z.boolean("must be true or false").optional(),
  channel: method.optional(),
  service: method.optional(),
  commands: z
    .record(
      z.string().regex(/^[a-z][a-z-]*$/, "use lower-case letters and `-`"),
      z.strictObject({
        summary: z.string("must be text"),
        options: z
          .record(
            z.string().regex(/^[a-z][a-zA-Z]*$/, "use letters alone"),
            z.strictObject({ describe: z.string("must be text"), value: z.string().optional() }),
          )
          .optional(),
        run: method,
      }),
    )
    .optional(),
  presets: z.array(z.unknown(), "must be a list of presets").optional(),
};
const pluginSchema = z
  .strictObject(pluginShape)
  .refine(
    ({ channel, service, commands, presets }) => (channel ?? service ?? commands ?? presets) !== undefined,
    "offers nothing: give it a `channel`, a `service`, `commands` or `presets`",
  );

/** The smallest limit that leaves room to split: two fence lines and some text. */
const LEAST_LIMIT = 20;
const channelSchema = z.looseObject({
  send: method,
  limit: z
    .int(`must be a whole number, at least ${LEAST_LIMIT}`)
    .min(LEAST_LIMIT, `must be a whole number, at least ${LEAST_LIMIT}`)
    .optional(),
  defaultTo: z.string("must be text").min(1, "must not be blank").optional(),
  fallback: z.boolean("must be true or false").optional(),
  parseRecipient: method.optional(),
  probe: method.optional(),
});

/** A checked value, or what is wrong with it. */
export type Checked<T> = { ok: true; value: T } | { ok: false; issues: Issue[] };

/** What a preset of a plugin must not have: a secret belongs to whoever enables it, and its files have no folder. */
function checkPreset({ id, auth, mappings }: MappingFile): Issue[] {
  const issues: Issue[] = PRESET_NAME.test(id) ? [] : [{ path: "id", message: "use lower-case letters, digits and `-`" }];
  const auths = [{ path: "auth", auth }, ...mappings.map((mapping, index) => ({ path: `mappings[${index}].auth`, auth: mapping.auth }))];
  for (const { path, auth: stated } of auths)
    if (stated && (!("scheme" in stated) || stated.secret !== undefined || stated.verifyToken !== undefined))
      issues.push({
        path,
        message: "name a `scheme` and no secret here: whoever enables the preset writes the secret into `hooks.presets`",
      });
  for (const [index, { validate }] of mappings.entries())
    if (typeof validate === "string")
      issues.push({ path: `mappings[${index}].validate`, message: "write the schema itself, not a file's name" });
  return issues;
}

/** The problems of a plugin's presets, which are checked as files of `hooks.mappingsDir` are. */
function presetIssues({ id, presets = [] }: Plugin, path: string): Issue[] {
  return presets.flatMap((preset: unknown, index) => {
    const checked = mappingFileSchema.safeParse(preset);
    const issues = checked.success ? checkPreset(checked.data) : configIssues(checked.error, mappingFileSchema);
    return issues.map((issue) => {
      const field = `presets[${index}]${issue.path === "" ? "" : `.${issue.path}`}`;
      return { path, message: `\`${field}\` of the plugin "${id}": ${issue.message}` };
    });
  });
}

/** The default export of a module as a plugin. A CommonJS module's lies one level deeper. */
export function checkPlugin(exports: Record<string, unknown>, path: string): Checked<Plugin> {
  const outer = exports["default"];
  const inner = (outer as { default?: unknown } | null | undefined)?.default;
  const value = inner === undefined ? outer : inner;
  if (typeof value !== "object" || value === null)
    return { ok: false, issues: [{ path, message: "its default export must be what definePlugin returns" }] };
  const checked = pluginSchema.safeParse(value);
  if (checked.success) {
    const plugin = value as Plugin;
    const issues = presetIssues(plugin, path);
    return issues.length === 0 ? { ok: true, value: plugin } : { ok: false, issues };
  }
  const issues = checked.error.issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => `\`${key}\` is not a member of a plugin.${didYouMean(key, Object.keys(pluginShape))}`)
      : [issue.path.length === 0 ? `the plugin ${issue.message}` : `\`${renderPath(issue.path)}\` of the plugin: ${issue.message}`],
  );
  return { ok: false, issues: issues.map((message) => ({ path, message })) };
}

/**
 * What a plugin's `channel` gave. Its own object comes back, whatever class it is of; what it leaves out of who may speak
 * and where replies go is what its section of the config says.
 */
export function checkChannel(value: unknown, path: string, config?: unknown): Checked<Channel> {
  if (isFunction((value as { then?: unknown } | null | undefined)?.then))
    return {
      ok: false,
      issues: [{ path, message: "`channel` must return a channel at once, not a promise: connect in `send` or in a `service`" }],
    };
  const fields =
    typeof value === "object" && value !== null
      ? Object.fromEntries(Object.keys(channelSchema.shape).map((key) => [key, (value as Record<string, unknown>)[key]]))
      : value;
  const checked = channelSchema.safeParse(fields);
  if (!checked.success)
    return {
      ok: false,
      issues: checked.error.issues.map((issue) => ({
        path,
        message: `what \`channel\` returns is not a channel: ${renderPath(issue.path) || "it"} ${issue.message}`,
      })),
    };
  const channel = value as Channel;
  const { allowFrom, defaultTo } = (config ?? {}) as { allowFrom?: unknown; defaultTo?: unknown };
  if (Array.isArray(allowFrom)) channel.allowFrom ??= allowFrom.map(String);
  if (typeof defaultTo === "string") channel.defaultTo ??= defaultTo;
  if (channel.defaultTo === undefined || channel.parseRecipient === undefined) return { ok: true, value: channel };
  const recipient = channel.parseRecipient(channel.defaultTo);
  return recipient.ok
    ? { ok: true, value: channel }
    : { ok: false, issues: [{ path: `${path}.defaultTo`, message: "is not a recipient of this channel" }] };
}

/** What a plugin's `service` gave. */
export function checkService(value: unknown, path: string): Checked<Service> {
  if (isFunction((value as { start?: unknown } | null | undefined)?.start)) return { ok: true, value: value as Service };
  return { ok: false, issues: [{ path, message: "`service` must return an object with a function `start`" }] };
}

/** All texts of a section that are long enough to be a secret. */
function texts(value: unknown): string[] {
  if (typeof value === "string") return value.length >= 4 ? [value] : [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(texts) : [];
}

/**
 * Checks a plugin's section of the config. A plugin's own messages lose every value of the section that they quote.
 * @param variables fields of the whole config that one variable of the environment gives.
 */
export function checkSection(plugin: Plugin, section: unknown, path: string, variables: Variables): Checked<unknown> {
  if (!plugin.config) return { ok: true, value: section };
  const at = (inner: readonly PropertyKey[]): string => renderPath([...path.split("."), ...inner]);
  // What several accounts share stands beside them.
  const shared = path.replace(/\.accounts\.[^.]+$/, "");
  const checked = parseWithVariables(
    plugin.config,
    section,
    (inner) => variables.get(at(inner)) ?? variables.get(renderPath([...shared.split("."), ...inner])),
  );
  if (checked.success) return { ok: true, value: checked.data };
  const values = texts(section).toSorted((a, b) => b.length - a.length);
  const known = Object.keys((plugin.config as { shape?: object }).shape ?? {});
  const issues = checked.error.issues.flatMap((issue): Issue[] =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({
          path: at([...issue.path, key]),
          message: `is not known.${issue.path.length === 0 ? didYouMean(key, [...known, "enabled"]) : ""}`,
        }))
      : [{ path: at(issue.path), message: values.reduce((text, value) => text.replaceAll(value, "…"), issue.message) }],
  );
  return { ok: false, issues };
}

/** Why a plugin could not be loaded or set up, without the message of the error, which may quote anything. */
export function explain(error: unknown, baseDir: string): string {
  const { name, code, frames = [] } = safeError(error);
  const message = error instanceof Error ? error.message : "";
  const missing =
    code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND"
      ? /^Cannot find (?:package|module) '([^'\s]{1,200})'/.exec(message)?.[1]
      : undefined;
  if (missing !== undefined) return `it imports "${relativeTo(baseDir, missing)}", which is not there`;
  // Where the compiler stopped; the rest of its message quotes the line.
  const syntax = code === undefined && /^(\S[^\n]{0,300}?:\d+):\d+: ERROR: /m.exec(message)?.[1];
  const place = syntax || frames.map((line) => framePlace(line)).find((found) => found?.startsWith(baseDir));
  return `${code ?? name}${place ? ` at ${relativeTo(baseDir, place)}` : ""}`;
}

/** The file of a stack's frame, with its line for JavaScript: `tsx` puts all of a TypeScript file on one line. */
function framePlace(frame: string): string | undefined {
  const [, file, line] = /((?:file:\/\/)?[/\\A-Z][^()]*?):(\d+)(?::\d+)?\)?$/.exec(frame) ?? [];
  if (file === undefined || line === undefined) return undefined;
  const path = file.replace("file://", "").replace(/\?.*$/, "");
  return /\.[cm]?tsx?$/.test(path) ? path : `${path}:${line}`;
}

function relativeTo(baseDir: string, path: string): string {
  const inside = path.startsWith("/") ? relative(baseDir, path) : path;
  return inside.startsWith("..") ? path : inside;
}
