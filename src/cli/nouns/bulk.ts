import { Option } from "commander";
import {
  doing,
  type AskedGateway,
  type CommandSpec,
  type Given,
  type OptionSpecs,
} from "../command.ts";
import { connected, readLines, type GatewayConnection } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { resolveId } from "../ids.ts";
import { EXIT, type CliIo } from "../io.ts";
import { type CommonOptions, readCount, readRate } from "../options.ts";
import { printJson } from "../print.ts";
import { createProgress, type ProgressLine } from "../progress.ts";
import type { BulkLine } from "../../operate/records/bulk.ts";
import { member } from "../settings.ts";
import { cell } from "../text.ts";

const WHICH = {
  "--since <time>": 'only newer ones: an age such as "2h", or a date',
  "--until <time>": "only older ones",
  "--limit <n>": "at most so many, the newest",
} as const;
/** The options of a command that takes one, or many that filters choose. */
const BULK_OPTIONS = {
  ...WHICH,
  "--rate <n>": "how many in a second, a minute or an hour, such as 5/s",
  "--dry-run": "only say what would be done",
} as const;

type BulkGiven = Given<typeof BULK_OPTIONS>;

type Flags = Readonly<Record<string, unknown>>;

/** The first of these options that was given, as it is written. */
function findGiven(given: object, options: Flags): string | undefined {
  const all = Object.keys(options).map((flags) => new Option(flags));
  return all.find((option) => member(given, option.attributeName()) !== undefined)?.long;
}

/**
 * Checks that those are named, or chosen by filters.
 * @param filters options that choose several, beside those of `BULK_OPTIONS`.
 * @param own options of one alone.
 * @param how options of several that choose none.
 */
function checkChoice(
  given: object,
  named: number,
  { filters, own, how }: { filters: Flags; own: Flags; how: Flags },
): void {
  const several = findGiven(given, { ...filters, ...WHICH });
  if (named !== 1) {
    const one = findGiven(given, own);
    if (one !== undefined) throw usage(`${one} takes exactly one id`);
  }
  const wrong = named === 0 ? undefined : (several ?? (named === 1 && findGiven(given, how)));
  if (wrong) throw usage(`${wrong} cannot be used beside an id: leave one of the two out`);
  const choices = Object.keys(filters).map((flags) => new Option(flags).long);
  if (named === 0 && several === undefined)
    throw usage(`write an id, or choose several with ${choices.join(", ")} or --since`);
}

/** Reads what chooses several. Times stay as they were written: the gateway counts back from its own clock. */
const readBulk = ({ since, until, limit, rate, dryRun = false }: BulkGiven) => ({
  since,
  until,
  limit: readCount("limit", limit),
  perSecond: readRate(rate),
  dryRun,
});

/** Renders the lines of work on many. The last one is `3 replayed: 2 accepted, 1 unmatched; 1 could not be replayed`. */
function createRenderer(done: string, after: string): (line: BulkLine) => string {
  const counts = new Map<string, number>();
  let head = { dryRun: false, skipped: 0 };
  return (line) => {
    if (line.type === "total") {
      head = line;
      return "";
    }
    if (line.type === "result") {
      if (!line.ok) return `${line.id}  not ${done}: ${cell(line.failure.message)}\n`;
      counts.set(line.status, (counts.get(line.status) ?? 0) + 1);
      return `${line.id}  ${line.status}  ${cell(line.summary)}\n`;
    }
    const { dryRun, skipped } = head;
    const statuses = [...counts].map(([status, count]) => `${count} ${status}`).join(", ");
    const parts = [
      `${line.done} ${dryRun ? "would be " : ""}${done}${statuses === "" ? "" : `: ${statuses}`}`,
      ...(line.failed === 0 ? [] : [`${line.failed} could not be ${done}`]),
      ...(skipped === 0 ? [] : [`${skipped} left out, since no hook has started them`]),
    ];
    return `${parts.join("; ")}\n${line.done > 0 && !dryRun ? after : ""}`;
  };
}

/**
 * Follows work on many: the bar on a terminal, a line for each, the sum at the end.
 * @param words what is done, such as `retried`, what the bar says, and what is printed if something was done.
 */
async function followBulk(
  answer: Promise<{ body: ReadableStream | null }>,
  { json }: CommonOptions,
  io: CliIo,
  { done: what, label, after = "" }: { done: string; label: string; after?: string },
): Promise<void> {
  const render = createRenderer(what, after);
  const all: BulkLine[] = [];
  let progress: ProgressLine | undefined;
  let done = 0;
  for await (const line of readLines<BulkLine>(answer)) {
    all.push(line);
    // The bar goes away before a line is printed, so that they never share one.
    progress?.end();
    if (!json) io.out(render(line));
    if (line.type === "total") progress = createProgress(io, label, line.total);
    if (line.type === "result") progress?.update(++done);
    if (line.type === "end" && line.failed > 0) io.exitCode = EXIT.failure;
  }
  if (json) printJson(io, { lines: all });
}

/** The records that the shared options choose, without the command's own filters, and the speed of the work. */
type Chosen = ReturnType<typeof readBulk> & { ids?: string[] };

/** A command that works on one record, on several that are named, or on those that filters choose. */
export function choosing<
  Answer extends object,
  const Filters extends OptionSpecs,
  const Own extends OptionSpecs = {},
  const Further extends OptionSpecs = {},
>({
  kind,
  filters,
  own = {} as Own,
  further = {} as Further,
  dryRunsOne = false,
  one,
  many,
  render,
  isFailure,
  words,
  later = "",
  ...spec
}: Pick<CommandSpec, "about" | "examples"> & {
  /** Its name with its arguments, such as `retry [run...]`. */
  usage: string;
  kind: Parameters<typeof resolveId>[1];
  /** Options that choose several. */
  filters: Filters;
  /** Options of one alone. */
  own?: Own;
  /** Options of neither. */
  further?: Further;
  /** `--dry-run` may be given with a single record. */
  dryRunsOne?: boolean;
  one(
    to: AskedGateway,
    id: string,
    given: Given<Filters & Own & Further> & BulkGiven,
  ): Promise<Answer>;
  many(
    to: GatewayConnection,
    chosen: Chosen,
    given: Given<Filters & Own & Further> & BulkGiven,
  ): Promise<{ body: ReadableStream | null }>;
  render(answer: Answer): string;
  isFailure?(answer: Answer): boolean;
  words: { done: string; label: string };
  /** Printed if no gateway runs. */
  later?: string;
}): CommandSpec {
  return doing<"[id...]", OptionSpecs>({
    ...spec,
    usage: spec.usage as "[id...]",
    options: { ...filters, ...BULK_OPTIONS, ...own, ...further },
    json: true,
    async run(io, all, names) {
      const given = all as unknown as Given<Filters & Own & Further> & BulkGiven;
      const how = { "--rate <n>": "", ...(dryRunsOne ? {} : { "--dry-run": "" }) };
      checkChoice(given, names.length, { filters, own, how });
      const chosen = readBulk(given);
      await connected(given, io, async (to) => {
        const ids: string[] = [];
        for (const name of names) ids.push(await resolveId(to, kind, name));
        const [only, ...others] = ids;
        if (only !== undefined && others.length === 0) {
          const answer = await one({ ...to, io }, only, given);
          if (isFailure?.(answer)) io.exitCode = EXIT.failure;
          if (given.json) return printJson(io, answer);
          return io.out(`${render(answer)}\n${to.live ? "" : later}`);
        }
        const work = many(to, { ...chosen, ...(ids.length > 0 && { ids }) }, given);
        await followBulk(work, given, io, { ...words, after: to.live ? "" : later });
      });
    },
  });
}

/** The filters of a command that tries again what did not end well. */
export const createRetryFilters = <const Status extends string>(statuses: readonly Status[]) =>
  ({
    "--failed": "all that failed",
    "--status <status>": { about: "all of this status", choices: statuses },
  }) as const;

/** Reads which of those are meant. Without a status, the gateway takes those that failed. */
export function readRetryStatus<Status>(given: {
  failed: boolean | undefined;
  status: Status | undefined;
}): Status | undefined {
  if (given.failed && given.status !== undefined) throw usage("use --failed or --status");
  return given.status;
}
