import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { compiledCodeEnv } from "../../src/core/process-group.ts";

/** A process that adds documents without end, until it is killed. */
export interface AddingProcess {
  /** The number of documents that were accepted so far. */
  count(): number;
  /** Kills the process. Returns the ids of the accepted documents by their numbers. */
  kill(): Promise<Map<number, string>>;
}

/** Starts a process that adds documents with the numbers from `first` on to a folder, or to PostgreSQL. */
export function startAdding(dir: string, first: number, url?: string): AddingProcess {
  const program = join(import.meta.dirname, "crash-child.ts");
  const args = [dir, String(first), ...(url === undefined ? [] : [url])];
  const child = spawn(
    process.execPath,
    ["--no-warnings", "--conditions=rouse-source", program, ...args],
    { env: { ...process.env, ...compiledCodeEnv() }, stdio: ["ignore", "pipe", "inherit"] },
  );
  const ended = once(child, "close");
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => void (output += chunk.toString()));
  const readLines = (): string[] => output.split("\n").slice(0, -1);
  return {
    count: () => readLines().length,
    async kill() {
      child.kill("SIGKILL");
      await ended;
      return new Map(
        readLines().map((line) => {
          const [n, id] = line.split(" ");
          return [Number(n), id as string];
        }),
      );
    },
  };
}
