import { z } from "zod";
import { renderPath } from "../config/issues.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { DM_POLICIES, type Channel } from "../contract/channel.ts";
import { isFunction, method, refusePlugin, zodSchema, type CheckedPlugin } from "./check.ts";
import type { Capabilities } from "../contract/define.ts";

type Kind = keyof Capabilities;

/** The smallest limit that leaves room to split: two fence lines and some text. */
const MIN_LIMIT = 20;
const LIMIT = `must be a whole number, at least ${MIN_LIMIT}`;

/** Shorter waits would have the vendor limit the messages too. */
const MIN_EVERY_MS = 1_000;
const EVERY = `must be a number of milliseconds, at least ${MIN_EVERY_MS}`;
const everyMs = z.number(EVERY).min(MIN_EVERY_MS, EVERY);

const toolSchema = z.looseObject({
  name: z
    .string("must be text")
    .regex(/^[\w-]{1,64}$/, "use letters, digits, `_` and `-`, at most 64"),
  description: z.string("must be text").min(1, "must not be blank"),
  input: zodSchema,
  execute: method,
});

/** Each kind: how messages name it, and what it must have. */
const KINDS: Record<Kind, { name: string; shape: z.ZodType }> = {
  channel: {
    name: "a channel",
    shape: z.looseObject({
      send: method,
      limit: z.int(LIMIT).min(MIN_LIMIT, LIMIT).optional(),
      defaultTo: z.string("must be text").min(1, "must not be blank").optional(),
      dmPolicy: z.enum(DM_POLICIES, `must be one of ${DM_POLICIES.join(", ")}`).optional(),
      fallback: z.boolean("must be true or false").optional(),
      parseRecipient: method.optional(),
      typing: z.looseObject({ show: method, hide: method.optional(), everyMs }).optional(),
      streaming: z.looseObject({ edit: method, remove: method, everyMs }).optional(),
      probe: method.optional(),
    }),
  },
  source: { name: "a source", shape: z.looseObject({ start: method }) },
  tools: {
    name: "a list of tools",
    shape: z
      .array(toolSchema, "must be a list")
      .refine(
        (tools) => new Set(tools.map(({ name }) => name)).size === tools.length,
        "has two tools of the same name",
      ),
  },
  context: { name: "a context provider", shape: method },
  routes: {
    name: "routes",
    shape: z.looseObject({
      auth: z.enum(["operator", "api", "none"], 'must be "operator", "api" or "none"'),
      fetch: method,
    }),
  },
};
export const CAPABILITIES = Object.keys(KINDS) as Kind[];

/** The problems of what a plugin's function of a kind returned. */
function findProblems(kind: Kind, value: unknown, path: string): Issue[] {
  if (isFunction((value as { then?: unknown } | null | undefined)?.then))
    return [
      {
        path,
        message: `\`${kind}\` must return its result directly, not a promise: use \`setup\` to wait for something`,
      },
    ];
  const { name, shape } = KINDS[kind];
  const checked = shape.safeParse(value);
  return (checked.error?.issues ?? []).map((issue) => ({
    path,
    message: `what \`${kind}\` returns is not ${name}: ${renderPath(issue.path) || "it"} ${issue.message}`,
  }));
}

/**
 * Completes a channel by its section of the config: `allowFrom`, `dmPolicy` and `defaultTo`, if the channel has none, and
 * whether people see that the agent is typing, and its text. Returns what is wrong with it then.
 */
function completeChannel(channel: Channel, path: string, config: unknown): Issue[] {
  const { allowFrom, defaultTo, dmPolicy, typing, streaming } = (config ?? {}) as Readonly<
    Record<string, unknown>
  >;
  if (typing === false) delete channel.typing;
  if (channel.streaming) channel.streaming.isOn = streaming === true;
  if (Array.isArray(allowFrom)) channel.allowFrom ??= allowFrom.map(String);
  const policy = DM_POLICIES.find((one) => one === dmPolicy);
  if (policy) channel.dmPolicy ??= policy;
  if (typeof defaultTo === "string") channel.defaultTo ??= defaultTo;
  if (channel.defaultTo === undefined || channel.parseRecipient?.(channel.defaultTo).ok !== false)
    return [];
  return [{ path: `${path}.defaultTo`, message: "is not a recipient of this channel" }];
}

/** Checks what a plugin offers on the basis of one section: all of it, or nothing is taken over. */
export function checkCapabilities(
  value: unknown,
  path: string,
  config: unknown,
): CheckedPlugin<Capabilities> {
  if (typeof value !== "object" || value === null)
    return refusePlugin(path, "`setup` must return an object of capabilities");
  const issues = Object.entries(value).flatMap(([name, offered]): Issue[] => {
    if (!Object.hasOwn(KINDS, name))
      return [
        {
          path,
          message: `\`setup\` returns \`${name}\`, which is no capability.${didYouMean(name, CAPABILITIES)}`,
        },
      ];
    const problems = findProblems(name as Kind, offered, path);
    return name === "channel" && problems.length === 0
      ? completeChannel(offered as Channel, path, config)
      : problems;
  });
  return issues.length === 0 ? { ok: true, value } : { ok: false, issues };
}
