import type { MappingConfig } from "../config/schema/mapping.ts";
import type { ConditionPart, Truth } from "./condition.ts";
import type { NamedMapping } from "./source.ts";
import type { Template } from "./template.ts";
import type { CompiledTransform } from "./transforms/transform.ts";
import type { Expression, Path, TemplateContext } from "./template-context.ts";
import type { MappingInfo, MappingSettings } from "./types.ts";
import type { Validator } from "./validate.ts";

/** Fields that are templates, besides the message or the text. */
export const TEMPLATE_FIELDS = [
  "name",
  "sessionKey",
  "to",
  "model",
  "thinking",
  "channel",
  "agentId",
] as const;

/** `when` failed: no later mapping is tried. */
export interface MatchFailed {
  failed: string;
}

/** A payload field that must equal one of some values for the match to hold. */
export interface Equality {
  field: string;
  path: Path;
  values: readonly (string | number | boolean | null)[];
}

export interface CompiledMatch {
  readonly paths: readonly string[] | undefined;
  readonly equalities: readonly Equality[];
  /** The conditions on source, headers, parameters and payload, with their places: `match.payload.action`. */
  readonly checks: readonly ConditionPart<TemplateContext>[];
  /** Everything but the path. */
  test(scope: TemplateContext): Truth | MatchFailed | Promise<Truth | MatchFailed>;
  readonly when: Expression | undefined;
}

/** One mapping, ready to run. */
export interface CompiledMapping {
  readonly config: NamedMapping;
  /** All that is written of it: mappings with equal texts decide alike if the rest of their configs is equal. */
  readonly written: string;
  readonly info: MappingInfo;
  readonly match: CompiledMatch;
  readonly validate: Validator | undefined;
  readonly forEach: Expression | undefined;
  readonly content: Template | undefined;
  readonly fields: readonly { field: (typeof TEMPLATE_FIELDS)[number]; template: Template }[];
  readonly dedupeKey: Template | undefined;
  /** The event's name. */
  readonly event: Template | undefined;
  /** The events that are wanted; undefined: all. */
  readonly events: readonly string[] | undefined;
  /** The rules that recognize an event which the agent has caused. */
  readonly self:
    | undefined
    | {
        from: readonly Path[];
        text: readonly Path[];
        accounts: ReadonlySet<string>;
        marker: string | undefined;
      };
  readonly coalesceKey: Template | undefined;
  readonly settings: MappingSettings;
  readonly transform: CompiledTransform | undefined;
  /** Position among all mappings. */
  readonly order: number;
}

/** Fields that mean nothing for an action; a transform may set the other one, so they are checked only without. */
export const UNUSED_KEYS: Record<"wake" | "agent", readonly (keyof MappingConfig)[]> = {
  wake: [
    "messageTemplate",
    "sessionKey",
    "summary",
    "deliver",
    "channel",
    "to",
    "model",
    "thinking",
    "timeoutSeconds",
    "instructions",
    "tools",
    "approve",
    "name",
    "limits",
    "coalesce",
    "callback",
  ],
  agent: ["textTemplate"],
};
