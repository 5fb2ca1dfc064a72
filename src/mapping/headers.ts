import type { MappingConfig } from "../config/schema/mapping.ts";

const IN_TEXT = /\bheaders(?:\.`([^`]+)`|\.([\w-]+)|\[\s*["']([\w-]+)["']\s*\])/g;

function conditionNames(conditions: object): string[] {
  return Object.entries(conditions).flatMap(([name, value]) => {
    if (!name.startsWith("$")) return [name.toLowerCase()];
    return [value as unknown].flat().flatMap((inner) => (typeof inner === "object" && inner !== null ? conditionNames(inner) : []));
  });
}

/** Lower-case names of the headers that a mapping decides by or renders; what a module reads is not seen. */
export function headersUsed(config: MappingConfig): string[] {
  const { match, transform, ...rest } = config;
  const texts = [match.when, transform && "jsonata" in transform ? transform.jsonata : undefined, ...Object.values(rest).flat()];
  const named = texts.flatMap((text) =>
    typeof text === "string" ? [...text.matchAll(IN_TEXT)].map((found) => (found[1] ?? found[2] ?? found[3] ?? "").toLowerCase()) : [],
  );
  return [...new Set([...conditionNames(match.headers ?? {}), ...named])];
}
