import { findKey } from "../config/providers.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import type { ModelChoice } from "../config/schema/agents.ts";
import type {
  ModelPrice,
  ModelProvider,
  ModelSettings,
  ProviderDescription,
} from "../contract/kinds.ts";
import type {
  AgentExtensions,
  ModelCandidate,
  ModelResolution,
  Models,
  NamedProvider,
  ResolvedModel,
  SdkModel,
} from "./types.ts";

/** The model that is there when none is configured. It calls nothing and never pretends. */
export const ECHO = { ref: "builtin/echo", provider: "builtin", model: "echo" } as const;

/** A kind of provider. If neither the config nor the environment asks for it, only the description is there. */
export type ProviderKind = ProviderDescription | ModelProvider;

export const isLoaded = (kind: ProviderKind | undefined): kind is ModelProvider =>
  kind !== undefined && "create" in kind;

/** Returns the kinds of providers that ship, in their order and loaded if they are offered, then those of other plugins. */
export function mergeProviders(
  shipped: readonly ProviderKind[],
  offers: AgentExtensions["providers"],
): ProviderKind[] {
  const offered = offers.map(({ value }) => value);
  const known = shipped.map((kind) => offered.find(({ type }) => type === kind.type) ?? kind);
  return [...known, ...offered.filter(({ type }) => !shipped.some((kind) => kind.type === type))];
}

const NO_FALLBACK = "builtin/echo answers always, so that it cannot be a fallback";

type Provider = Config["models"]["providers"][string];

function toSettings(name: string, { baseUrl, apiKey, headers }: Provider): ModelSettings {
  return {
    name,
    headers,
    ...(baseUrl !== undefined && { baseUrl }),
    ...(apiKey !== undefined && { apiKey }),
  };
}

/** Checks what the config says of each provider. With `isIncomplete`, a plugin that could not be loaded may offer an unknown type. */
function providerIssues(
  { models }: Config,
  kinds: readonly ProviderKind[],
  isIncomplete: boolean,
): Issue[] {
  const types = kinds.map(({ type }) => type);
  return Object.entries(models.providers).flatMap(([name, provider]): Issue[] => {
    const path = `models.providers.${name}`;
    const kind = kinds.find(({ type }) => type === provider.type);
    if (isLoaded(kind)) {
      const problems = kind.check?.(toSettings(name, provider)) ?? [];
      return problems.map(({ field, message }) => ({ path: `${path}.${field}`, message }));
    }
    if (kind || isIncomplete) return [];
    return [
      {
        path: `${path}.type`,
        message: `no plugin has this type: use ${types.join(", ")}.${didYouMean(provider.type, types)}`,
      },
    ];
  });
}

/** The window of a model whose config does not state it. */
const DEFAULT_CONTEXT_TOKENS = 128_000;

/** Returns the names of a choice, the first one first, with their paths. */
function getNames(path: string, choice: ModelChoice | undefined): [path: string, name: string][] {
  if (choice === undefined) return [];
  if (typeof choice === "string") return [[path, choice]];
  return [
    [`${path}.primary`, choice.primary],
    ...choice.fallbacks.map((name, at): [string, string] => [`${path}.fallbacks[${at}]`, name]),
  ];
}

/** Returns the models that the config names for agents, by their paths. */
function getNamedModels({ agents }: Config): [path: string, name: string][] {
  return [
    ...getNames("agents.defaults.model", agents.defaults.model),
    ...getNames("agents.defaults.heartbeat.model", agents.defaults.heartbeat.model),
    ...agents.list.flatMap((agent, index) => getNames(`agents.list[${index}].model`, agent.model)),
  ];
}

/** The day at the end of the id of a dated model: `-20250929`, `-2025-08-07`. */
const DATED = /-\d{4}-?\d{2}-?\d{2}$/;

/** Makes what looks a price up: in the config, then in the list of the provider's plugin, there also without the date of a model. */
function createPriceList(
  prices: Config["models"]["prices"],
  providers: ReadonlyMap<string, Provider>,
  kinds: readonly ProviderKind[],
): Models["getPrice"] {
  return ({ ref, provider, model }) => {
    if (ref === ECHO.ref) return { input: 0, output: 0 };
    const kind = kinds.find(({ type }) => type === providers.get(provider)?.type);
    const list = isLoaded(kind) ? kind.prices?.models : undefined;
    return [prices[ref], list?.[model], list?.[model.replace(DATED, "")]].find(
      (price) => price !== undefined,
    ) as ModelPrice | undefined;
  };
}

/** Makes what resolves the name of one model: an alias counts as its first model, with the next ones as fallbacks. */
function createResolver(
  { aliases }: Config["models"],
  providers: ReadonlyMap<string, Provider>,
  kinds: readonly ProviderKind[],
): Models["resolve"] {
  const ready = kinds.flatMap(({ fromEnvironment }) => fromEnvironment ?? []);
  const describeMissing = (provider: string): string => {
    const known = ready.find(({ name }) => name === provider);
    if (known)
      return `${known.title} needs a key: set ${known.variables[0]}, or add models.providers.${provider}`;
    const names = [...Object.keys(aliases), ...providers.keys(), ...ready.map(({ name }) => name)];
    return `models.providers has no "${provider.slice(0, 60)}".${didYouMean(provider, names)}`;
  };
  const resolveRef = (ref: string): ModelResolution => {
    const slash = ref.indexOf("/");
    const provider = ref.slice(0, slash);
    const model = ref.slice(slash + 1);
    if (ref === ECHO.ref) return { ok: true, model: ECHO };
    if (slash > 0 && model !== "" && providers.has(provider))
      return { ok: true, model: { ref, provider, model } };
    const message =
      slash > 0
        ? describeMissing(provider)
        : `name \`<provider>/<model>\` or an alias of models.aliases.${didYouMean(ref, [...Object.keys(aliases), ...providers.keys()])}`;
    return { ok: false, code: "unknown_model", message };
  };
  /** The references that a name stands for, in order. An alias stands for no other alias. */
  const expand = (name: string): string[] => {
    const choice = Object.hasOwn(aliases, name) ? aliases[name] : name;
    return getNames("", choice).map(([, ref]) => ref);
  };
  return (name, fallbacks = []) => {
    const [first = name, ...others] = [...new Set([name, ...fallbacks].flatMap(expand))];
    const found = resolveRef(first);
    if (!found.ok || found.model.ref === ECHO.ref || others.length === 0) return found;
    const rest: ResolvedModel[] = [];
    for (const ref of others) {
      const next = resolveRef(ref);
      if (!next.ok) return next;
      if (next.model.ref !== ECHO.ref) rest.push(next.model);
    }
    return { ok: true, model: { ...found.model, fallbacks: rest } };
  };
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
    if (!providers.has(name))
      providers.set(name, { type: kind.type, apiKey, headers: {}, images: true });
    if (defaultModel === ECHO) defaultModel = { ref: `${name}/${model}`, provider: name, model };
  }
  return { providers, defaultModel };
}

/** Returns a model with its provider; undefined if that is gone or not loaded. */
function toCandidate(
  model: ResolvedModel,
  providers: ReadonlyMap<string, Provider>,
  kinds: readonly ProviderKind[],
  getPrice: Models["getPrice"],
): ModelCandidate | undefined {
  const provider = providers.get(model.provider);
  const kind = kinds.find(({ type }) => type === provider?.type);
  if (!provider || !isLoaded(kind)) return undefined;
  const price = getPrice(model);
  const { contextTokens, images } = provider;
  const window = typeof contextTokens === "object" ? contextTokens[model.model] : contextTokens;
  return {
    model,
    provider: { kind, settings: toSettings(model.provider, provider) },
    contextTokens: window ?? DEFAULT_CONTEXT_TOKENS,
    isWindowKnown: window !== undefined,
    hasImages: typeof images === "boolean" ? images : images.includes(model.model),
    ...(price && { price }),
  };
}

interface ModelOptions {
  config: Config;
  env: Record<string, string | undefined>;
  kinds: readonly ProviderKind[];
  /** True if a plugin could not be loaded. */
  isIncomplete?: boolean;
}

/** Resolves names to `provider/model`, over the config's providers and those whose key is in the environment. */
export function createModels({ config, env, kinds, isIncomplete = false }: ModelOptions) {
  const found = findProviders(config, kinds, env);
  const { providers } = found;
  let { defaultModel } = found;
  const issues = providerIssues(config, kinds, isIncomplete);

  const resolve = createResolver(config.models, providers, kinds);
  const check = (path: string, name: string): ResolvedModel | undefined => {
    const found = resolve(name);
    if (found.ok) return found.model;
    issues.push({ path, message: found.message });
    return undefined;
  };

  for (const alias of Object.keys(config.models.aliases)) check(`models.aliases.${alias}`, alias);
  for (const name of Object.keys(config.models.prices)) {
    const path = `models.prices.${name}`;
    if (name.includes("/")) check(path, name);
    else issues.push({ path, message: "name the model as `<provider>/<model>`" });
  }
  for (const [path, name] of getNamedModels(config)) {
    const model = check(path, name);
    if (path.includes(".fallbacks[") && model?.ref === ECHO.ref)
      issues.push({ path, message: NO_FALLBACK });
    if (model && /^agents\.defaults\.model(?:\.primary)?$/.test(path)) defaultModel = model;
  }
  const allowed = config.agents.defaults.models?.map(
    (name, index) => check(`agents.defaults.models[${index}]`, name)?.ref ?? name,
  );
  const getPrice = createPriceList(config.models.prices, providers, kinds);
  /** Returns the model and its fallbacks with their providers; without those whose provider is gone or not loaded. */
  const candidates = (model: ResolvedModel): ModelCandidate[] =>
    [model, ...(model.fallbacks ?? [])].flatMap(
      (one) => toCandidate(one, providers, kinds, getPrice) ?? [],
    );
  const models: Models = {
    resolve,
    getWindow: (model) => (model && candidates(model)[0]?.contextTokens) ?? DEFAULT_CONTEXT_TOKENS,
    getPrice,
    resolveRequested(name) {
      const found = resolve(name);
      if (!found.ok || !allowed || allowed.includes(found.model.ref)) return found;
      const message =
        allowed.length === 0
          ? "agents.defaults.models is empty: no other model may be chosen"
          : "is not in agents.defaults.models";
      return { ok: false, code: "model_not_allowed", message };
    },
    default: defaultModel,
    providers: [...providers].map(([id, { type }]) => ({ id, type })),
    kinds,
  };
  return { models, candidates, issues };
}

const MAX_KEPT = 64;

/**
 * Makes models. A model makes its schemas when it is made, which costs more than many a turn, so that turns share it.
 * The provider's package is loaded when a turn first needs it.
 */
export function createModelCache(
  fetcher: typeof fetch,
): (candidate: ModelCandidate) => Promise<SdkModel> {
  const factories = new Map<string, ReturnType<NamedProvider["kind"]["create"]>>();
  const kept = new Map<string, Promise<SdkModel>>();
  return ({ provider: { kind, settings }, model: { model } }) => {
    const ref = `${settings.name}/${model}`;
    const create = factories.get(settings.name) ?? kind.create(settings, { fetch: fetcher });
    factories.set(settings.name, create);
    create.catch(() => factories.delete(settings.name));
    const known = kept.get(ref) ?? create.then((makeModel) => makeModel(model) as SdkModel);
    known.catch(() => kept.delete(ref));
    // Callers may name as many as they like.
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(ref, known);
    return known;
  };
}
