import type { Issue } from "../core/errors.ts";
import { findKey, type ProviderDescription } from "./providers.ts";
import type { Config } from "./schema/index.ts";
import { didYouMean } from "./suggest.ts";

/** Checks that a provider exists and speaks OpenAI's formats besides that of chats. */
export function findEndpointIssues(
  path: string,
  name: string,
  { models }: Config,
  kinds: readonly ProviderDescription[],
): Issue[] {
  const able = kinds.filter(({ embeddings }) => embeddings !== undefined);
  const provider = Object.hasOwn(models.providers, name) ? models.providers[name] : undefined;
  if (provider === undefined) {
    // With its key in the environment a provider needs no entry.
    if (able.some(({ fromEnvironment }) => fromEnvironment?.name === name)) return [];
    return [
      {
        path,
        message: `models.providers has no "${name.slice(0, 60)}".${didYouMean(name, [...Object.keys(models.providers), ...able.flatMap(({ fromEnvironment }) => fromEnvironment?.name ?? [])])}`,
      },
    ];
  }
  const kind = kinds.find(({ type }) => type === provider.type);
  if (kind === undefined || kind.embeddings !== undefined) return [];
  return [
    {
      path,
      message: `must be a provider of type ${able.map(({ type }) => `\`${type}\``).join(" or ")}`,
    },
  ];
}

/** The address of a provider that speaks OpenAI's formats, and the headers of each request. */
export interface Endpoint {
  /** Ends before the path of a method (`https://api.openai.com/v1`). */
  baseUrl: string;
  headers: Record<string, string>;
  apiKey?: string;
}

/** Finds the endpoint of a provider; undefined if it has no address. */
export function findEndpoint(
  name: string,
  {
    config,
    env,
    kinds,
  }: {
    config: Config;
    env: Record<string, string | undefined>;
    kinds: readonly ProviderDescription[];
  },
): Endpoint | undefined {
  const provider = Object.hasOwn(config.models.providers, name)
    ? config.models.providers[name]
    : undefined;
  const kind = kinds.find(({ type, fromEnvironment }) =>
    provider ? type === provider.type : fromEnvironment?.name === name,
  );
  const baseUrl = provider?.baseUrl ?? kind?.embeddings?.baseUrl;
  const apiKey = provider?.apiKey ?? (kind && findKey(kind, env));
  if (baseUrl === undefined) return undefined;
  return { baseUrl, headers: provider?.headers ?? {}, ...(apiKey === undefined ? {} : { apiKey }) };
}
