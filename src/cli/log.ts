import { isatty } from "node:tty";
import { pino, type DestinationStream } from "pino";
import { createLogger, type LOG_LEVELS, type Logger } from "../core/log.ts";
import { readableLine } from "../core/log-lines.ts";
import type { CliIo } from "./io.ts";

/** Standard error: JSON lines, and on a terminal lines for people, in colour unless `NO_COLOR` is set. */
function standardError(env: CliIo["env"]): DestinationStream {
  const destination = pino.destination({ dest: 2, sync: true });
  if (!isatty(2)) return destination;
  const colours = !env["NO_COLOR"] && env["TERM"] !== "dumb";
  return { write: (line: string) => void destination.write(readableLine(line, colours)) };
}

/** Creates the program's logger. It writes to standard error, so that standard output stays for people. */
export function createProgramLogger(level: (typeof LOG_LEVELS)[number], env: CliIo["env"]): Logger {
  return createLogger(level, standardError(env));
}

/** The logger of a command that opens the store itself: its user asked for no more than errors. */
export function createCommandLogger(
  { verbose = false }: { verbose?: boolean },
  { env }: Pick<CliIo, "env">,
): Logger {
  return createProgramLogger(verbose ? "info" : "error", env);
}
