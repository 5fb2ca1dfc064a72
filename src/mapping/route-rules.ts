import { describeShortSecret } from "../core/secret.ts";
import { isDeepStrictEqual } from "node:util";
import type { z } from "zod";
import type { authSchema } from "../config/schema/mapping.ts";
import { createAddressList } from "../core/http/address.ts";
import type { Issue } from "../core/errors.ts";
import type { BodyFormat } from "../core/http/payload.ts";
import type { MappingSource } from "./source.ts";
import type { PathRules } from "./types.ts";

/** Paths of the interface itself. */
const RESERVED = new Set(["wake", "agent", "events", "runs"]);
const MIN_SECRET = 16;

function compileAuth(
  auth: z.output<typeof authSchema>,
  at: string,
  issues: Issue[],
): PathRules["auth"] {
  const short = (secret: string, path: string): void => {
    if (secret.length < MIN_SECRET)
      issues.push({ path, message: describeShortSecret(secret, MIN_SECRET) });
  };
  if ("token" in auth) {
    const token = [auth.token].flat();
    for (const secret of token) short(secret, `${at}.token`);
    return { token };
  }
  if ("user" in auth) {
    short(auth.password, `${at}.password`);
    return { user: auth.user, password: auth.password };
  }
  // Its verifier is made with the snapshot: the engine knows nothing of signatures.
  return auth;
}

interface Stated {
  auth?: unknown;
  methods?: unknown;
  allowIps?: unknown;
  maxBodyBytes?: unknown;
  body?: unknown;
}

const PROPERTIES = ["auth", "methods", "allowIps", "maxBodyBytes", "body"] as const;

/** Presets whose sender signs, on paths that have no secret. Another mapping of the path may bring it. */
function missingSecrets(
  sources: readonly MappingSource[],
  rules: ReadonlyMap<string, PathRules>,
): Issue[] {
  const issues = new Map<string, Issue>();
  for (const { unsigned, sharedAt, config } of sources) {
    if (
      unsigned === undefined ||
      [config.match.path ?? []].flat().every((path) => rules.get(path)?.auth !== undefined)
    )
      continue;
    const { name, origin } = unsigned;
    const remedy =
      origin === "rouse"
        ? `run \`rouse init --preset ${name}\`, which adds one`
        : `add one with { use: "${name}", secret: "…" }`;
    const message =
      `the sender of the preset "${name}" signs its requests, and there is no secret to check them with: ` +
      `${remedy}, or accept the hook token instead with { use: "${name}", auth: "token" }`;
    issues.set(sharedAt, { path: sharedAt, message });
  }
  return [...issues.values()];
}

type StatedOnPath = Map<string, { values: Stated; at: Record<string, string> }>;

/** Adds what one mapping states about its paths to what other mappings state about them. */
function addStated(
  { config, shared, sharedAt, at }: MappingSource,
  path: string,
  stated: StatedOnPath,
  issues: Issue[],
): void {
  if (RESERVED.has(path))
    issues.push({
      path: `${at}.match.path`,
      message: `\`${path}\` belongs to the interface itself; use another path`,
    });
  const known = stated.get(path) ?? { values: {}, at: {} };
  stated.set(path, known);
  for (const property of PROPERTIES) {
    const value =
      config[property] ?? (property in shared ? (shared as Stated)[property] : undefined);
    if (value === undefined) continue;
    const where = config[property] === undefined ? sharedAt : `${at}.${property}`;
    const before = known.values[property];
    if (before === undefined) {
      known.values[property] = value;
      known.at[property] = where;
    } else if (!isDeepStrictEqual(before, value)) {
      issues.push({
        path: where,
        message: `differs from ${known.at[property]}: it belongs to the path "${path}", which both share`,
      });
    }
  }
}

function buildRules(
  path: string,
  { values, at }: { values: Stated; at: Record<string, string> },
  issues: Issue[],
): PathRules {
  const rules: PathRules = {
    path,
    methods: (values.methods as PathRules["methods"] | undefined) ?? ["POST"],
  };
  if (values.body !== undefined) rules.body = values.body as BodyFormat;
  if (values.maxBodyBytes !== undefined) rules.maxBodyBytes = values.maxBodyBytes as number;
  if (values.auth !== undefined) {
    const auth = compileAuth(
      values.auth as z.output<typeof authSchema>,
      at["auth"] ?? path,
      issues,
    );
    if (auth) Object.assign(rules, { auth, authAt: at["auth"] });
  }
  if (values.allowIps !== undefined) {
    rules.allowIps = values.allowIps as string[];
    for (const entry of createAddressList(rules.allowIps).wrong)
      issues.push({
        path: at["allowIps"] ?? path,
        message: `"${entry.slice(0, 60)}" is no address or CIDR range`,
      });
  }
  return rules;
}

/**
 * Compiles the rules of each path from all mappings on it: one that states nothing inherits, two that differ are a
 * problem.
 */
export function compilePaths(sources: readonly MappingSource[]): {
  rules: Map<string, PathRules>;
  issues: Issue[];
} {
  const issues: Issue[] = [];
  const stated: StatedOnPath = new Map();
  for (const source of sources) {
    const { config, at } = source;
    for (const path of [config.match.path ?? []].flat()) addStated(source, path, stated, issues);
    if (config.match.path !== undefined) continue;
    for (const property of PROPERTIES)
      if (config[property] !== undefined)
        issues.push({ path: `${at}.${property}`, message: "belongs to a path: set match.path" });
  }
  const rules = new Map(
    [...stated].map(([path, found]) => [path, buildRules(path, found, issues)]),
  );
  return { rules, issues: [...issues, ...missingSecrets(sources, rules)] };
}
