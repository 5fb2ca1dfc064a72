/** The parts of a zod schema by which values are walked: objects, records, lists, unions, and what is wrapped around them. */
interface Definition {
  shape?: Record<string, unknown>;
  element?: unknown;
  valueType?: unknown;
  innerType?: unknown;
  in?: unknown;
  options?: unknown[];
}

const getDefinition = (schema: unknown): Definition =>
  (schema as { def?: Definition } | undefined)?.def ?? {};

/** Returns whether values of a schema are secrets. */
export const isSecret = (schema: unknown): boolean =>
  (schema as { meta?: () => { secret?: unknown } | undefined } | undefined)?.meta?.()?.secret ===
  true;

const alternatives = new WeakMap<object, readonly unknown[]>();

/** The schemas that a value of a schema may have, without what is wrapped around them. A secret is not looked into. */
export function getAlternatives(schema: unknown): readonly unknown[] {
  const known = alternatives.get(schema as object);
  if (known) return known;
  const { innerType, in: input, options } = getDefinition(schema);
  const inner = isSecret(schema)
    ? []
    : (options ?? [innerType ?? input].filter((one) => one !== undefined));
  const found = inner.length === 0 ? [schema] : inner.flatMap(getAlternatives);
  alternatives.set(schema as object, found);
  return found;
}

/** The schemas that a member of a value may have, of a value that has one of these. */
export const getMembers = (schemas: readonly unknown[], key: PropertyKey): unknown[] =>
  schemas.flatMap(getAlternatives).flatMap((schema) => {
    const { shape, element, valueType } = getDefinition(schema);
    return typeof key === "number" ? (element ?? []) : (shape?.[String(key)] ?? valueType ?? []);
  });

/** The names of the members that a value may have by these schemas. */
export const getMemberNames = (schemas: readonly unknown[]): string[] =>
  schemas
    .flatMap(getAlternatives)
    .flatMap((schema) => Object.keys(getDefinition(schema).shape ?? {}));
