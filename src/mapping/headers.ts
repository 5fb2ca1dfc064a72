import type { MappingConfig } from "../config/schema/mapping.ts";

type Kind = "headers" | "query";

/** A header or parameter that an expression names: `headers.x`, headers.`x`, `headers["x"]`, `$lookup(headers, "x")`. */
const IN_TEXT: Record<Kind, RegExp> = { headers: naming("headers"), query: naming("query") };

function naming(kind: Kind): RegExp {
  return new RegExp(`\\b${kind}(?:\\s*\\.\\s*(?:\`([^\`]+)\`|"([^"]+)"|([\\w-]+))|\\s*[[,]\\s*(?:"([^"]+)"|'([^']+)'))`, "g");
}

/** Fields whose texts are no expressions. */
const NO_EXPRESSIONS = new Set<keyof MappingConfig>(["auth", "validate", "instructions", "callback"]);

/** All texts of a value, at any depth. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

function conditionNames(conditions: object): string[] {
  return Object.entries(conditions).flatMap(([name, value]) => {
    if (!name.startsWith("$")) return [name];
    return [value as unknown].flat().flatMap((inner) => (typeof inner === "object" && inner !== null ? conditionNames(inner) : []));
  });
}

/**
 * Returns the headers (lower-case) and query parameters that a mapping decides by, renders, or keeps for its module. What
 * an expression takes from `headers` or `query` as a whole is not seen.
 */
export function namesUsed(config: MappingConfig): Record<Kind, string[]> {
  const texts = Object.entries(config).flatMap(([field, value]) =>
    NO_EXPRESSIONS.has(field as keyof MappingConfig) ? [] : textsIn(field === "match" ? config.match.when : value),
  );
  const named = (kind: Kind, conditions: object | undefined, kept: readonly string[]): string[] => {
    const found = texts.flatMap((text) =>
      [...text.matchAll(IN_TEXT[kind])].flatMap((one) => one.slice(1).filter((name) => name !== undefined)),
    );
    return [...conditionNames(conditions ?? {}), ...found, ...kept];
  };
  const headers = named("headers", config.match.headers, config.keepHeaders).map((name) => name.toLowerCase());
  return { headers: [...new Set(headers)], query: [...new Set(named("query", config.match.query, config.keepQuery))] };
}
