import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { connected } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { createProgress } from "./progress.ts";
import { bytes } from "./text.ts";

async function backup(name: string, options: CommonOptions, io: CliIo): Promise<void> {
  const file = resolve(io.cwd, name);
  const progress = createProgress(io, "copying");
  const timer = setInterval(() => {
    stat(file).then(
      ({ size }) => progress.update(size, bytes(size)),
      () => undefined,
    );
  }, 200);
  try {
    const answer = await connected(options, io, (to) => to.request("backup", "POST", "store/backup", { file }));
    progress.end();
    if (options.json) printJson(io, answer);
    else io.out(`${answer.file}  ${bytes(answer.bytes)} in ${answer.seconds.toFixed(1)} s\n`);
  } finally {
    clearInterval(timer);
  }
}

export function registerStore(program: Command, io: CliIo): void {
  const store = program.command("store").description("back up what is kept");
  reading(
    store
      .command("backup <file>")
      .description("a consistent copy of the store in a new file, also while the gateway runs. It holds bodies and replies: keep it safe"),
    "rouse store backup /backups/rouse-$(date +%F).db",
  ).action((file: string, options: CommonOptions) => backup(file, options, io));
}
