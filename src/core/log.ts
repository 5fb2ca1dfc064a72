import { pino, symbols, type DestinationStream, type Logger } from "pino";
import { safeError } from "./errors.ts";

export type { Logger } from "pino";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/** Drops every line. */
const NOWHERE: DestinationStream = { write: () => undefined };

/**
 * Creates a logger that writes JSON lines to `destination`, or nowhere.
 * Errors go through the allow-list serializer; there is no way to log a body or a header.
 */
export function createLogger(
  level: (typeof LOG_LEVELS)[number],
  destination: DestinationStream = NOWHERE,
): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: safeError, error: safeError },
    },
    destination,
  );
}

type Fields = Record<string, unknown>;

/** Adds to each line of a logger, and of those made from it, the fields that `read` gives when the line is written. */
export function addLogFields(log: Logger, read: () => Fields): void {
  const inner = log as {
    [symbols.mixinSym]?: (merge: object, level: number, logger: Logger) => Fields;
  };
  const before = inner[symbols.mixinSym];
  inner[symbols.mixinSym] = (merge, level, logger) => ({
    ...before?.(merge, level, logger),
    ...read(),
  });
}
