import { getAlternatives, getMembers, isSecret } from "./schema-walk.ts";
import { configSchema, type Config } from "./schema/index.ts";
import { VARIABLE_REFERENCE } from "./secrets.ts";

const MASK = "***";

/** Plugins' sections have schemas of their own: there, names tell. */
const SECRET_NAME = /token|secret|password|key|credential/i;

function byName(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(byName);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      SECRET_NAME.test(name) && typeof member === "string" ? MASK : byName(member),
    ]),
  );
}

/** Returns whether a text names a variable of the environment, and is no secret itself. */
export const isReference = (text: string): boolean => VARIABLE_REFERENCE.test(text);

/** Masks the secrets of a value that the schemas describe. `isShown` says of a secret's text that it is not the secret itself. */
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
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const inner = getMembers(schemas, name);
      const isNamed = SECRET_NAME.test(name) && typeof member === "string";
      if (inner.length > 0) return [name, mask(member, inner, isShown)];
      return [name, isNamed ? MASK : byName(member)];
    }),
  );
}

/** The config with every secret masked, fit to be shown. */
export function maskConfig(config: Config): unknown {
  const masked = mask(config, [configSchema]) as Record<string, unknown>;
  const { channels, plugins } = config;
  const shown = Array.isArray(plugins)
    ? plugins
    : { ...plugins, settings: byName(plugins.settings) };
  return { ...masked, channels: byName(channels), plugins: shown };
}
