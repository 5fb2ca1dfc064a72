import type { PathRules } from "../mapping/types.ts";
import type { Snapshot } from "./types.ts";

/** The largest body of a path: its own, else that of all hooks, or what its sender sends if that is larger. */
export function getMaxBodyBytes(
  path: string,
  { mappings, verifiers, config }: Pick<Snapshot, "mappings" | "verifiers" | "config">,
): number {
  const largest = verifiers.get(path)?.sender?.maxBodyBytes ?? 0;
  return mappings.rules.get(path)?.maxBodyBytes ?? Math.max(largest, config.hooks.maxBodyBytes);
}

/** The place in the config of what a path says about its requests: of its mapping, or of its preset. */
export const getRulesAt = ({ path, authAt = path }: PathRules): string =>
  authAt.replace(/\.auth$/, "");
