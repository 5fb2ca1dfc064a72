import { findKey } from "../config/providers.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import type { ModelProvider, ModelSettings } from "../contract/kinds.ts";
import { ECHO } from "./no-model.ts";
import { isLoaded, type ProviderKind } from "./providers.ts";
import type { ModelResolution, Models, ResolvedModel } from "./types.ts";

type Provider = Config["models"]["providers"][string];

/** A provider by its name, with what its plugin makes models of. */
export interface NamedProvider {
  kind: ModelProvider;
  settings: ModelSettings;
  contextTokens: number | undefined;
}

export interface ModelSet {
  models: Models;
  /** A provider by its name; undefined if there is none, or its kind is not loaded. */
  provider(name: string): NamedProvider | undefined;
  issues: Issue[];
}

function toSettings(name: string, { baseUrl, apiKey, headers }: Provider): ModelSettings {
  return { name, headers, ...(baseUrl !== undefined && { baseUrl }), ...(apiKey !== undefined && { apiKey }) };
}

/** Checks what the config says of each provider. With `isIncomplete`, a plugin that could not be loaded may offer an unknown type. */
function providerIssues({ models }: Config, kinds: readonly ProviderKind[], isIncomplete: boolean): Issue[] {
  const types = kinds.map(({ type }) => type);
  return Object.entries(models.providers).flatMap(([name, provider]): Issue[] => {
    const path = `models.providers.${name}`;
    const kind = kinds.find(({ type }) => type === provider.type);
    if (isLoaded(kind)) {
      const problems = kind.check?.(toSettings(name, provider)) ?? [];
      return problems.map(({ field, message }) => ({ path: `${path}.${field}`, message }));
    }
    if (kind || isIncomplete) return [];
    return [{ path: `${path}.type`, message: `no plugin has this type: use ${types.join(", ")}.${didYouMean(provider.type, types)}` }];
  });
}

/** Returns the models that the config names for agents, by their paths. */
function getNamedModels({ agents }: Config): [string, string | undefined][] {
  return [
    ["agents.defaults.model", agents.defaults.model],
    ["agents.defaults.heartbeat.model", agents.defaults.heartbeat.model],
    ...agents.list.map((agent, index): [string, string | undefined] => [`agents.list[${index}].model`, agent.model]),
  ];
}

/** Returns the config's providers and those whose key is in the environment. The first of the latter has the default model. */
function findProviders(
  { models }: Config,
  kinds: readonly ProviderKind[],
  env: ModelOptions["env"],
): { providers: Map<string, Provider>; defaultModel: ResolvedModel } {
  const providers = new Map<string, Provider>(Object.entries(models.providers));
  let defaultModel: ResolvedModel = ECHO;
  for (const kind of kinds) {
    const apiKey = findKey(kind, env);
    if (apiKey === undefined || !kind.fromEnvironment) continue;
    const { name, defaultModel: model } = kind.fromEnvironment;
    if (!providers.has(name)) providers.set(name, { type: kind.type, apiKey, headers: {} });
    if (defaultModel === ECHO) defaultModel = { ref: `${name}/${model}`, provider: name, model };
  }
  return { providers, defaultModel };
}

export interface ModelOptions {
  config: Config;
  env: Record<string, string | undefined>;
  kinds: readonly ProviderKind[];
  /** Whether a plugin could not be loaded. */
  isIncomplete?: boolean;
}

/** Resolves names to `provider/model`, over the config's providers and those whose key is in the environment. */
export function createModels({ config, env, kinds, isIncomplete = false }: ModelOptions): ModelSet {
  const found = findProviders(config, kinds, env);
  const { providers } = found;
  let { defaultModel } = found;
  const issues = providerIssues(config, kinds, isIncomplete);

  const resolve = (name: string): ModelResolution => {
    const { aliases } = config.models;
    const ref = Object.hasOwn(aliases, name) ? (aliases[name] as string) : name;
    const slash = ref.indexOf("/");
    const provider = ref.slice(0, slash);
    const model = ref.slice(slash + 1);
    if (ref === ECHO.ref) return { ok: true, model: ECHO };
    if (slash > 0 && model !== "" && providers.has(provider)) return { ok: true, model: { ref, provider, model } };
    const known = [...Object.keys(aliases), ...providers.keys()];
    const hint = didYouMean(slash > 0 ? provider : ref, known);
    const message =
      slash > 0 ? `models.providers has no such provider.${hint}` : `name \`<provider>/<model>\` or an alias of models.aliases.${hint}`;
    return { ok: false, code: "unknown_model", message };
  };

  for (const alias of Object.keys(config.models.aliases)) {
    const found = resolve(alias);
    if (!found.ok) issues.push({ path: `models.aliases.${alias}`, message: found.message });
  }
  for (const [path, name] of getNamedModels(config)) {
    const found = name === undefined ? undefined : resolve(name);
    if (found && !found.ok) issues.push({ path, message: found.message });
    if (found?.ok && path === "agents.defaults.model") defaultModel = found.model;
  }
  const allowed = config.agents.defaults.models?.map((name, index) => {
    const found = resolve(name);
    if (!found.ok) issues.push({ path: `agents.defaults.models[${index}]`, message: found.message });
    return found.ok ? found.model.ref : name;
  });
  const models: Models = {
    resolve,
    resolveRequested(name) {
      const found = resolve(name);
      if (!found.ok || !allowed || allowed.includes(found.model.ref)) return found;
      const message =
        allowed.length === 0 ? "agents.defaults.models is empty: no other model may be chosen" : "is not in agents.defaults.models";
      return { ok: false, code: "model_not_allowed", message };
    },
    default: defaultModel,
    providers: [...providers].map(([id, { type }]) => ({ id, type })),
    kinds,
  };
  return {
    models,
    provider(name) {
      const provider = providers.get(name);
      const kind = kinds.find(({ type }) => type === provider?.type);
      return provider && isLoaded(kind) ? { kind, settings: toSettings(name, provider), contextTokens: provider.contextTokens } : undefined;
    },
    issues,
  };
}
