import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readVariable } from "./environment.ts";
import type { Config } from "./schema/index.ts";

/** The description of a kind of model provider. The file `plugins/providers.json` has it of those that ship, so that none has to be loaded for it. */
export interface ProviderDescription {
  /** The value of `models.providers.<name>.type`. */
  type: string;
  /** A provider that needs no entry in the config if one of `variables` is set. The first that is set holds the key. */
  fromEnvironment?: {
    name: string;
    title: string;
    variables: readonly string[];
    defaultModel: string;
  };
  /** It answers `POST /embeddings` in the format of OpenAI; `baseUrl` is the default for the address before `/embeddings`. */
  embeddings?: { baseUrl?: string };
  /** `gen_ai.provider.name` of its spans, as the conventions of OpenTelemetry name the provider. Default: the type. */
  genAiName?: string;
}

/** A kind of model provider that ships, and the folder of its plugin. */
export interface ShippedProvider extends ProviderDescription {
  plugin: string;
}

/** Reads a list about Rouse's own plugins. In the built package it lies beside the folder of built files. */
export function readShippedList(builtinDir: string, name: string): unknown[] {
  const file = [join(builtinDir, name), join(builtinDir, "..", "..", "plugins", name)].find(
    (path) => existsSync(path),
  );
  return file === undefined ? [] : (JSON.parse(readFileSync(file, "utf8")) as unknown[]);
}

/** Describes the kinds of model providers that ship, without loading any. */
export const readProviders = (builtinDir: string): ShippedProvider[] =>
  readShippedList(builtinDir, "providers.json") as ShippedProvider[];

/** Returns the key of a kind of provider in the environment. */
export function findKey(
  { fromEnvironment }: ProviderDescription,
  env: Record<string, string | undefined>,
): string | undefined {
  return fromEnvironment?.variables
    .map((name) => readVariable(env, name))
    .find((value) => value !== undefined && value !== "");
}

/** A provider that needs nothing but a key in the environment. */
export type EnvironmentProvider = NonNullable<ProviderDescription["fromEnvironment"]> &
  Pick<ProviderDescription, "type">;

/** Lists the providers that need nothing but a key in the environment, of those that ship. */
export const readEnvironmentProviders = (builtinDir: string): EnvironmentProvider[] =>
  readProviders(builtinDir).flatMap(({ type, fromEnvironment }) =>
    fromEnvironment ? [{ type, ...fromEnvironment }] : [],
  );

/** Returns the types that the config names, or whose key is in the environment. */
export function getUsedProviders(
  kinds: readonly ProviderDescription[],
  { models }: Config,
  env: Record<string, string | undefined>,
): ReadonlySet<string> {
  const named = Object.values(models.providers).map(({ type }) => type);
  return new Set([
    ...named,
    ...kinds.filter((kind) => findKey(kind, env) !== undefined).map(({ type }) => type),
  ]);
}
