import { ownMember } from "./template-context.ts";
import { isEmptyValue, renderValue } from "./values.ts";

/**
 * Writes the members of an object as `name=value, name=value`; undefined without an object, or if no member is left.
 * Left out are empty values, and members that `common` has with the same value.
 */
export function formatPairs(object: unknown, common: unknown): string | undefined {
  if (typeof object !== "object" || object === null || Array.isArray(object)) return undefined;
  const pairs = Object.entries(object)
    .filter(([name, value]) => !isEmptyValue(value) && value !== ownMember(common, name))
    .map(([name, value]) => `${name}=${renderValue(value)}`);
  return pairs.length > 0 ? pairs.join(", ") : undefined;
}
