import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { reportError } from "./failure.ts";
import { EXIT, type CliIo } from "./io.ts";

type Register = (program: Command, io: CliIo) => void | Promise<void>;

interface Group {
  name: string;
  summary: string;
  load(): Promise<Register>;
}

/** Each command's file is loaded only when it is meant: `rouse --help` and `rouse start` stay quick. */
const GROUPS: readonly Group[] = [
  { name: "start", summary: "start the gateway", load: async () => (await import("./start.ts")).registerStart },
  { name: "init", summary: "make a config, asking what it needs to know", load: async () => (await import("./init.ts")).registerInit },
  { name: "hooks", summary: "list, test and send hooks", load: async () => (await import("./hooks.ts")).registerHooks },
  { name: "events", summary: "what came in, and what became of it", load: async () => (await import("./events.ts")).registerEvents },
  { name: "tail", summary: "follow what comes in, one line each", load: async () => (await import("./tail.ts")).registerTail },
  { name: "runs", summary: "what agents did", load: async () => (await import("./runs.ts")).registerRuns },
  { name: "sessions", summary: "conversations and their history", load: async () => (await import("./sessions.ts")).registerSessions },
  {
    name: "deliveries",
    summary: "replies on their way to a channel",
    load: async () => (await import("./deliveries.ts")).registerDeliveries,
  },
  {
    name: "channels",
    summary: "where replies go, and who may write to the agent",
    load: async () => (await import("./channels.ts")).registerChannels,
  },
  { name: "chat", summary: "talk to an agent", load: async () => (await import("./chat.ts")).registerChat },
  { name: "keys", summary: "keys of the platform API", load: async () => (await import("./keys.ts")).registerKeys },
  { name: "agents", summary: "the agents of the config", load: async () => (await import("./lists.ts")).registerAgents },
  { name: "plugins", summary: "the plugins that are loaded", load: async () => (await import("./lists.ts")).registerPlugins },
  {
    name: "presets",
    summary: "mappings that ship, and new ones from what came in",
    load: async () => (await import("./presets.ts")).registerPresets,
  },
  {
    name: "webhooks",
    summary: "senders that need more than a webhook",
    load: async () => (await import("./webhooks.ts")).registerWebhooks,
  },
  {
    name: "knowledge",
    summary: "documents that agents look things up in",
    load: async () => (await import("./knowledge.ts")).registerKnowledge,
  },
  { name: "console", summary: "where the operator's page is", load: async () => (await import("./console.ts")).registerConsole },
  { name: "token", summary: "rotate the hook token", load: async () => (await import("./token.ts")).registerToken },
  {
    name: "store",
    summary: "back up what is kept, or move it to PostgreSQL",
    load: async () => (await import("./store.ts")).registerStore,
  },
  {
    name: "config",
    summary: "check and show the config, or print its schema",
    load: async () => (await import("./config.ts")).registerConfig,
  },
  { name: "doctor", summary: "look for what often goes wrong", load: async () => (await import("./doctor.ts")).registerDoctor },
  {
    name: "completion",
    summary: "print the completion of commands for a shell",
    load: async () => (await import("./completion.ts")).registerCompletion(describeCommands),
  },
];

const HELP = `
Examples:
  rouse start                                   start on the defaults, or on ./rouse.json5
  rouse events list --failed                    hooks whose runs failed
  rouse hooks test shop.order --payload a.json why a mapping matches, and what it makes

Commands talk to the running gateway, or open its store themselves when none runs.
Exit codes: 0 success, 1 failed, 2 wrong usage, 3 wrong config.
`;

function version(): string {
  const file = ["../../package.json", "../../../package.json"].map((path) => new URL(path, import.meta.url));
  for (const url of file) {
    try {
      return (JSON.parse(readFileSync(url, "utf8")) as { version: string }).version;
    } catch {
      // Built code lies one folder deeper than its source.
    }
  }
  return "unknown";
}

/** The command that is meant: the first word that is no option; `help <command>` means that one. */
function meant(argv: readonly string[]): string | undefined {
  const words = argv.filter((arg) => !arg.startsWith("-"));
  return words[0] === "help" ? words[1] : words[0];
}

function createProgram(io: CliIo): Command {
  const program = new Command("rouse");
  program
    .description("Turns any webhook into work for AI agents.")
    .version(version(), "-v, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .addHelpText("after", HELP)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.err(text) });
  return program;
}

/** `rouse hooks` alone prints its help: that is a usage error, as commander has it already for a wrong option. */
function exitCodeOf(error: CommanderError): number {
  return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
}

/** All commands with their options, for shell completion. */
async function describeCommands(io: CliIo): Promise<Command> {
  const program = createProgram(io);
  for (const group of GROUPS) await (await group.load())(program, io);
  return program;
}

/** Runs one command. Never throws; returns the exit code (0 success, 1 failed, 2 usage, 3 config). */
export async function run(argv: readonly string[], io: CliIo): Promise<number> {
  const program = createProgram(io);
  const name = meant(argv);
  try {
    for (const group of GROUPS) {
      if (group.name === name) await (await group.load())(program, io);
      else program.command(group.name).description(group.summary);
    }
    // `-V` is what `-v` was called before.
    await program.parseAsync(
      argv.map((arg) => (arg === "-V" ? "-v" : arg)),
      { from: "user" },
    );
    return io.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return exitCodeOf(error);
    return reportError(error, io, argv.includes("--verbose"));
  }
}
