import { Command, CommanderError } from "commander";
import { VERSION } from "../core/version.ts";
import { HELP_GROUPS, type CommandEntry } from "./command-list.ts";
import { addCommand, addNoun, type Noun } from "./command.ts";
import { reportError } from "./failure.ts";
import { GATEWAY_COMMANDS } from "./gateway/commands.ts";
import { HOOK_COMMANDS } from "./hooks/commands.ts";
import { EXIT, guardOutput, type CliIo } from "./io.ts";
import { NOUN_COMMANDS } from "./nouns/commands.ts";
import { SHARED_OPTIONS, takesShared } from "./options.ts";
import { STORE_COMMANDS } from "./store/commands.ts";

const LISTS = [GATEWAY_COMMANDS, NOUN_COMMANDS, HOOK_COMMANDS, STORE_COMMANDS];

/** Returns the commands of a group of the help. */
const listGroup = (title: (typeof HELP_GROUPS)[number]): CommandEntry[] =>
  LISTS.flatMap((list) => list[title] ?? []);

const HELP = `
Examples:
  rouse start                                   start on the defaults, or on ./rouse.json5
  rouse events --failed                         hooks whose runs failed
  rouse explain latest                          why the newest hook did what it did
  rouse hooks test shop.order --payload a.json  why a mapping matches, and what it makes

Commands talk to the running gateway, or open its store themselves when none runs.
Exit codes: 0 success, 1 failed, 2 wrong usage, 3 wrong config.
`;

/** Returns the words of the line without the options that may stand anywhere. */
function findWords(argv: readonly string[]): string[] {
  return argv.filter(
    (arg, at) =>
      !/^(?:-c.*|--config|--config=.*|--json|--verbose)$/.test(arg) &&
      !/^(?:-c|--config)$/.test(argv[at - 1] ?? ""),
  );
}

/** `help runs cancel` is `runs cancel --help`: commander's own `help` shows that of `runs`. */
function withoutHelp(argv: readonly string[]): readonly string[] {
  const [first, ...words] = findWords(argv);
  return first === "help" && words.length > 0 ? [...words, "--help"] : argv;
}

function createProgram(io: CliIo): Command {
  const program = new Command("rouse");
  program
    .description("Turns any webhook into work for AI agents.")
    .version(VERSION, "-v, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .addHelpText("after", HELP)
    .addHelpCommand(
      new Command("help")
        .argument("[command]")
        .description("help for a command")
        .helpGroup("Operate:"),
    )
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out(text),
      writeErr: (text) => io.err(text),
      // Wrong usage is reported below, with the command that shows the right one.
      outputError: () => undefined,
    });
  for (const [flags, about] of Object.entries(SHARED_OPTIONS)) program.option(flags, about);
  const shared = program.options.filter((option) => option.attributeName() !== "version");
  return program
    .configureHelp({
      showGlobalOptions: true,
      visibleGlobalOptions: (command) =>
        command === program
          ? []
          : shared.filter((option) => takesShared(command, option.attributeName())),
    })
    .hook("preAction", (_, command) => {
      for (const option of shared) {
        const name = option.attributeName();
        const value: unknown = program.getOptionValue(name);
        if (value === undefined) continue;
        if (!takesShared(command, name)) command.error(`error: unknown option '${option.long}'`);
        command.setOptionValue(name, value);
      }
    });
}

/** Reports wrong usage. `rouse webhooks` alone has printed its help: that is a usage error too. */
function reportUsage({ code, exitCode, message }: CommanderError, io: CliIo, to: string): number {
  if (exitCode === 0) return EXIT.ok;
  if (!code.startsWith("commander.help"))
    io.err(
      `rouse: ${message.replace(/^error: /, "").replace("\n", " ")}\n  \`${to} --help\` shows the usage\n`,
    );
  return EXIT.usage;
}

async function addLoaded(
  program: Command,
  { name, summary, load }: CommandEntry,
  io: CliIo,
  word?: string,
): Promise<Noun | undefined> {
  const loaded = await load();
  if ("usage" in loaded) {
    addCommand(program, loaded, io).summary(summary);
    return undefined;
  }
  await addNoun(program, [name, summary, loaded], io, word);
  return loaded;
}

/** Leaves out the word `list` or `show` behind a noun whose forms they name: `rouse runs list` is `rouse runs`. */
function withoutForm(argv: readonly string[], { list, commands = [] }: Noun, word = ""): string[] {
  const isForm = list !== undefined && /^(?:list|show)$/.test(word);
  if (!isForm || commands.some(({ usage }) => usage.split(" ")[0] === word)) return [...argv];
  return argv.toSpliced(argv.indexOf(word), 1);
}

/** All commands with their options, for the budgets of the project. */
export async function describeCommands(io: CliIo): Promise<Command> {
  const program = createProgram(io);
  for (const entry of HELP_GROUPS.flatMap(listGroup)) await addLoaded(program, entry, io);
  return program;
}

/** Runs one command. Never throws; returns the exit code (0 success, 1 failed, 2 usage, 3 config). */
export async function runCommandLine(given: readonly string[], world: CliIo): Promise<number> {
  const io = guardOutput(world);
  const program = createProgram(io);
  const argv = withoutHelp(given);
  const [meant = "", word] = findWords(argv);
  let noun: Noun | undefined;
  let known = "rouse";
  try {
    for (const title of HELP_GROUPS) {
      program.commandsGroup(`${title}:`);
      for (const entry of listGroup(title)) {
        if (entry.name === meant) {
          known = `rouse ${meant}`;
          noun = await addLoaded(program, entry, io, word);
        } else program.command(entry.name).description(entry.summary);
      }
    }
    // With `--help` commander would take an unknown command for none.
    const line = known === "rouse" && /^\w/.test(meant) ? [meant] : argv;
    await program.parseAsync(noun ? withoutForm(line, noun, word) : line, { from: "user" });
    return io.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) {
      const isNamed = noun?.commands?.some(({ usage }) => usage.split(" ")[0] === word);
      return reportUsage(error, io, isNamed ? `${known} ${word}` : known);
    }
    return reportError(error, io, argv.includes("--verbose"));
  }
}
