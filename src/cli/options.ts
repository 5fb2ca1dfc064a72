import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { CONFIRMATION_NAMES } from "../operate/edits/confirmation-names.ts";
import { OUTCOMES } from "../core/outcomes.ts";
import { describeShortSecret } from "../core/secret.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";

/** Options that every command has. */
export interface CommonOptions {
  config?: string;
  json?: boolean;
  verbose?: boolean;
}

const LEAST_PASSPHRASE = 12;
/** Options that are declared once and stand anywhere on the line. */
export const SHARED_OPTIONS = {
  "-c, --config <file>":
    "the config file (default: ROUSE_CONFIG, then rouse.json5 or rouse.json here)",
  "--json": "print JSON",
  "--verbose": "print the stack of an error",
} as const;

const CONFIG_READERS = new WeakSet<Command>();
const JSON_PRINTERS = new WeakSet<Command>();

/** Whether a command takes a shared option, by the name of its value. */
export function takesShared(command: Command, name: string): boolean {
  if (command.options.some((option) => option.attributeName() === name)) return true;
  if (name === "config") return CONFIG_READERS.has(command);
  return name === "json" ? JSON_PRINTERS.has(command) : command.commands.length === 0;
}

/** Gives a command `--config` and `--verbose`, and an example below its help. */
export function addCommonOptions(command: Command, ...examples: string[]): Command {
  CONFIG_READERS.add(command);
  const title = examples.length === 1 ? "Example" : "Examples";
  const lines = examples.map((example) => `  ${example}\n`).join("");
  return command.addHelpText("after", `\n${title}:\n${lines}`);
}

/** The same with `--json`: for commands that read. */
export function reading(command: Command, ...examples: string[]): Command {
  JSON_PRINTERS.add(command);
  return addCommonOptions(command, ...examples);
}

/** The same for commands whose `--config` is a proposed one. */
export function proposing(command: Command, ...examples: string[]): Command {
  return reading(command, ...examples).addHelpText(
    "after",
    "\n--config names the config as it would be; today's is the one that the gateway uses.\n",
  );
}

/** Chooses events by their outcome. */
export const OUTCOME_OPTION = [
  "--outcome <outcome>",
  `only these: ${OUTCOMES.join(", ")}`,
] as const;

/** Gives a command the options of all that read one hook, recorded or from a file. */
export const hookInput = (command: Command): Command =>
  command
    .option("--payload <file>", "the body; - reads standard input")
    .option("--content-type <type>", "what the body is (default: JSON)")
    .option("--event <id>", "the body, headers and query of a recorded event")
    .option("--header <name=value>", "a header of the request (repeatable)", pairs)
    .option("--query <name=value>", "a query parameter (repeatable)", pairs);

/** Gives a command the options of all that change files. */
export const landing = (command: Command): Command =>
  command
    .option(
      "--confirm <names>",
      `confirm by name, separated by commas: ${CONFIRMATION_NAMES.join(", ")}`,
    )
    .option("--yes", "do not ask")
    .option("--patch", "write nothing, and print the change for `git apply`");

/** Collects a repeatable `name=value` option; the name in lower case where `lower`. */
export function pairs(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw usage(`"${text}": write name=value`);
  return { ...before, [text.slice(0, at).trim()]: text.slice(at + 1) };
}

/** Reads a file that an option names; `-` is standard input. */
export async function readInput(file: string, io: CliIo): Promise<Buffer> {
  if (file !== "-") {
    return readFile(resolve(io.cwd, file)).catch((error: NodeJS.ErrnoException) => {
      throw usage(`${file} cannot be read (${error.code ?? "error"})`);
    });
  }
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Reads a secret from a file that an option names. */
export const readSecret = async (file: string, io: CliIo): Promise<string> =>
  (await readInput(file, io)).toString("utf8").trim();
/**
 * Reads a passphrase from a file, or asks for it: twice if it is a new one.
 * @throws RouseError `usage` if it is too short, or there is no terminal to ask in.
 */
export async function readPassphrase(
  file: string | undefined,
  io: CliIo,
  { isNew }: { isNew: boolean },
): Promise<string> {
  const check = (text: string): string | undefined =>
    text.length < LEAST_PASSPHRASE ? describeShortSecret(text, LEAST_PASSPHRASE) : undefined;
  if (file !== undefined) {
    const text = await readSecret(file, io);
    const problem = check(text);
    if (problem !== undefined) throw usage(`--passphrase-file: ${problem}`);
    return text;
  }
  if (!io.prompts) throw usage("the backup is encrypted: add --passphrase-file <file>");
  const passphrase = await io.prompts.password({
    message: isNew ? "A passphrase that encrypts the backup" : "The passphrase of the backup",
    check,
  });
  if (isNew)
    await io.prompts.password({
      message: "The same again; without it, the backup cannot be read",
      check: (text) => (text === passphrase ? undefined : "it is another one"),
    });
  return passphrase;
}

/** The options of a command that are its own. */
export function ownOptions<T extends CommonOptions>(options: T): Omit<T, keyof CommonOptions> {
  const { config: _config, json: _json, verbose: _verbose, ...own } = options;
  return own;
}
