import type { Command } from "commander";
import { rotateSecret, secretFile } from "../config/state.ts";
import { newToken } from "../core/secret.ts";
import { readGateway } from "../store/lock.ts";
import { connected } from "./connect.ts";
import { EXIT, type CliIo } from "./io.ts";
import { addCommonOptions, type CommonOptions } from "./options.ts";
import { loadSettings } from "./settings.ts";

async function rotate(options: CommonOptions, io: CliIo): Promise<void> {
  const { config, stateDir, file } = await loadSettings(options, io);
  if (config.hooks.token !== undefined) {
    io.exitCode = EXIT.failure;
    io.err(
      `rouse: the hook token is given by hooks.token${file === undefined ? "" : ` in ${file}`}: put the new one there.\n`,
    );
    io.err(
      "  To change it without a gap, write both for a while, the new one first: token: [new, old]. Saving the file is enough.\n",
    );
    io.err(`  A fresh one: ${newToken()}\n`);
    return;
  }
  await rotateSecret(stateDir, "hook-token");
  const running = readGateway(stateDir) !== undefined;
  if (running) await connected(options, io, ({ api }) => api.reload.$post());
  io.out(
    `a new hook token is in ${secretFile(stateDir, "hook-token")}; the old one ${running ? "is rejected from now on" : "is no longer valid"}\n`,
  );
}

export function register(program: Command, io: CliIo): void {
  const token = program.command("token").description("rotate the hook token");
  addCommonOptions(
    token
      .command("rotate")
      .description(
        "make a new hook token in the state folder, or say which field of the config holds it",
      ),
    "rouse token rotate",
  ).action((options: CommonOptions) => rotate(options, io));
}
