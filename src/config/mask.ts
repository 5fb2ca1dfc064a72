import { configSchema, type Config } from "./schema/index.ts";

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

function isSecret(schema: unknown): boolean {
  const meta = (schema as { meta?: () => { secret?: unknown } | undefined } | undefined)?.meta?.();
  return meta?.secret === true;
}

/** Plugins' sections have schemas of their own: there, names tell. */
const SECRET_NAME = /token|secret|password|key|credential/i;

function byName(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(byName);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, SECRET_NAME.test(name) && typeof member === "string" ? MASK : byName(member)]),
  );
}

function mask(value: unknown, schemas: readonly unknown[]): unknown {
  const flat = schemas.flatMap((schema): unknown[] => {
    if (isSecret(schema)) return [schema];
    const { innerType, in: input, options } = getDefinition(schema);
    if (options) return options;
    return innerType !== undefined || input !== undefined ? [innerType ?? input] : [schema];
  });
  if (flat.some((schema, index) => schema !== schemas[index]) || flat.length !== schemas.length) return mask(value, flat);
  if (typeof value === "string") return flat.some(isSecret) ? MASK : value;
  if (Array.isArray(value))
    return value.map((member) =>
      mask(
        member,
        flat.flatMap((schema) => getDefinition(schema).element ?? []),
      ),
    );
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const inner = flat.flatMap((schema) => getDefinition(schema).shape?.[name] ?? getDefinition(schema).valueType ?? []);
      return [
        name,
        inner.length === 0 ? (SECRET_NAME.test(name) && typeof member === "string" ? MASK : byName(member)) : mask(member, inner),
      ];
    }),
  );
}

/** The config with every secret masked, fit to be shown. */
export function maskConfig(config: Config): unknown {
  const masked = mask(config, [configSchema]) as Record<string, unknown>;
  const { channels, plugins } = config;
  const shown = Array.isArray(plugins) ? plugins : { ...plugins, settings: byName(plugins.settings) };
  return { ...masked, channels: byName(channels), plugins: shown };
}
