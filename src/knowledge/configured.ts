import { findEndpoint, findEndpointIssues } from "../config/endpoints.ts";
import type { Config } from "../config/schema/index.ts";
import type { Issue } from "../core/errors.ts";
import type { ProviderDescription } from "../contract/kinds.ts";
import { createEmbedder } from "./embed.ts";
import type { Embedder } from "./types.ts";

/** Checks that embeddings come from a provider that has them. */
export function embeddingIssues(config: Config, kinds: readonly ProviderDescription[]): Issue[] {
  const { embeddings } = config.platform.knowledge;
  return embeddings ? findEndpointIssues("platform.knowledge.embeddings.provider", embeddings.provider, config, kinds) : [];
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
  const endpoint = embeddings && findEndpoint(embeddings.provider, { config, env, kinds });
  return endpoint && createEmbedder({ ...endpoint, model: embeddings.model, fetch });
}
