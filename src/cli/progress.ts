import type { CliIo } from "./io.ts";
import { cell } from "./text.ts";

export interface ProgressLine {
  /** `text` stands behind the bar, or in its place while the total is unknown. `done` may have a fraction: only the bar shows it. */
  update(done: number, text?: string, total?: number): void;
  end(): void;
}

const BAR = 24;
const EVERY_MS = 100;

/** A progress bar on standard error if that is a terminal; no output in a pipe. */
export function createProgress(io: CliIo, label: string, known?: number): ProgressLine {
  if (!io.terminal.err) return { update: () => undefined, end: () => undefined };
  const screen = io.exact ?? io;
  let last = 0;
  const renderBar = (done: number, total: number): string => {
    const filled = total === 0 ? 0 : Math.round((Math.min(done, total) / total) * BAR);
    return ` [${"#".repeat(filled)}${".".repeat(BAR - filled)}] ${Math.floor(done)}/${total}`;
  };
  return {
    update(done, text = "", total = known) {
      const now = io.now();
      if (now - last < EVERY_MS && done !== total) return;
      last = now;
      const bar = total === undefined ? "" : renderBar(done, total);
      screen.err(`\r\u001b[K${label}${bar}${text === "" ? "" : ` ${cell(text)}`}`);
    },
    end: () => screen.err("\r\u001b[K"),
  };
}

/** Shows progress during some work, and takes it away at the end. */
export async function withProgress<T>(
  io: CliIo,
  label: string,
  total: number | undefined,
  work: (progress: ProgressLine) => Promise<T>,
): Promise<T> {
  const progress = createProgress(io, label, total);
  try {
    return await work(progress);
  } finally {
    progress.end();
  }
}
