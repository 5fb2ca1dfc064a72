import { isatty } from "node:tty";
import { pino, type DestinationStream } from "pino";
import { createLogger, type LOG_LEVELS, type Logger } from "../core/log.ts";
import type { CliIo } from "./io.ts";
import type { SafeError } from "../core/errors.ts";
import { oneLine } from "../core/text.ts";
import { localTime } from "./text.ts";

/** A line of the log, as `createLogger` makes it. */
interface Entry {
  level: string;
  time: string;
  msg?: string;
  err?: SafeError;
  [field: string]: unknown;
}

const COLOURS: Record<string, string> = {
  trace: "90",
  debug: "90",
  info: "32",
  warn: "33",
  error: "31",
  fatal: "35",
};
const paint = (colour: string, text: string): string => `\u001b[${colour}m${text}\u001b[0m`;

/** `TypeError ECONNRESET: message (at f (file.ts:1:2))`: what the error serializer lets through, on one line. */
function renderError({ name, code, message, frames }: SafeError): string {
  const head = [name, code].filter((part) => part !== undefined).join(" ");
  const [frame] = frames ?? [];
  return `${head}${message === undefined ? "" : `: ${message}`}${frame === undefined ? "" : ` (${frame})`}`;
}

function renderValue(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

/** Messages for which `rouse start` writes a line of its own, with more in it. */
const SAID_OTHERWISE = /^(?:a run ended|a delivery ended|a mapping failed, .*)$/s;

/** A rejected request in the form of the lines about those that were taken: `POST /hooks/shop 401 unauthorized`. */
function renderRejected({
  method,
  path,
  status,
  reason,
  ...fields
}: Record<string, unknown>): [string, Record<string, unknown>] {
  return [[method, path, status, reason].join(" "), fields];
}

/** A JSON line of the log as one line for people: local time, level, message, fields. A line that is no JSON stays as it is; of what has a better line, nothing is left. */
export function readableLine(json: string, colours: boolean): string {
  let entry: Entry;
  try {
    entry = JSON.parse(json) as Entry;
  } catch {
    return json;
  }
  const { level, time, msg: message = "", err, ...rest } = entry;
  if (SAID_OTHERWISE.test(message)) return "";
  const [msg, fields] =
    message === "a request was rejected" ? renderRejected(rest) : [message, rest];
  const name = level.padEnd(5);
  const shown = Object.entries(fields).map(([field, value]) => {
    const text = `${field}=${oneLine(renderValue(value))}`;
    return colours ? paint("90", text) : text;
  });
  const error = err ? [oneLine(renderError(err))] : [];
  const head = `${localTime(time).slice("2026-01-31 ".length)} ${colours ? paint(COLOURS[level] ?? "0", name) : name} ${oneLine(msg)}`;
  return `${[head, ...error, ...shown].join("  ")}\n`;
}

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
