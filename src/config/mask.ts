import { getAlternatives, getMembers, isSecret } from "./schema-walk.ts";
import { configSchema } from "./schema/index.ts";
import { VARIABLE_REFERENCE } from "./secrets.ts";

const MASK = "***";

/** Plugins' sections have schemas of their own: there, names tell. */
const SECRET_NAME = /token|secret|password|key|credential/i;

/** Returns whether a text names a variable of the environment, and is no secret itself. */
export const isReference = (text: string): boolean => VARIABLE_REFERENCE.test(text);

/**
 * Masks the secrets of a value: those that the schemas name, and by their names those of members that no schema describes.
 * `isShown` says of a secret's text that it is not the secret itself.
 */
export function mask(
  value: unknown,
  schemas: readonly unknown[],
  isShown: (text: string) => boolean = () => false,
): unknown {
  if (typeof value === "string") {
    const isHidden = schemas.flatMap(getAlternatives).some(isSecret) && !isShown(value);
    return isHidden ? MASK : value;
  }
  if (Array.isArray(value))
    return value.map((member) => mask(member, getMembers(schemas, 0), isShown));
  if (typeof value !== "object" || value === null) return value;
  const hide = (member: unknown): unknown => {
    if (Array.isArray(member)) return member.map(hide);
    return typeof member === "string" ? MASK : mask(member, [], isShown);
  };
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const inner = getMembers(schemas, name);
      const isNamed = inner.length === 0 && SECRET_NAME.test(name);
      return [name, isNamed ? hide(member) : mask(member, inner, isShown)];
    }),
  );
}

/** The config with every secret masked, fit to be shown. */
export const maskConfig = (config: unknown): unknown => mask(config, [configSchema]);
