import { findKey } from "../config/providers.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import type { ProviderDescription } from "../contract/kinds.ts";
import { createEmbedder } from "./embed.ts";
import type { Embedder } from "./types.ts";

/** Checks that embeddings come from a provider that has them. */
export function embeddingIssues({ platform, models }: Config, kinds: readonly ProviderDescription[]): Issue[] {
  const name = platform.knowledge.embeddings?.provider;
  if (name === undefined) return [];
  const path = "platform.knowledge.embeddings.provider";
  const able = kinds.filter(({ embeddings }) => embeddings !== undefined);
  const provider = Object.hasOwn(models.providers, name) ? models.providers[name] : undefined;
  if (provider === undefined) {
    // With its key in the environment a provider needs no entry.
    if (able.some(({ fromEnvironment }) => fromEnvironment?.name === name)) return [];
    return [{ path, message: `models.providers has no such provider.${didYouMean(name, Object.keys(models.providers))}` }];
  }
  const kind = kinds.find(({ type }) => type === provider.type);
  if (kind === undefined || kind.embeddings !== undefined) return [];
  return [{ path, message: `must be a provider of type ${able.map(({ type }) => `\`${type}\``).join(" or ")}` }];
}

export interface EmbedderOptions {
  config: Config;
  env: Record<string, string | undefined>;
  fetch: typeof fetch;
  /** The kinds of providers that plugins offer. */
  kinds: readonly ProviderDescription[];
}

/** Creates the embedder that `platform.knowledge.embeddings` names; undefined if it names none, or the provider has no address. */
export function configuredEmbedder({ config, env, fetch, kinds }: EmbedderOptions): Embedder | undefined {
  const { embeddings } = config.platform.knowledge;
  if (embeddings === undefined) return undefined;
  const { model, provider: name } = embeddings;
  const provider = Object.hasOwn(config.models.providers, name) ? config.models.providers[name] : undefined;
  const kind = kinds.find(({ type, fromEnvironment }) => (provider ? type === provider.type : fromEnvironment?.name === name));
  const baseUrl = provider?.baseUrl ?? kind?.embeddings?.baseUrl;
  const apiKey = provider?.apiKey ?? (kind && findKey(kind, env));
  if (baseUrl === undefined) return undefined;
  return createEmbedder({ baseUrl, model, headers: provider?.headers ?? {}, fetch, ...(apiKey === undefined ? {} : { apiKey }) });
}
