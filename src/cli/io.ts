import { constants, setPriority } from "node:os";
import { basename, dirname } from "node:path";
import { isatty } from "node:tty";
import { systemClock } from "../core/clock.ts";
import { terminalPrompts, type Prompts } from "./prompts.ts";
import { printable, shellWord } from "./text.ts";

/** Time and network of a real process. */
export const SYSTEM = { clock: systemClock, fetch: globalThis.fetch };

/** The parts of the process that a command may use. Tests pass their own. */
export interface CliIo {
  /** Writes to standard output; the line break is the caller's. In a command, control characters go (`guardOutput`). */
  out(text: string): void;
  /** Writes to standard error, as `out` does. */
  err(text: string): void;
  /** In a command: the output as it is, for what another program reads byte by byte, and for what the command draws itself. */
  exact?: { out(text: string): void; err(text: string): void };
  readonly env: Record<string, string | undefined>;
  readonly cwd: string;
  readonly terminal: {
    readonly in: boolean;
    readonly out: boolean;
    readonly err: boolean;
    /** Width of standard output; undefined if it is not a terminal. */
    readonly columns: number | undefined;
  };
  /** Asks for a line; undefined once there is no more. Only where standard input is a terminal. */
  ask?(prompt: string): Promise<string | undefined>;
  /** Calls on Ctrl-C in place of ending the process. Returns its undo. */
  onInterrupt?(listener: () => void): () => void;
  /** Asks questions with choices; absent if no terminal is attached. */
  prompts?: Prompts;
  /** The command by which a user of this installation calls the program from any folder, through npm or Node. Default: `rouse`. */
  readonly program?: string;
  /** Lets the work of all other processes go first from now on. */
  stepBack?(): void;
  /** Milliseconds since the epoch. */
  now(): number;
  /** The config whose answer the command prints, once that is known; `null` for the defaults. */
  answeredBy?: { config: string | null };
  /** True if a running gateway answered the command, false if the command opened one for itself. */
  live?: boolean;
  /** The command's exit code if it does not throw; starts at 0. A command that failed without an error to print sets 1. */
  exitCode: number;
}

/** The same world for a command: whatever it prints, a terminal only shows it. */
export function guardOutput(io: CliIo): CliIo {
  const exact = { out: (text: string) => io.out(text), err: (text: string) => io.err(text) };
  return {
    ...io,
    out: (text) => io.out(printable(text)),
    err: (text) => io.err(printable(text)),
    exact,
  };
}

/** Prints a text for another program, such as a patch, byte by byte; on a terminal as any other text. */
export function printExact(io: CliIo, text: string): void {
  if (io.terminal.out) io.out(text);
  else (io.exact ?? io).out(text);
}

/** The exit codes of every command. */
export const EXIT = { ok: 0, failure: 1, usage: 2, config: 3 } as const;

/** An interface of its own for each line: in between, Ctrl-C is the turn's. */
async function askLine(prompt: string): Promise<string | undefined> {
  const { createInterface } = await import("node:readline");
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  return new Promise((resolve) => {
    lines.on("close", () => resolve(undefined));
    lines.question(prompt, (line) => {
      resolve(line);
      lines.close();
    });
  });
}

/** Finds how the program was called, so that the commands it prints can be pasted. */
function programName(env: NodeJS.ProcessEnv, script = ""): string {
  const manifest = env["npm_package_json"];
  if (manifest !== undefined && script.startsWith(`${dirname(manifest)}/bin/`))
    return `npm --prefix ${shellWord(dirname(manifest))} run -s rouse --`;
  if (basename(script) === "rouse")
    return script.includes("/node_modules/") ? "npx rouse" : "rouse";
  return `${shellWord(process.execPath)} ${shellWord(script)}`;
}

/** The world of a real process. */
export function processIo(): CliIo {
  const terminal = isatty(0) && isatty(1);
  return {
    ...(terminal ? { prompts: terminalPrompts() } : {}),
    program: programName(process.env, process.argv[1]),
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    env: process.env,
    cwd: process.cwd(),
    terminal: {
      in: isatty(0),
      out: isatty(1),
      err: isatty(2),
      columns: process.stdout.isTTY ? process.stdout.columns : undefined,
    },
    ask: askLine,
    onInterrupt(listener) {
      process.on("SIGINT", listener);
      return () => void process.off("SIGINT", listener);
    },
    stepBack: () => setPriority(constants.priority.PRIORITY_LOW),
    now: () => Date.now(),
    exitCode: 0,
  };
}
