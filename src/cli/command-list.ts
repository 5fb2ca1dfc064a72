import type { CommandSpec, Noun } from "./command.ts";

/** The titles of `rouse --help`, in order. */
export const HELP_GROUPS = [
  "Start",
  "Watch",
  "Shape",
  "Agents",
  "People and keys",
  "Operate",
] as const;

/** A command in a list. Its module is loaded for that command alone: `rouse --help` stays quick. */
export interface CommandEntry {
  name: string;
  summary: string;
  load(): Promise<CommandSpec | Noun>;
}

/** Commands by what they are for. */
export type CommandList = Readonly<Partial<Record<(typeof HELP_GROUPS)[number], CommandEntry[]>>>;

/** Lists a command that a module exports as `<name>Command`. */
export const listed = <Name extends string>(
  name: Name,
  summary: string,
  load: () => Promise<Record<`${Name}Command`, CommandSpec | Noun>>,
): CommandEntry => ({ name, summary, load: async () => (await load())[`${name}Command`] });
