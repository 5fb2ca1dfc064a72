import { Command, CommanderError } from "commander";
import { VERSION } from "../core/version.ts";
import { addCommand, addNoun, type CommandSpec, type Noun } from "./command.ts";
import { reportError } from "./failure.ts";
import { EXIT, guardOutput, type CliIo } from "./io.ts";
import { SHARED_OPTIONS, takesShared } from "./options.ts";

type Loaded = CommandSpec | Noun;
type Entry = readonly [name: string, summary: string, load: () => Promise<Loaded>];

/** Loads the module that has a command, for that command alone: `rouse --help` and `rouse start` stay quick. */
const from =
  <Name extends string>(load: () => Promise<Record<Name, Loaded>>, name: Name) =>
  async (): Promise<Loaded> =>
    (await load())[name];

const watch = () => import("./nouns/watch.ts");
const work = () => import("./nouns/runs.ts");
const agents = () => import("./nouns/agents.ts");
const people = () => import("./nouns/people.ts");

/** Commands by what they are for. */
const GROUPS: Readonly<Record<string, readonly Entry[]>> = {
  Start: [
    [
      "init",
      "make a config, asking what it needs to know",
      from(() => import("./init/init.ts"), "initCommand"),
    ],
    ["start", "start the gateway", from(() => import("./gateway/start.ts"), "start")],
    ["chat", "talk to an agent", from(() => import("./gateway/chat.ts"), "chat")],
    ["doctor", "check for common problems", from(watch, "doctor")],
  ],
  Watch: [
    [
      "status",
      "how the gateway does: hooks over time, latencies, what waits, what fails",
      from(watch, "status"),
    ],
    [
      "explain",
      "why a hook did what it did",
      from(() => import("./hooks/explain.ts"), "explainCommand"),
    ],
    ["events", "what came in, and what became of it", from(watch, "events")],
    [
      "failures",
      "what failed, by its cause",
      from(() => import("./nouns/failures.ts"), "failureGroups"),
    ],
    ["runs", "what agents did", from(work, "runs")],
    ["deliveries", "replies on their way to a channel", from(work, "deliveries")],
    ["sessions", "conversations and their history", from(work, "sessions")],
    ["usage", "tokens and costs of runs", from(watch, "usageCommand")],
  ],
  Shape: [
    [
      "hooks",
      "list, test, compare and send hooks",
      from(() => import("./hooks/hooks.ts"), "hooks"),
    ],
    [
      "test",
      "run or add fixtures: recorded requests and runs with what you expect",
      from(() => import("./tests/test.ts"), "test"),
    ],
    ["presets", "mappings that ship", from(() => import("./hooks/presets.ts"), "presets")],
    [
      "propose",
      "a mapping from recorded events, in shadow",
      from(() => import("./hooks/propose.ts"), "propose"),
    ],
    [
      "import",
      "take the webhooks of another program over, in shadow",
      from(() => import("./hooks/import.ts"), "importCommand"),
    ],
  ],
  Agents: [
    ["agents", "the agents of the config, with their models and tools", from(agents, "agents")],
    ["tools", "what agents may call, and trying it", from(agents, "tools")],
    ["approvals", "calls of tools that wait for a person", from(agents, "approvals")],
    [
      "schedules",
      "when agents start by themselves, heartbeats included",
      from(agents, "schedules"),
    ],
    [
      "memory",
      "what agents have noted about people and rooms, with the tool `remember`",
      from(agents, "memory"),
    ],
    [
      "knowledge",
      "documents that agents look things up in",
      from(() => import("./nouns/knowledge.ts"), "knowledge"),
    ],
  ],
  "People and keys": [
    [
      "people",
      "who may write to the agent on a channel, and who has linked several",
      from(people, "people"),
    ],
    ["channels", "where replies go, and who may write to the agent", from(people, "channels")],
    ["keys", "keys of the platform API", from(people, "keys")],
    [
      "secrets",
      "list the secrets of the config, and rotate those of senders",
      from(() => import("./store/secrets.ts"), "secrets"),
    ],
  ],
  Operate: [
    [
      "config",
      "check and show the config, or print its schema",
      from(() => import("./nouns/config.ts"), "configCommands"),
    ],
    [
      "store",
      "show the store, update its schema, copy, export and import it",
      from(() => import("./store/store.ts"), "store"),
    ],
    [
      "backup",
      "all that another machine needs, in one file",
      from(() => import("./store/backup.ts"), "backup"),
    ],
    ["restore", "bring a backup back", from(() => import("./store/restore.ts"), "restore")],
    [
      "plugins",
      "list plugins, and add packages with further ones",
      from(() => import("./nouns/plugins.ts"), "plugins"),
    ],
    [
      "webhooks",
      "senders that need more than a webhook: set up, run and check them",
      from(() => import("./nouns/webhooks.ts"), "webhooks"),
    ],
    [
      "completion",
      "print the completion of commands for a shell",
      async () => (await import("./completion.ts")).createCompletion(describeCommands),
    ],
  ],
};

const HELP = `
Examples:
  rouse start                                   start on the defaults, or on ./rouse.json5
  rouse events --failed                         hooks whose runs failed
  rouse explain latest                          why the newest hook did what it did
  rouse hooks test shop.order --payload a.json why a mapping matches, and what it makes

Commands talk to the running gateway, or open its store themselves when none runs.
Exit codes: 0 success, 1 failed, 2 wrong usage, 3 wrong config.
`;

/** Returns the words of the line without the options that may stand anywhere; `help <command>` means that command. */
function findWords(argv: readonly string[]): string[] {
  const words = argv.filter(
    (arg, at) =>
      !/^(?:-c|--config|--config=.*|--json|--verbose)$/.test(arg) &&
      !/^(?:-c|--config)$/.test(argv[at - 1] ?? ""),
  );
  return words[0] === "help" ? words.slice(1) : words;
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
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.err(text) });
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

/** `rouse hooks` alone prints its help: that is a usage error, as commander has it already for a wrong option. */
function toExitCode(error: CommanderError): number {
  return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
}

async function addLoaded(
  program: Command,
  [name, summary, load]: Entry,
  io: CliIo,
  word?: string,
): Promise<void> {
  const loaded = await load();
  if ("usage" in loaded) addCommand(program, loaded, io).summary(summary);
  else await addNoun(program, [name, summary, loaded], io, word);
}

/** All commands with their options, for shell completion and for the budgets of the project. */
export async function describeCommands(io: CliIo): Promise<Command> {
  const program = createProgram(io);
  for (const entry of Object.values(GROUPS).flat()) await addLoaded(program, entry, io);
  return program;
}

/** Runs one command. Never throws; returns the exit code (0 success, 1 failed, 2 usage, 3 config). */
export async function runCommandLine(argv: readonly string[], world: CliIo): Promise<number> {
  const io = guardOutput(world);
  const program = createProgram(io);
  const [meant, word] = findWords(argv);
  try {
    for (const [title, entries] of Object.entries(GROUPS)) {
      program.commandsGroup(`${title}:`);
      for (const entry of entries) {
        if (entry[0] === meant) await addLoaded(program, entry, io, word);
        else program.command(entry[0]).description(entry[1]);
      }
    }
    await program.parseAsync(argv, { from: "user" });
    return io.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return toExitCode(error);
    return reportError(error, io, argv.includes("--verbose"));
  }
}
