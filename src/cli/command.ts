import { Option, type Command } from "commander";
import { plural } from "../core/text.ts";
import { connected, type GatewayConnection } from "./gateway/connect.ts";
import { resolveId } from "./ids.ts";
import { usage } from "./failure.ts";
import { EXIT, type CliIo } from "./io.ts";
import { pairs, takeShared, type CommonOptions } from "./options.ts";
import { printJson, printRows, type RecordColumn } from "./print.ts";
import { member, toHookPath } from "./settings.ts";
import { localTime, shellWord, shortTime } from "./text.ts";
import { createProgress } from "./progress.ts";

/** The paging fields of every answer with a list. */
export interface SearchAnswer {
  /** The `before` of the next page; null if there is none. */
  next: string | null;
  /** Set if the gateway ended the search before the page was full: the time up to which it looked. */
  searchedTo: string | null;
  /** The number of rows that a search by words has read. */
  looked?: number | null;
}

/** Which page of a list. */
interface ListPage {
  before: string | undefined;
  limit: string | undefined;
}

/** Rows of a page whose caller asks for no number of them. */
const DEFAULT_LIMIT = 50;

/**
 * Reads one page of a list. While the gateway ends the search before the page is full, it is continued, with a line of progress
 * on a terminal. After Ctrl-C the answer has the rows that were found before it.
 */
export async function readListPage<Answer extends SearchAnswer>(
  io: CliIo,
  { before, limit }: ListPage,
  ask: (query: ListPage) => Promise<Answer>,
  getRows: (answer: Answer) => unknown[],
): Promise<Answer> {
  const answer = await ask({ before, limit });
  const rows = getRows(answer);
  const wanted = Number(limit ?? DEFAULT_LIMIT);
  const progress = createProgress(io, "searching");
  let interrupted = false;
  const release = io.onInterrupt?.(() => (interrupted = true));
  let { next, searchedTo, looked = null } = answer;
  try {
    while (next !== null && searchedTo !== null && rows.length < wanted && !interrupted) {
      progress.update(
        0,
        `back to ${shortTime(searchedTo, io.now())}, ${rows.length} found; Ctrl-C ends the search`,
      );
      const more = await ask({ before: next, limit: String(wanted - rows.length) });
      rows.push(...getRows(more));
      ({ next, searchedTo } = more);
      if (looked !== null) looked += more.looked ?? 0;
    }
  } finally {
    progress.end();
    release?.();
  }
  return { ...answer, next, searchedTo, ...(answer.looked === undefined ? {} : { looked }) };
}

/** An option: what it means, or that with its default, its values, or how values of a repeatable one are collected. */
type OptionSpec =
  | string
  | {
      about: string;
      default?: string;
      choices?: readonly string[];
      required?: true;
      repeat?: "pairs" | "list";
    };
/** By its flags, such as `-n, --lines <n>`. */
export type OptionSpecs = Readonly<Record<string, OptionSpec>>;

type Camel<S extends string> = S extends `${infer A}-${infer B}`
  ? `${A}${Capitalize<Camel<B>>}`
  : S;
type Long<Flags> = Flags extends `${string}--${infer Name} ${string}`
  ? Name
  : Flags extends `${string}--${infer Name}`
    ? Name
    : never;
type Name<Flags> = Camel<Long<Flags> extends `no-${infer Rest}` ? Rest : Long<Flags>>;
type Value<Flags, Spec> =
  Long<Flags> extends `no-${string}`
    ? boolean
    : Spec extends { repeat: "pairs" }
      ? Record<string, string> | undefined
      : Spec extends { repeat: "list" }
        ? string[] | undefined
        : Flags extends `${string}...>`
          ? string[] | undefined
          : Flags extends `${string}>`
            ?
                | (Spec extends { choices: readonly (infer Choice)[] } ? Choice : string)
                | (Spec extends { default: string } | { required: true } ? never : undefined)
            : Flags extends `${string}]`
              ? string | true | undefined
              : boolean | undefined;

/** The values of a command's options, as a user entered them. */
export type Given<Specs extends OptionSpecs> = CommonOptions & {
  [Flags in keyof Specs as Name<Flags>]: Value<Flags, Specs[Flags]>;
};
/** The arguments of a usage such as `test <tool> [arguments]`. */
type Arguments<Usage extends string> = Usage extends `${string}<${infer A}>${infer Rest}`
  ? [A extends `${string}...` ? string[] : string, ...Arguments<Rest>]
  : Usage extends `${string}[${infer A}]`
    ? [A extends `${string}...` ? string[] : string | undefined]
    : [];

/** A command as data. */
export interface CommandSpec {
  /** Its name with its arguments, such as `show <run>`. */
  usage: string;
  about: string;
  examples: readonly string[];
  options: OptionSpecs;
  /** Printed below the help. */
  help?: string;
  /** The command takes `--json`. */
  json: boolean;
  /** The command takes `--config`. */
  config: boolean;
  run(io: CliIo, given: CommonOptions, ...args: unknown[]): Promise<void> | void;
}

/** A kind of object with its commands, such as `rouse runs`, or a group of commands. The usage of `list`, `show` and `views` has only their arguments. */
export interface Noun {
  /** Runs if no command is named. */
  list?: CommandSpec;
  /** Runs if the name of one object is given. */
  show?: CommandSpec;
  /** Run if an option is given, by its flags, such as `--refused`. */
  views?: Readonly<Record<string, CommandSpec>>;
  commands?: readonly CommandSpec[];
  /** Printed below the help of the group. */
  help?: string;
  /** Adds commands that are no data. */
  register?(group: Command, io: CliIo): void | Promise<void>;
}

interface Described<Usage extends string, Specs extends OptionSpecs> {
  usage: Usage;
  about: string;
  examples: readonly string[];
  options?: Specs;
  help?: string;
}

/** The gateway that is asked, and the terminal, for a question before. */
export type AskedGateway = GatewayConnection & { readonly io: CliIo };

/** A command that is a plain function. */
export function doing<const Usage extends string, const Specs extends OptionSpecs = {}>({
  options,
  json = false,
  config = true,
  ...spec
}: Described<Usage, Specs> & {
  json?: boolean;
  config?: boolean;
  run(io: CliIo, given: Given<Specs>, ...args: Arguments<Usage>): Promise<void> | void;
}): CommandSpec {
  return { ...spec, json, config, options: options ?? {} };
}

/** A command that works in this process and prints its answer, if there is one; with `--json` as it is. */
export function answering<
  const Usage extends string,
  Answer extends object,
  const Specs extends OptionSpecs = {},
>({
  answer,
  print,
  isFailure,
  ...spec
}: Described<Usage, Specs> & {
  config?: boolean;
  answer(
    io: CliIo,
    given: Given<Specs>,
    ...args: Arguments<Usage>
  ): Promise<Answer | undefined> | Answer;
  print(answer: Answer, io: CliIo, given: Given<Specs>): void;
  /** Returns true if the answer ends the command with exit code 1. */
  isFailure?(answer: Answer): boolean;
}): CommandSpec {
  return doing<Usage, Specs>({
    ...spec,
    json: true,
    async run(io, given, ...args) {
      const found = await answer(io, given, ...args);
      if (!found) return;
      if (isFailure?.(found)) io.exitCode = EXIT.failure;
      if (given.json) printJson(io, found);
      else print(found, io, given);
    },
  });
}

/** A command that asks the gateway once and prints the answer; with `--json` the answer as it is. */
export function asking<
  const Usage extends string,
  Answer extends object,
  const Specs extends OptionSpecs = {},
>({
  ask,
  print,
  later,
  ...spec
}: Described<Usage, Specs> & {
  ask(to: AskedGateway, given: Given<Specs>, ...args: Arguments<Usage>): Promise<Answer>;
  print(answer: Answer, io: CliIo, given: Given<Specs>): void;
  /** Returns true if the answer ends the command with exit code 1. */
  isFailure?(answer: Answer): boolean;
  /** The work that begins with the next start, printed if no gateway runs. */
  later?: string;
}): CommandSpec {
  return answering<Usage, Answer, Specs>({
    ...spec,
    answer: (io, given, ...args) =>
      connected(given, io, (to) => ask({ ...to, io }, given, ...args)),
    print(answer, io, given) {
      print(answer, io, given);
      if (later !== undefined && !io.live) io.out(`no gateway runs just now: ${later}\n`);
    },
  });
}

interface Listed<Answer, Row> {
  rows(answer: Answer): Row[];
  columns: readonly RecordColumn<Row>[];
}

/** A list without pages. */
export function listing<
  Answer extends object,
  Row,
  const Specs extends OptionSpecs = {},
  const Usage extends string = "",
>({
  rows,
  columns,
  isWhole = false,
  none,
  after,
  ...spec
}: Omit<Described<Usage, Specs>, "usage"> &
  Listed<Answer, Row> & {
    /** Default: that of a list, which has no arguments. */
    usage?: Usage;
    ask(to: AskedGateway, given: Given<Specs>): Promise<Answer>;
    isFailure?(answer: Answer): boolean;
    /** The last column is never cut. */
    isWhole?: boolean;
    /** Printed in place of a table without rows. */
    none?: string;
    /** Prints what stands below the table. */
    after?(answer: Answer, io: CliIo): void;
  }): CommandSpec {
  return asking<string, Answer, Specs>({
    usage: "",
    ...spec,
    print(answer, io) {
      const all = rows(answer);
      if (none !== undefined && all.length === 0) io.out(`${none}\n`);
      else printRows(io, columns, all, { isWhole });
      after?.(answer, io);
    },
  });
}

const LIMIT = "how many (default 50, at most 500)";
/** The option of a list without pages that may be long. */
export const LIMIT_OPTION = { "--limit <n>": LIMIT } as const;
const PAGE_OPTIONS = {
  "--since <time>": 'only newer ones: an age such as "2h", or a date such as "2026-01-31T08:00"',
  ...LIMIT_OPTION,
  "--before <id>": "older than this one: the next page",
} as const;

/** Renders options as the user gave them, for a command that the output names. */
function renderGiven(options: OptionSpecs, given: object): string {
  const words = Object.keys(options).flatMap((flags) => {
    const option = new Option(flags);
    const value = member(given, option.attributeName());
    if (value === undefined || value === false) return [];
    return typeof value === "string" ? [option.long, shellWord(value)] : [option.long];
  });
  return words.map((word) => ` ${word}`).join("");
}

/** A list in pages, newest first. A search that the gateway ends early is continued until the page is full. */
export function paging<Answer extends SearchAnswer, Row, const Specs extends OptionSpecs = {}>({
  noun,
  ids,
  options = {} as Specs,
  ask,
  rows,
  columns,
  ...spec
}: Omit<Described<"", Specs>, "usage"> &
  Listed<Answer, Row> & {
    noun: string;
    /** The kind of id that `--before` names; the beginning of an id is then enough. */
    ids?: Parameters<typeof resolveId>[1];
    ask(
      to: GatewayConnection,
      query: ListPage & { since: string | undefined },
      given: Given<Specs>,
    ): Promise<Answer>;
  }): CommandSpec {
  const all: OptionSpecs = { ...options, ...PAGE_OPTIONS };
  return asking<"", Answer, OptionSpecs>({
    ...spec,
    usage: "",
    options: all,
    async ask(to, values) {
      const given = values as unknown as Given<Specs & typeof PAGE_OPTIONS>;
      const { since, limit } = given;
      const before =
        ids && given.before !== undefined ? await resolveId(to, ids, given.before) : given.before;
      return readListPage(
        to.io,
        { before, limit },
        (page) => ask(to, { since, ...page }, given),
        rows,
      );
    },
    print(answer, io, given) {
      const asked = renderGiven(all, given);
      if (rows(answer).length > 0) printRows(io, columns, rows(answer));
      else io.out(`no ${noun}${asked === "" ? "" : ` with${asked}`}\n`);
      printMore(io, `rouse ${noun}${renderGiven(options, given)}`, answer);
    },
  });
}

/** Prints how to see the next page, if there is one, and how far a search looked that was ended. */
function printMore(io: CliIo, command: string, { next, searchedTo, looked }: SearchAnswer): void {
  if (typeof looked === "number")
    io.out(`\nlooked at ${next === null ? "all " : ""}${plural(looked, "event")}\n`);
  if (searchedTo !== null)
    io.out(`\nthe search was ended; it looked at all since ${localTime(searchedTo)}\n`);
  if (next !== null) io.out(`\nmore: ${command} --before ${shellWord(next)}\n`);
}

function addOption(command: Command, flags: string, spec: OptionSpec): void {
  const { about, ...rest } = typeof spec === "string" ? { about: spec } : spec;
  const option = new Option(flags, about);
  if (rest.default !== undefined) option.default(rest.default);
  if (rest.choices) option.choices(rest.choices);
  if (rest.required) option.makeOptionMandatory();
  if (rest.repeat === "pairs") option.argParser(pairs);
  if (rest.repeat === "list")
    option.argParser((value: string, before?: string[]) => [...(before ?? []), value]);
  command.addOption(option);
}

/** Makes a command of its data. */
export function addCommand(parent: Command, spec: CommandSpec, io: CliIo): Command {
  const command = parent.command(spec.usage).description(spec.about);
  for (const [flags, option] of Object.entries(spec.options)) addOption(command, flags, option);
  takeShared(command, spec);
  const title = spec.examples.length === 1 ? "Example" : "Examples";
  const lines = spec.examples.map((example) => `  ${example}\n`).join("");
  command.addHelpText("after", `\n${title}:\n${lines}${spec.help ?? ""}`);
  // Commander gives the arguments, the options and the command.
  return command.action(async (...given: unknown[]) => {
    const options = given.at(-2) as CommonOptions & { path?: string };
    if (options.path !== undefined) options.path = await toHookPath(options.path, options, io);
    return spec.run(io, options, ...given.slice(0, -2));
  });
}

/** Refuses an option that belongs to another form of a noun. */
function checkForm(form: CommandSpec, name: string, all: OptionSpecs, given: object): void {
  for (const [flags, spec] of Object.entries(all)) {
    const option = new Option(flags);
    const value = member(given, option.attributeName());
    const isGiven = value !== undefined && (typeof spec === "string" || value !== spec.default);
    if (isGiven && !Object.hasOwn(form.options, flags) && option.long !== name)
      throw usage(`${option.long} cannot be used with ${name}`);
  }
}

/** Makes one command of the forms of a noun: its list, one of its kind, and its views. */
function toMain(name: string, { list, show, views = {} }: Noun): CommandSpec | undefined {
  if (!list) return undefined;
  const forms = [list, ...(show ? [show] : []), ...Object.values(views)];
  const options: OptionSpecs = {
    ...Object.fromEntries(Object.entries(views).map(([flags, { about }]) => [flags, about])),
    ...Object.assign({}, ...forms.toReversed().map((form) => form.options)),
  };
  const argument = show ? show.usage.replace("<", "[").replace(">", "]") : list.usage;
  return {
    usage: `${name} ${argument}`.trim(),
    about: show ? `${list.about}; with a name, ${show.about}` : list.about,
    examples: forms.flatMap(({ examples }) => examples),
    help: forms.map((form) => form.help ?? "").join(""),
    options,
    json: forms.some(({ json }) => json),
    config: forms.some(({ config }) => config),
    run(io, given, ...args) {
      const isGiven = (flags: string): boolean =>
        member(given, new Option(flags).attributeName()) !== undefined;
      const view = Object.keys(views).find(isGiven);
      const isOne = show !== undefined && args[0] !== undefined;
      if (view !== undefined && args[0] !== undefined)
        throw usage(`${view} takes no name: leave the name out`);
      const form = (view === undefined ? undefined : views[view]) ?? (isOne ? show : list);
      checkForm(form, view ?? (isOne ? "a name" : "a list"), options, given);
      return form.run(io, given, ...args);
    },
  };
}

/**
 * Makes a noun, or a group, with its commands.
 * @param word the word after the noun. The options of a command that it names may have the names of those of the noun.
 */
export async function addNoun(
  program: Command,
  [name, about, noun]: readonly [name: string, about: string, noun: Noun],
  io: CliIo,
  word?: string,
): Promise<void> {
  const { commands = [], help, register } = noun;
  const isNamed = commands.some(({ usage }) => usage.split(" ")[0] === word);
  const main = isNamed ? undefined : toMain(name, noun);
  const group = main
    ? addCommand(program, main, io).summary(about)
    : program.command(name).description(about).helpCommand(false);
  if (help !== undefined) group.addHelpText("after", help);
  for (const spec of commands) addCommand(group, spec, io);
  await register?.(group, io);
}
