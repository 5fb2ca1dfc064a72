import type { ProviderDescription } from "../config/providers.ts";
import type { ModelProvider } from "../contract/kinds.ts";
import type { AgentExtensions } from "./context.ts";

/** A kind of provider. If neither the config nor the environment asks for it, only the description is there. */
export type ProviderKind = ProviderDescription | ModelProvider;

export const isLoaded = (kind: ProviderKind | undefined): kind is ModelProvider =>
  kind !== undefined && "create" in kind;

/** Returns the kinds of providers that ship, in their order and loaded if they are offered, then those of other plugins. */
export function mergeProviders(
  shipped: readonly ProviderDescription[],
  offers: AgentExtensions["providers"],
): ProviderKind[] {
  const offered = offers.map(({ value }) => value);
  const known = shipped.map((kind) => offered.find(({ type }) => type === kind.type) ?? kind);
  return [...known, ...offered.filter(({ type }) => !shipped.some((kind) => kind.type === type))];
}
