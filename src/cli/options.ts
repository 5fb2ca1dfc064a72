import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { CONFIRMATION_NAMES } from "../operate/edits/confirmation-names.ts";
import { OUTCOMES } from "../vocabulary/outcomes.ts";
import { parseSince } from "../http/admin/query.ts";
import { unreadable, usage } from "./failure.ts";
import type { CliIo } from "./io.ts";

/** Options that every command has. */
export interface CommonOptions {
  config?: string;
  json?: boolean;
  verbose?: boolean;
}

/** Options that are declared once and stand anywhere on the line. */
export const SHARED_OPTIONS = {
  "-c, --config <file>":
    "the config file (default: ROUSE_CONFIG, then rouse.json5 or rouse.json here)",
  "--json": "print JSON",
  "--verbose": "print the stack of an error",
} as const;

/** The shared options that a command takes. */
const TAKEN = new WeakMap<Command, { config: boolean; json: boolean }>();

/** True if a command takes a shared option, by the name of its value. */
export function takesShared(command: Command, name: string): boolean {
  return name === "config" || name === "json"
    ? TAKEN.get(command)?.[name] === true
    : TAKEN.has(command);
}

export const takeShared = (command: Command, taken: { config: boolean; json: boolean }): void =>
  void TAKEN.set(command, taken);

/** Chooses events by their outcome. */
export const OUTCOME_OPTION = {
  "--outcome <outcome>": { about: "only these", choices: OUTCOMES },
} as const;

/** The options of all that change files. */
export const LANDING_OPTIONS = {
  "--confirm <names>": `confirm by name, separated by commas: ${CONFIRMATION_NAMES.join(", ")}`,
  "--yes": "do not ask",
  "--patch": "write nothing, and print the change for `git apply`",
} as const;

/** Collects a repeatable `name=value` option. */
export function pairs(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw usage(`"${text}": write name=value`);
  return { ...before, [text.slice(0, at).trim()]: text.slice(at + 1) };
}

/** Reads a file that an option names; `-` is standard input. */
export async function readInput(file: string, io: CliIo): Promise<Buffer> {
  if (file !== "-") {
    return readFile(resolve(io.cwd, file)).catch((error: unknown) => {
      throw unreadable(file, error);
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
 * Asks for a yes on the terminal.
 * @throws RouseError `usage` if there is no terminal to ask on, or the answer is not a yes.
 */
export async function requireYes(
  { ask, terminal }: CliIo,
  { question, unasked, refused }: Readonly<Record<"question" | "unasked" | "refused", string>>,
): Promise<void> {
  if (!ask || !terminal.in) throw usage(unasked);
  const answer = (await ask(`${question} [y/N] `))?.trim() ?? "";
  if (!/^y(?:es)?$/i.test(answer)) throw usage(refused);
}

/** The options of a command that are its own. */
export function ownOptions<T extends CommonOptions>(options: T): Omit<T, keyof CommonOptions> {
  const { config: _config, json: _json, verbose: _verbose, ...own } = options;
  return own;
}

/**
 * Returns the one of these options that was given.
 * @throws RouseError `usage` if there is none, or more than one.
 */
export function readOne<const Name extends string>(
  given: { readonly [name in Name]?: unknown },
  names: readonly Name[],
): Name {
  const found = names.filter((name) => given[name] !== undefined);
  const [one] = found;
  if (one !== undefined && found.length === 1) return one;
  const all = names.map((name) => `--${name}`);
  if (all.length === 1) throw usage(`use ${all[0]}`);
  throw usage(`use one of ${all.slice(0, -1).join(", ")} and ${all.at(-1)}`);
}

const SECONDS = { s: 1, m: 60, h: 3600 };

/** Reads a number from 1. */
export function readCount(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw usage(`--${name} ${text}: write a whole number from 1`);
  return Number(text);
}

/** Reads `5/s`, `30/m` or `100/h` as a number for a second. */
export function readRate(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, count, unit = "s"] = /^(\d+(?:\.\d+)?)(?:\/([smh]))?$/.exec(text.trim()) ?? [];
  if (count === undefined || Number(count) === 0)
    throw usage(`--rate ${text}: write how many in a second, a minute or an hour, such as 5/s`);
  return Number(count) / SECONDS[unit as keyof typeof SECONDS];
}

/** The point in time that `--since` names, in milliseconds since the epoch. */
export function readSince(text: string, io: CliIo): number {
  const at = parseSince(text.trim(), io.now());
  if (at === undefined)
    throw usage(
      `--since ${text}: write an age such as "90m" or "7d", or a date such as "2026-01-31T08:00"`,
    );
  return at;
}
