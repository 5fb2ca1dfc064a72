/**
 * Types for transform modules: `import type { Transform } from "rouse/transform"` (`#transform` inside Rouse). A module
 * exports a function as default, as `transform`, or under the name that the mapping's `export` gives.
 */
import type { Thinking, WakeMode } from "../config/schema/common.ts";

/**
 * Outside JSON that can be looked into without casts: any member of it is again such a value.
 * The one deliberate hole in the types: what a sender puts into a body is not known when a transform is written.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- see above
export type Json = any;

export interface TransformInput {
  payload: Json;
  /** Lower-case names; without any that carry a credential. */
  headers: Record<string, string>;
  query: Record<string, string | string[]>;
  /** The hook's path below the base. */
  path: string;
  /** With `forEach`: this item and its position. */
  item?: Json;
  index?: number;
  /** With `coalesce`: the payloads that were collected, oldest first, how many, the first and the last. */
  events?: Json[];
  count?: number;
  first?: Json;
  last?: Json;
  /** Milliseconds since the epoch. */
  now: number;
}

/** Fields that a transform sets; they take the place of the template's. */
export interface PartialAction {
  action?: "wake" | "agent";
  /** Another name of `action`. */
  kind?: "wake" | "agent";
  message?: string;
  text?: string;
  name?: string;
  agentId?: string;
  sessionKey?: string;
  /** The operator's own words, outside the boundary: never put a sender's text here. */
  instructions?: string;
  wakeMode?: WakeMode;
  /** Another name of `wakeMode`. */
  mode?: WakeMode;
  deliver?: boolean;
  channel?: string;
  to?: string;
  model?: string;
  thinking?: Thinking;
  timeoutSeconds?: number;
  dedupeKey?: string;
}

/** One action, several, or `null` to skip the event. */
export type TransformResult = PartialAction | PartialAction[] | null | undefined;
export type Transform = (input: TransformInput) => TransformResult | Promise<TransformResult>;

/** Marks a transform, for editors. Returns it as it is. */
export function defineTransform(transform: Transform): Transform {
  return transform;
}
