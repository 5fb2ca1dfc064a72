import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";

/** The real program as a child process. */
export interface Program {
  child: ChildProcess;
  url: string;
  output(): string;
  /** Ends it immediately, as a power failure would. */
  kill(): Promise<void>;
  /** Ends it as an operator would; resolves with its exit code. */
  stop(): Promise<number | null>;
}

const READY = /listens on (http:\/\/\S+)/;

/** Starts a command that prints where it listens. */
export async function startProgram(
  command: string,
  args: string[],
  options: { cwd: string; env?: Record<string, string> },
): Promise<Program> {
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
    // A group of its own: npx does not hand a signal on to what it started.
    detached: true,
  });
  const signal = (name: NodeJS.Signals): void => {
    if (child.exitCode === null && child.signalCode === null)
      process.kill(-(child.pid as number), name);
  };
  const exited = once(child, "exit") as Promise<[number | null]>;
  let output = "";
  const url = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString();
      const found = READY.exec(output)?.[1];
      if (found) resolve(found);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    void exited.then(([code]) =>
      reject(new Error(`it ended with ${code}: ${output.slice(0, 2000)}`)),
    );
  });
  return {
    child,
    url,
    output: () => output,
    async kill() {
      signal("SIGKILL");
      await exited;
    },
    async stop() {
      signal("SIGTERM");
      return (await exited)[0];
    },
  };
}
