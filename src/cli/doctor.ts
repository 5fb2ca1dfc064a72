import type { Command } from "commander";
import { connected, read } from "./connect.ts";
import { EXIT, type CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";

async function doctor(options: CommonOptions, io: CliIo): Promise<void> {
  const { live, stateDir, checks } = await connected(options, io, async (to) => ({
    live: to.live,
    stateDir: to.stateDir,
    ...(await read(to.api.doctor.$get())),
  }));
  if (checks.some((check) => check.status === "fail")) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, { running: live, stateDir, checks });
  io.out(
    live
      ? `a gateway runs on ${stateDir}\n\n`
      : `no gateway runs on ${stateDir}: looked at its store and config\n\n`,
  );
  // The last column is where people read what to change: it is never cut.
  const whole: CliIo = { ...io, terminal: { ...io.terminal, columns: undefined } };
  printTable(
    whole,
    ["", "CHECK", "FOUND"],
    checks.map((check) => [
      check.status === "ok" ? "ok" : check.status.toUpperCase(),
      check.id,
      check.message,
    ]),
  );
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("doctor")
      .description("check for common problems; exit code 1 if a check fails"),
    "rouse doctor",
  ).action((options: CommonOptions) => doctor(options, io));
}
