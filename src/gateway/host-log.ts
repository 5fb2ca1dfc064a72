import { createLogger, LOG_LEVELS, type Logger } from "../core/log.ts";
import type { Log, ReportedError } from "./types.ts";

type Level = (typeof LOG_LEVELS)[number];
type Line = { level: Exclude<Level, "silent">; time: string; msg: string } & Record<string, unknown>;

const METHODS = { trace: "debug", debug: "debug", info: "info", warn: "warn", error: "error", fatal: "error" } as const;

/**
 * Creates the gateway's logger over that of the program around it. What reaches the program went through the gateway's
 * serializers: no body and no credential. A program's log that throws cannot stop the gateway.
 * @param onError is called for each error, whatever the level.
 */
export function createHostLogger(
  log: Log | undefined,
  onError: (error: ReportedError) => void,
): { logger: Logger; setLevel(level: Level): void } {
  let shown = LOG_LEVELS.indexOf("info");
  const write = (text: string): void => {
    const { level, time: _time, msg: message, ...fields } = JSON.parse(text) as Line;
    const rank = LOG_LEVELS.indexOf(level);
    if (rank >= ERROR) onError({ message, fields });
    try {
      if (rank >= shown) log?.[METHODS[level]](fields, message);
    } catch {
      // There is nowhere left to say it.
    }
  };
  const logger = createLogger("info", { write });
  return {
    logger,
    setLevel(level) {
      shown = LOG_LEVELS.indexOf(level);
      // Errors are reported also where none is to be logged; without a log nothing else is of use.
      logger.level = log && shown < ERROR ? level : "error";
    },
  };
}

const ERROR = LOG_LEVELS.indexOf("error");
