import { pino, type DestinationStream, type Logger } from "pino";
import { safeError } from "./errors.ts";

export type { Logger } from "pino";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/**
 * The program's logger: JSON lines on standard error, so that standard output stays for people.
 * Errors go through the allow-list serializer; there is no way to log a body or a header.
 */
export function createLogger(level: (typeof LOG_LEVELS)[number], destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: safeError, error: safeError },
    },
    destination ?? pino.destination({ dest: 2, sync: true }),
  );
}
