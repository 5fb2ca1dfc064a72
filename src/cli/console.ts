import type { Command } from "commander";
import { secretFile } from "../config/state.ts";
import { readGateway } from "../store/lock.ts";
import { RouseError } from "../core/errors.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { findStateDir } from "./settings.ts";

async function showConsole(options: CommonOptions, io: CliIo): Promise<void> {
  const stateDir = await findStateDir(options, io);
  const gateway = stateDir === undefined ? undefined : readGateway(stateDir);
  if (stateDir === undefined || !gateway)
    throw new RouseError({
      code: "not_found",
      message: `no gateway runs on ${stateDir ?? "this config"}; start it with \`rouse start\``,
    });
  const address = `${gateway.adminUrl}/console`;
  const tokenFile = secretFile(stateDir, "gateway-token");
  if (options.json) return printJson(io, { address, tokenFile });
  io.out(
    `${address}\n\nIt asks for the gateway token: the text of ${tokenFile}, or gateway.token if the config has one\n`,
  );
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("console")
      .description("show where the operator's page is, and which token it asks for"),
    "rouse console",
  ).action((options: CommonOptions) => showConsole(options, io));
}
