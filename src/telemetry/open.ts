import { createRequire } from "node:module";
import type { TracerProvider } from "@opentelemetry/api";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import { RouseError, safeError, type Issue } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { NO_TRACES, type Traces } from "../core/http/trace-context.ts";
import { VERSION } from "../core/version.ts";
import type { HostContexts, SpanTarget } from "./spans.ts";

/** The packages that `telemetry.otlp` needs, with their supported versions. They have 27 MB, so an installation does not bring them. */
const PACKAGES = {
  "@opentelemetry/api": "1",
  "@opentelemetry/sdk-trace": "3",
  "@opentelemetry/resources": "3",
  "@opentelemetry/exporter-trace-otlp-http": "0.301",
};
const INSTALL = `npm install ${Object.entries(PACKAGES)
  .map(([name, version]) => `${name}@${version}`)
  .join(" ")}`;

const { resolve } = createRequire(import.meta.url);

const isInstalled = (name: string): boolean => {
  try {
    resolve(name);
    return true;
  } catch {
    return false;
  }
};

/** Checks that the packages for the config are installed. Loads nothing. */
export function telemetryIssues({ telemetry }: Config): Issue[] {
  if (!telemetry.otlp) return [];
  const missing = Object.keys(PACKAGES).filter((name) => !isInstalled(name));
  if (missing.length === 0) return [];
  const message = `needs packages that are not installed (${missing.join(", ")}): run \`${INSTALL}\` where Rouse is installed, or remove this section`;
  return [{ path: "telemetry.otlp", message, transient: true }];
}

interface Registered {
  trace?: TracerProvider;
  context?: HostContexts;
}

/**
 * The tracer provider that the embedding program has registered, with any version of the API package. It is read directly,
 * because that package refuses registrations of an older version.
 */
const getRegistered = (): Registered | undefined =>
  (globalThis as Record<symbol, unknown>)[Symbol.for("opentelemetry.js.api.1")] as
    | Registered
    | undefined;

async function loadOtlp() {
  try {
    return await import("./otlp.ts");
  } catch (error) {
    const message = `the OpenTelemetry packages that are installed cannot be loaded, or are of other versions: run \`${INSTALL}\` where Rouse is installed`;
    const issues = [{ path: "telemetry.otlp", message }];
    throw new RouseError(
      { code: "config_invalid", message: `telemetry.otlp: ${message}`, issues },
      { cause: error },
    );
  }
}

async function openTarget(
  { telemetry }: Config,
  deps: { clock: Clock; log: Logger },
): Promise<SpanTarget | undefined> {
  if (telemetry.otlp) return (await loadOtlp()).openOtlp(telemetry.otlp, deps);
  const { trace: provider, context } = getRegistered() ?? {};
  return (
    provider && {
      tracer: provider.getTracer("rouse", VERSION),
      host: context,
      close: async () => undefined,
    }
  );
}

/**
 * Opens the traces of a gateway: to the collector of the config, else to the tracer provider that the embedding
 * program has registered. `NO_TRACES` if there is neither; nothing is loaded then.
 * @throws RouseError `config_invalid` if the packages that `telemetry.otlp` needs cannot be loaded.
 */
export async function openTraces(
  config: Config,
  deps: { clock: Clock; log: Logger },
): Promise<Traces> {
  const target = await openTarget(config, deps);
  if (!target) return NO_TRACES;
  try {
    const { createTraces } = await import("./spans.ts");
    return createTraces(target);
  } catch (error) {
    deps.log.warn(
      { err: safeError(error) },
      "a tracer provider is registered, and @opentelemetry/api cannot be loaded: there are no traces",
    );
    return NO_TRACES;
  }
}
