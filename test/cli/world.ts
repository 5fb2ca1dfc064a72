import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { CliIo } from "../../src/cli/io.ts";
import type { Prompts } from "../../src/cli/prompts.ts";
import { runCommandLine } from "../../src/cli/run.ts";
import type { Explanation } from "../../src/operate/records/explain.ts";

interface CliResult {
  code: number;
  out: string;
  err: string;
}

interface RunOptions {
  terminal?: boolean;
  env?: Record<string, string>;
  prompts?: Prompts;
  /** Default: the time of this machine. */
  now?(): number;
  /** Answers what a command asks on a terminal. */
  ask?(question: string): Promise<string | undefined>;
  /** Called with what was printed so far, and with a Ctrl-C. */
  onOut?(out: string, interrupt: () => void): void;
  /** The same for what was printed on the standard error. */
  onErr?(err: string, interrupt: () => void): void;
}

export interface CliWorld {
  dir: string;
  /**
   * Runs a command as a process in a pipe would; with `terminal`, as one in a terminal of 80 columns. A list takes arguments with
   * spaces.
   */
  rouse(command: string | readonly string[], options?: RunOptions): Promise<CliResult>;
  /** Runs a command that must end with this code, and say this on the standard error. */
  fails(command: string | readonly string[], code: number, said: string | RegExp): Promise<void>;
  /** The output of a command with `--json`. */
  json<T>(command: string | readonly string[], options?: RunOptions): Promise<T>;
  /** The explanation of an event. */
  explain(id: string): Promise<Explanation>;
  write(name: string, content: unknown): Promise<string>;
  close(): Promise<void>;
}

/** A folder in which commands run, each with the gateway's real parts. By default it is a new one. */
export async function createCli(given?: string): Promise<CliWorld> {
  const dir = given ?? (await mkdtemp(join(tmpdir(), "rouse-cli-")));
  const cli: CliWorld = {
    dir,
    async rouse(command, options = {}) {
      const { terminal = false, env = {}, prompts, now = Date.now, ask, onOut, onErr } = options;
      let out = "";
      let err = "";
      let interrupted: (() => void) | undefined;
      const io: CliIo = {
        out(text) {
          out += text;
          onOut?.(out, () => interrupted?.());
        },
        onInterrupt(listener) {
          interrupted = listener;
          return () => (interrupted = undefined);
        },
        err(text) {
          err += text;
          onErr?.(err, () => interrupted?.());
        },
        env,
        cwd: dir,
        ...(prompts ? { prompts } : {}),
        ...(ask && { ask }),
        terminal: {
          in: ask !== undefined,
          out: terminal,
          err: terminal,
          columns: terminal ? 80 : undefined,
        },
        now,
        exitCode: 0,
      };
      const args = typeof command === "string" ? command.split(" ") : [...command];
      const code = await runCommandLine(args, io);
      return { code, out, err };
    },
    async fails(command, code, said) {
      const { code: found, err } = await cli.rouse(command);
      const message =
        typeof said === "string" ? expect.stringContaining(said) : expect.stringMatching(said);
      expect([command, found, err]).toEqual([command, code, message]);
    },
    async json<T>(command: string | readonly string[], options?: RunOptions) {
      const args = typeof command === "string" ? command.split(" ") : command;
      const { out, err } = await cli.rouse([...args, "--json"], options);
      if (out === "") throw new Error(err);
      return JSON.parse(out) as T;
    },
    explain: async (id) =>
      (await cli.json<{ explanation: Explanation }>(["explain", id])).explanation,
    async write(name, content) {
      const file = join(dir, name);
      await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
      return file;
    },
    close: () => rm(dir, { recursive: true, force: true }),
  };
  return cli;
}

export const TOKEN = "canary-token-0123456789";

/** A config with one mapping. */
export function shopConfig(change: Record<string, unknown> = {}): Record<string, unknown> {
  const mapping = {
    id: "shop.order",
    match: { path: "shop", payload: { type: "order" } },
    sessionKey: "hook:shop:{{payload.id}}",
    messageTemplate: "New order {{payload.id}} from {{payload.customer.name}}",
  };
  return {
    gateway: { port: 0 },
    hooks: { enabled: true, token: TOKEN, mappings: [mapping] },
    ...change,
  };
}
