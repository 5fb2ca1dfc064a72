import type { RetryLine } from "../operate/records/bulk-retry.ts";
import type { Given } from "./command.ts";
import { connected, readLines, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { EXIT, type CliIo } from "./io.ts";
import { printJson } from "./print.ts";
import { createProgress, type ProgressLine } from "./progress.ts";
import { readCount, readRate } from "./numbers.ts";
import { readSince } from "./since.ts";
import { cell } from "./text.ts";

/** The options of a retry of many. */
export const RETRY_OPTIONS = {
  "--since <time>": 'only newer ones: an age such as "2h", or a date',
  "--until <time>": "only older ones",
  "--limit <n>": "at most so many, the newest",
  "--rate <n>": "how many in a second, a minute or an hour, such as 5/s",
  "--dry-run": "only say what would be done",
} as const;

type RetryOptions = Given<typeof RETRY_OPTIONS>;

const HOW = ["rate", "dryRun"] as const;

/** @throws RouseError `usage` if options that choose several come with the id of one. */
export function checkOne(options: object, choosing: readonly string[]): void {
  for (const name of [...choosing, ...HOW])
    if ((options as Record<string, unknown>)[name] !== undefined)
      throw usage(`--${name === "dryRun" ? "dry-run" : name} goes with several: leave the id out`);
}

/** Reads what every retry of many takes. Times stay as they were written: the gateway counts back from its own clock. */
export function readRetry({ since, until, limit, rate, dryRun = false }: RetryOptions, io: CliIo) {
  const [from, to] = [
    since === undefined ? -Infinity : readSince(since, io),
    until === undefined ? Infinity : readSince(until, io, "until"),
  ];
  if (from >= to)
    throw usage(`--since ${since} is not before --until ${until}: nothing lies between them`);
  return { since, until, limit: readCount("limit", limit), perSecond: readRate(rate), dryRun };
}

/** `3 would be retried`, `3 retried, 1 failed`, and what was left out. */
function renderSum(
  end: { retried: number; failed: number },
  { dryRun, skipped }: { dryRun: boolean; skipped: number },
): string {
  const sum = dryRun ? `${end.retried} would be retried` : `${end.retried} retried`;
  const failed =
    end.failed === 0 && dryRun
      ? ""
      : dryRun
        ? `, ${end.failed} cannot be`
        : `, ${end.failed} failed`;
  return `${sum}${failed}${skipped === 0 ? "" : `; ${skipped} left out, since no hook has started them`}`;
}

/** Follows a retry of many: the bar on a terminal, a line for each, the sum at the end. Returns how many were retried. */
async function follow(
  lines: AsyncIterable<RetryLine>,
  options: RetryOptions,
  io: CliIo,
): Promise<number> {
  const all: RetryLine[] = [];
  let progress: ProgressLine | undefined;
  let total = { dryRun: false, skipped: 0 };
  let done = 0;
  for await (const line of lines) {
    if (options.json) all.push(line);
    if (line.type === "total") {
      total = line;
      progress = createProgress(io, "retrying", line.total);
    }
    if (line.type === "result") {
      // The bar goes away before a line is printed, so that they never share one.
      progress?.end();
      if (!options.json)
        io.out(
          `${line.id}  ${line.ok ? `${line.status}  ${cell(line.summary)}` : `not retried: ${cell(line.failure.message)}`}\n`,
        );
      progress?.update(++done);
    }
    if (line.type !== "end") continue;
    progress?.end();
    if (line.failed > 0) io.exitCode = EXIT.failure;
    if (options.json) printJson(io, { lines: all });
    else io.out(`${renderSum(line, total)}\n`);
    return total.dryRun ? 0 : line.retried;
  }
  return 0;
}

/** Retries many; `later` is printed if something was retried and no gateway runs. */
export async function retryMany(
  options: RetryOptions,
  io: CliIo,
  ask: (to: GatewayConnection) => Promise<{ body: ReadableStream | null }>,
  later: string,
): Promise<void> {
  await connected(options, io, async (to) => {
    const retried = await follow(readLines<RetryLine>(ask(to)), options, io);
    if (retried > 0 && !to.live && !options.json) io.out(later);
  });
}
