import { KNOWN_PROVIDERS } from "../config/providers.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { ECHO } from "./echo.ts";
import type { ModelResolution, Models, ResolvedModel } from "./types.ts";

type Provider = Config["models"]["providers"][string];

export interface ModelSet {
  models: Models;
  /** The settings of a provider, by id. */
  provider(id: string): Provider | undefined;
  issues: Issue[];
}

/** Resolves names to `provider/model`, over the config's providers and those whose key is in the environment. */
export function createModels(config: Config, env: Record<string, string | undefined>): ModelSet {
  const providers = new Map<string, Provider>(Object.entries(config.models.providers));
  const issues: Issue[] = [];
  let standard: ResolvedModel = ECHO;
  for (const { id, type, keys, model } of KNOWN_PROVIDERS) {
    const apiKey = keys.map((key) => env[key]).find((key) => key !== undefined && key !== "");
    if (apiKey === undefined) continue;
    if (!providers.has(id)) providers.set(id, { type, apiKey, headers: {} });
    if (standard === ECHO) standard = { ref: `${id}/${model}`, provider: id, model };
  }
  for (const [id, provider] of Object.entries(config.models.providers)) {
    if (provider.type === "openai-compatible" && provider.baseUrl === undefined)
      issues.push({ path: `models.providers.${id}.baseUrl`, message: "is required for type openai-compatible" });
  }

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
  const named: [string, string | undefined][] = [
    ["agents.defaults.model", config.agents.defaults.model],
    ["agents.defaults.heartbeat.model", config.agents.defaults.heartbeat.model],
    ...config.agents.list.map((agent, index): [string, string | undefined] => [`agents.list[${index}].model`, agent.model]),
  ];
  for (const [path, name] of named) {
    const found = name === undefined ? undefined : resolve(name);
    if (found && !found.ok) issues.push({ path, message: found.message });
    if (found?.ok && path === "agents.defaults.model") standard = found.model;
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
    standard,
    providers: [...providers].map(([id, { type }]) => ({ id, type })),
  };
  return { models, provider: (id) => providers.get(id), issues };
}
