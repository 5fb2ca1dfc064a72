import { isatty } from "node:tty";
import { pino, type DestinationStream, type Logger } from "pino";
import { safeError } from "./errors.ts";
import { readableLine } from "./log-lines.ts";

export type { Logger } from "pino";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/** Standard error: JSON lines, and on a terminal lines for people, in colour unless `NO_COLOR` is set. */
function standardError(): DestinationStream {
  const destination = pino.destination({ dest: 2, sync: true });
  if (!isatty(2)) return destination;
  const colours = !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";
  return { write: (line: string) => void destination.write(readableLine(line, colours)) };
}

/**
 * The program's logger. It writes to standard error, so that standard output stays for people.
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
    destination ?? standardError(),
  );
}
