import type { Config } from "../config/schema/index.ts";
import { isPostgres } from "../store/postgres/address.ts";
import { createEmbedder } from "./embed.ts";
import type { Embedder } from "./types.ts";

const OPENAI = "https://api.openai.com/v1";

/** PostgreSQL's URL, where the store is there, and the documents with it. */
export const sharedUrl = ({ store: { url } }: Config): string | undefined => (url !== undefined && isPostgres(url) ? url : undefined);

/** The embedder that `platform.knowledge.embeddings` names; undefined where it names none, or the provider has no address. */
export function configuredEmbedder(config: Config, env: Record<string, string | undefined>, request: typeof fetch): Embedder | undefined {
  const { embeddings } = config.platform.knowledge;
  if (embeddings === undefined) return undefined;
  const { model, provider: id } = embeddings;
  const provider = Object.hasOwn(config.models.providers, id) ? config.models.providers[id] : undefined;
  const isOpenAi = provider === undefined ? id === "openai" : provider.type === "openai";
  const baseUrl = provider?.baseUrl ?? (isOpenAi ? OPENAI : undefined);
  const apiKey = provider?.apiKey ?? (isOpenAi ? env["OPENAI_API_KEY"] : undefined);
  if (baseUrl === undefined) return undefined;
  return createEmbedder({ baseUrl, model, headers: provider?.headers ?? {}, fetch: request, ...(apiKey === undefined ? {} : { apiKey }) });
}
