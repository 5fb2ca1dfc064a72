import { Command, CommanderError } from "commander";
import { VERSION } from "../core/version.ts";
import { reportError } from "./failure.ts";
import { EXIT, guardOutput, type CliIo } from "./io.ts";

interface CommandFile {
  register(program: Command, io: CliIo): void | Promise<void>;
}

/** Commands with their files. A file is loaded only for its command, so that `rouse --help` and `rouse start` stay quick. */
const COMMANDS: readonly (readonly [
  name: string,
  summary: string,
  load: () => Promise<CommandFile>,
])[] = [
  ["start", "start the gateway", () => import("./start.ts")],
  [
    "status",
    "how the gateway does: hooks over time, latencies, what waits, what fails",
    () => import("./status.ts"),
  ],
  ["init", "make a config, asking what it needs to know", () => import("./init.ts")],
  ["hooks", "list, test, compare and send hooks", () => import("./hooks.ts")],
  [
    "test",
    "run or add fixtures: recorded requests and runs with what you expect",
    () => import("./test.ts"),
  ],
  ["events", "what came in, and what became of it", () => import("./events.ts")],
  ["explain", "why a hook did what it did", () => import("./explain.ts")],
  ["tail", "follow what comes in, one line each", () => import("./tail.ts")],
  ["failures", "what failed, by its cause", () => import("./failures.ts")],
  ["runs", "what agents did", () => import("./runs.ts")],
  ["approvals", "calls of tools that wait for a person", () => import("./approvals.ts")],
  [
    "schedules",
    "when agents start by themselves, heartbeats included",
    () => import("./schedules.ts"),
  ],
  ["usage", "tokens and costs of runs", () => import("./usage.ts")],
  ["sessions", "conversations and their history", () => import("./sessions.ts")],
  ["deliveries", "replies on their way to a channel", () => import("./deliveries.ts")],
  ["channels", "where replies go, and who may write to the agent", () => import("./channels.ts")],
  ["memory", "what agents have noted about people and rooms", () => import("./memory.ts")],
  ["pairing", "people who ask to write to the agent on a channel", () => import("./pairing.ts")],
  ["people", "people who have linked several channels", () => import("./people.ts")],
  ["chat", "talk to an agent", () => import("./chat.ts")],
  ["keys", "keys of the platform API", () => import("./keys.ts")],
  ["agents", "the agents of the config", () => import("./agents.ts")],
  ["tools", "what agents may call, and trying it", () => import("./tools.ts")],
  ["plugins", "list plugins, and add packages with further ones", () => import("./plugins.ts")],
  ["presets", "mappings that ship", () => import("./presets.ts")],
  ["propose", "a mapping from recorded events, in shadow", () => import("./propose.ts")],
  ["import", "take the webhooks of another program over", () => import("./import.ts")],
  ["webhooks", "senders that need more than a webhook", () => import("./webhooks.ts")],
  ["knowledge", "documents that agents look things up in", () => import("./knowledge.ts")],
  ["console", "where the operator's page is", () => import("./console.ts")],
  [
    "secrets",
    "list the secrets of the config, and rotate those of senders",
    () => import("./secrets.ts"),
  ],
  [
    "token",
    "rotate the hook token",
    async () => ({ register: (await import("./secrets.ts")).registerToken }),
  ],
  ["backup", "all that another machine needs, in one file", () => import("./backup.ts")],
  ["restore", "bring a backup back", () => import("./restore.ts")],
  ["store", "back up what is kept, or move it to PostgreSQL", () => import("./store.ts")],
  ["config", "check and show the config, or print its schema", () => import("./config.ts")],
  ["doctor", "check for common problems", () => import("./doctor.ts")],
  [
    "completion",
    "print the completion of commands for a shell",
    async () => ({
      register: (await import("./completion.ts")).createCompletion(describeCommands),
    }),
  ],
];

const HELP = `
Examples:
  rouse start                                   start on the defaults, or on ./rouse.json5
  rouse events list --failed                    hooks whose runs failed
  rouse explain latest                          why the newest hook did what it did
  rouse hooks test shop.order --payload a.json why a mapping matches, and what it makes

Commands talk to the running gateway, or open its store themselves when none runs.
Exit codes: 0 success, 1 failed, 2 wrong usage, 3 wrong config.
`;

/** Returns the command that is meant: the first word that is no option; `help <command>` means that one. */
function findName(argv: readonly string[]): string | undefined {
  const words = argv.filter((arg) => !arg.startsWith("-"));
  return words[0] === "help" ? words[1] : words[0];
}

function createProgram(io: CliIo): Command {
  const program = new Command("rouse");
  program
    .description("Turns any webhook into work for AI agents.")
    .version(VERSION, "-v, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .addHelpText("after", HELP)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.err(text) });
  return program;
}

/** `rouse hooks` alone prints its help: that is a usage error, as commander has it already for a wrong option. */
function toExitCode(error: CommanderError): number {
  return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
}

/** All commands with their options, for shell completion and for the budgets of the project. */
export async function describeCommands(io: CliIo): Promise<Command> {
  const program = createProgram(io);
  for (const [, , load] of COMMANDS) await (await load()).register(program, io);
  return program;
}

/** Runs one command. Never throws; returns the exit code (0 success, 1 failed, 2 usage, 3 config). */
export async function runCommandLine(argv: readonly string[], world: CliIo): Promise<number> {
  const io = guardOutput(world);
  const program = createProgram(io);
  const name = findName(argv);
  try {
    for (const [command, summary, load] of COMMANDS) {
      if (command === name) await (await load()).register(program, io);
      else program.command(command).description(summary);
    }
    // `-V` is what `-v` was called before.
    await program.parseAsync(
      argv.map((arg) => (arg === "-V" ? "-v" : arg)),
      { from: "user" },
    );
    return io.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return toExitCode(error);
    return reportError(error, io, argv.includes("--verbose"));
  }
}
