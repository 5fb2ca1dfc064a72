import { findEndpoint, findEndpointIssues } from "../../config/endpoints.ts";
import type { Config } from "../../config/schema/index.ts";
import type { Issue } from "../../core/errors.ts";
import type { ProviderDescription } from "../../contract/kinds.ts";
import { createEmbedder } from "./embed.ts";
import { createReranker } from "./rerank.ts";
import type { SearchModels } from "../types.ts";

/** The settings of `platform.knowledge` that name a model. */
const MODELS = ["embeddings", "reranker"] as const;

/** Checks that the models of search come from providers that can have them. */
export const searchModelIssues = (config: Config, kinds: readonly ProviderDescription[]): Issue[] =>
  MODELS.flatMap((name) => {
    const model = config.platform.knowledge[name];
    return model
      ? findEndpointIssues(`platform.knowledge.${name}.provider`, model.provider, config, kinds)
      : [];
  });

export interface SearchModelOptions {
  config: Config;
  env: Record<string, string | undefined>;
  fetch: typeof fetch;
  /** The kinds of providers that plugins offer. */
  kinds: readonly ProviderDescription[];
}

/** Creates the models that `platform.knowledge` names. One whose provider has no address is left out. */
export function configuredSearchModels({
  config,
  env,
  fetch,
  kinds,
}: SearchModelOptions): SearchModels {
  const { embeddings, reranker } = config.platform.knowledge;
  const embedAt = embeddings && findEndpoint(embeddings.provider, { config, env, kinds });
  const rerankAt = reranker && findEndpoint(reranker.provider, { config, env, kinds });
  return {
    ...(embedAt && { embed: createEmbedder({ ...embedAt, ...embeddings, fetch }) }),
    ...(rerankAt && { rerank: createReranker({ ...rerankAt, ...reranker, fetch }) }),
  };
}
