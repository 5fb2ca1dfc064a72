import { configSchema, type Config } from "./schema/index.ts";
import { VARIABLE_REFERENCE } from "./secrets.ts";

const MASK = "***";

interface Def {
  type?: string;
  shape?: Record<string, unknown>;
  element?: unknown;
  valueType?: unknown;
  innerType?: unknown;
  in?: unknown;
  options?: unknown[];
}

const getDefinition = (schema: unknown): Def => (schema as { def?: Def } | undefined)?.def ?? {};

const secrets = new WeakMap<object, boolean>();

function isSecret(schema: unknown): boolean {
  const known = secrets.get(schema as object);
  if (known !== undefined) return known;
  const isMarked =
    (schema as { meta?: () => { secret?: unknown } | undefined } | undefined)?.meta?.()?.secret ===
    true;
  secrets.set(schema as object, isMarked);
  return isMarked;
}

const alternatives = new WeakMap<object, readonly unknown[]>();

/** The schemas that a value of a schema may have, without what is wrapped around them. A secret is not looked into. */
function getAlternatives(schema: unknown): readonly unknown[] {
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
  const flat = schemas.flatMap(getAlternatives);
  if (typeof value === "string") return flat.some(isSecret) && !isShown(value) ? MASK : value;
  if (Array.isArray(value))
    return value.map((member) =>
      mask(
        member,
        flat.flatMap((schema) => getDefinition(schema).element ?? []),
        isShown,
      ),
    );
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const inner = flat.flatMap(
        (schema) => getDefinition(schema).shape?.[name] ?? getDefinition(schema).valueType ?? [],
      );
      return [
        name,
        inner.length === 0
          ? SECRET_NAME.test(name) && typeof member === "string"
            ? MASK
            : byName(member)
          : mask(member, inner, isShown),
      ];
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
