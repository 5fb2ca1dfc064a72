/** What a plugin can offer, and a line for the help. */
export const KINDS: Readonly<Record<string, string>>;

/** What the generator may touch: tests give their own. `ask` is there if somebody can answer. */
export interface Io {
  cwd: string;
  out(text: string): void;
  err(text: string): void;
  ask?(question: string): Promise<string>;
}

/** The files of a new plugin, by their names. */
export function createFiles(id: string, kind: string, rouse?: string): Map<string, string>;

/** Makes a plugin in a folder of the working folder. Returns the exit code: 0 success, 1 the folder is there already, 2 wrong usage. */
export function main(argv: readonly string[], io: Io): Promise<number>;
