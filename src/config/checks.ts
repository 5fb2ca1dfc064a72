import { describeShortSecret } from "../core/secret.ts";
import type { Issue } from "../core/errors.ts";
import { sessionKeyProblem } from "../vocabulary/session-key.ts";
import { patternsMeet } from "../vocabulary/tool-names.ts";
import { scheduleIssues } from "./schedule-checks.ts";
import { didYouMean } from "./suggest.ts";
import type { Config } from "./schema/index.ts";

/** Paths of the gateway's own routes, which hooks may not lie under. */
const OWN_PATHS = [
  "/v1",
  "/admin",
  "/console",
  "/channels",
  "/plugins",
  "/docs",
  "/metrics",
  "/livez",
  "/readyz",
  "/openapi.json",
];
const MIN_TOKEN = 16;

/** `hooks.path` with a leading and no trailing slash. */
function normalPath(path: string): string {
  return `/${path.replace(/^\/+/, "").replace(/\/+$/, "")}`;
}

function pathIssues(config: Config): Issue[] {
  const path = normalPath(config.hooks.path);
  config.hooks.path = path;
  const wrong = (message: string): Issue[] => [{ path: "hooks.path", message }];
  if (path === "/") return wrong("must not be `/` alone; use `/hooks`");
  if (/[:*?#\s]/.test(path)) return wrong("must not hold spaces or any of `: * ? #`");
  const own = OWN_PATHS.find((taken) => path === taken || path.startsWith(`${taken}/`));
  return own ? wrong(`lies under ${own}, which is the gateway's own`) : [];
}

function tokenIssues(config: Config, hasFile: boolean): Issue[] {
  const issues: Issue[] = [];
  const { hooks, gateway, platform } = config;
  const tokens = hooks.token === undefined ? [] : [hooks.token].flat();
  const at = (index: number): string =>
    Array.isArray(hooks.token) ? `hooks.token[${index}]` : "hooks.token";
  if (hooks.enabled && hasFile && tokens.length === 0) {
    issues.push({
      path: "hooks.token",
      message: 'is required when hooks are enabled: `"${ROUSE_HOOK_TOKEN}"` or `{ file: "…" }`',
    });
  }
  const keys = platform.apiKeys.flatMap((entry) => (entry.key === undefined ? [] : [entry.key]));
  for (const [index, token] of tokens.entries()) {
    if (token.length < MIN_TOKEN)
      issues.push({ path: at(index), message: describeShortSecret(token, MIN_TOKEN) });
    if (token === gateway.token)
      issues.push({ path: at(index), message: "must differ from gateway.token" });
    if (keys.includes(token))
      issues.push({ path: at(index), message: "must differ from every key of platform.apiKeys" });
  }
  if (gateway.token !== undefined && gateway.token.length < MIN_TOKEN)
    issues.push({ path: "gateway.token", message: describeShortSecret(gateway.token, MIN_TOKEN) });
  return issues;
}

/** Finds the entries of a list at `path` whose id an entry before has. `kind` names an entry. */
const findRepeats = (list: readonly { id: string }[], path: string, kind: string): Issue[] =>
  list.flatMap(({ id }, index) =>
    list.findIndex((entry) => entry.id === id) < index
      ? [{ path: `${path}[${index}].id`, message: `another ${kind} has the id "${id}"` }]
      : [],
  );

/** Lists the ids of the agents: of a config without any, that of the implicit one. */
const getAgentIds = ({ agents }: Config): string[] =>
  agents.list.length > 0 ? agents.list.map(({ id }) => id) : ["main"];

function agentIssues(config: Config): Issue[] {
  const issues = findRepeats(config.agents.list, "agents.list", "agent");
  const known = getAgentIds(config);
  for (const [index, id] of (config.hooks.allowedAgentIds ?? []).entries()) {
    if (!known.includes(id))
      issues.push({
        path: `hooks.allowedAgentIds[${index}]`,
        message: "names no agent of agents.list",
      });
  }
  if (config.agents.defaults.timeoutSeconds > config.agents.defaults.maxTimeoutSeconds) {
    issues.push({
      path: "agents.defaults.timeoutSeconds",
      message: "must not be more than agents.defaults.maxTimeoutSeconds",
    });
  }
  return issues;
}

/** As long as what a generated key has behind its prefix. */
const SAMPLE_ID = "00000000-0000-0000-0000-000000000000";

/** The session keys that the config names, or has Rouse make, obey the rules that requests obey. */
function sessionKeyIssues({ hooks }: Config): Issue[] {
  const { defaultSessionKey, allowedSessionKeyPrefixes = [], sharedSessions } = hooks;
  const checked = Object.entries({ allowedSessionKeyPrefixes, sharedSessions }).flatMap(
    ([name, prefixes]) =>
      prefixes.map((prefix, index): [path: string, problem: string | undefined] => [
        `hooks.${name}[${index}]`,
        sessionKeyProblem(prefix + SAMPLE_ID, undefined),
      ]),
  );
  if (defaultSessionKey !== undefined)
    checked.push([
      "hooks.defaultSessionKey",
      sessionKeyProblem(defaultSessionKey, hooks.allowedSessionKeyPrefixes),
    ]);
  return checked.flatMap(([path, message]) => (message === undefined ? [] : [{ path, message }]));
}

/** Returns what is allowed in a config and probably not meant. */
export const configWarnings = ({ hooks, agents }: Config): Issue[] =>
  unknownToAgents("hooks.tools", hooks.tools, agents.list);

/** Returns a warning for each pattern of a list that narrows the agents' own tools if no agent has a tool that it may name. */
export function unknownToAgents(
  path: string,
  patterns: readonly string[],
  agents: Config["agents"]["list"],
): Issue[] {
  const own = agents.flatMap(({ tools }) => tools.filter((pattern) => !pattern.startsWith("!")));
  return patterns.flatMap((pattern, index) => {
    if (pattern.startsWith("!") || own.some((name) => patternsMeet(name, pattern))) return [];
    const message = `no agent has "${pattern}": this list narrows an agent's own tools and adds none; add it to agents.list[].tools too`;
    return [{ path: `${path}[${index}]`, message }];
  });
}

/** The caller that the operator's own commands are. */
export const OPERATOR_KEY = "operator";

/** The tenant of the documents that the operator adds by the command line, and that hook runs, heartbeats and channels search. */
export const OPERATOR_TENANT = "default";

/** Sessions belong to a key by its id, so that no two may share one. */
function apiKeyIssues(config: Config): Issue[] {
  const issues = findRepeats(config.platform.apiKeys, "platform.apiKeys", "key");
  const agents = getAgentIds(config);
  for (const [index, entry] of config.platform.apiKeys.entries()) {
    const wrong = (field: string, message: string) =>
      issues.push({ path: `platform.apiKeys[${index}]${field}`, message });
    if (entry.id === OPERATOR_KEY) wrong(".id", "is the operator's own; choose another");
    if ((entry.key === undefined) === (entry.hash === undefined))
      wrong("", "needs either `key` or `hash`");
    if (entry.key !== undefined && entry.key.length < MIN_TOKEN)
      wrong(".key", describeShortSecret(entry.key, MIN_TOKEN));
    if (entry.key !== undefined && entry.key === config.gateway.token)
      wrong(".key", "must differ from gateway.token");
    for (const [place, id] of (entry.agents ?? []).entries())
      if (!agents.includes(id))
        wrong(`.agents[${place}]`, `names no agent of agents.list.${didYouMean(id, agents)}`);
  }
  return issues;
}

/** Checks rules over several fields, which a schema of single fields cannot express. Also brings `hooks.path` into its normal form. */
export function checkConfig(config: Config, hasFile: boolean): Issue[] {
  return [
    ...pathIssues(config),
    ...tokenIssues(config, hasFile),
    ...agentIssues(config),
    ...apiKeyIssues(config),
    ...scheduleIssues(config),
    ...sessionKeyIssues(config),
  ];
}
