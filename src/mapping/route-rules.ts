import { describeShortSecret } from "../core/secret.ts";
import { isDeepStrictEqual } from "node:util";
import { createAddressList } from "../core/http/address.ts";
import type { Issue } from "../core/errors.ts";
import type { MappingSource } from "./source.ts";
import type { PathRules } from "./types.ts";

/** Paths of the interface itself. */
const RESERVED = new Set(["wake", "agent", "events", "runs"]);
const MIN_SECRET = 16;

/** Finds secrets that are too short. The verifier of a scheme is made with the snapshot: the engine knows no signatures. */
function checkAuth(auth: NonNullable<PathRules["auth"]>, at: string): Issue[] {
  if ("scheme" in auth) return [];
  const [field, secrets] =
    "token" in auth
      ? (["token", [auth.token].flat()] as const)
      : (["password", [auth.password]] as const);
  return secrets
    .filter((secret) => secret.length < MIN_SECRET)
    .map((secret) => ({
      path: `${at}.${field}`,
      message: describeShortSecret(secret, MIN_SECRET),
    }));
}

const PROPERTIES = ["auth", "methods", "allowIps", "maxBodyBytes", "body"] as const;

/** The settings that mappings state for a path, and the place of each. */
interface Stated {
  values: Partial<Pick<PathRules, (typeof PROPERTIES)[number]>>;
  at: Partial<Record<(typeof PROPERTIES)[number], string>>;
}

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

/** Adds what one mapping states about its paths to what other mappings state about them. */
function addStated(
  { config, shared, sharedAt, at }: MappingSource,
  path: string,
  stated: Map<string, Stated>,
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
      config[property] ?? (property in shared ? (shared as Stated["values"])[property] : undefined);
    if (value === undefined) continue;
    const where = config[property] === undefined ? sharedAt : `${at}.${property}`;
    const before = known.values[property];
    if (before === undefined) {
      Object.assign(known.values, { [property]: value });
      known.at[property] = where;
    } else if (!isDeepStrictEqual(before, value)) {
      issues.push({
        path: where,
        message: `differs from ${known.at[property]}: it belongs to the path "${path}", which both share`,
      });
    }
  }
}

function buildRules(path: string, { values, at }: Stated, issues: Issue[]): PathRules {
  const { auth, allowIps = [] } = values;
  const { auth: authAt = path, allowIps: allowIpsAt = path } = at;
  if (auth) issues.push(...checkAuth(auth, authAt));
  for (const entry of createAddressList(allowIps).wrong)
    issues.push({
      path: allowIpsAt,
      message: `"${entry.slice(0, 60)}" is no address or CIDR range`,
    });
  return { path, methods: ["POST"], ...values, ...(auth && { authAt }) };
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
  const stated = new Map<string, Stated>();
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
