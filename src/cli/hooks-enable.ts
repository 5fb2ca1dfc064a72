import type { Command } from "commander";
import type { CliIo } from "./io.ts";
import type { LandOptions } from "./landing.ts";
import { addCommonOptions, landing } from "./options.ts";

/** `rouse hooks enable`. */
export function registerEnable(hooks: Command, io: CliIo): void {
  addCommonOptions(
    landing(
      hooks
        .command("enable <mapping>")
        .description(
          "make a mapping live that is in shadow: shows what changes for the hooks that came in, checks the whole config, and takes `shadow` away",
        ),
    ).option("--json", "print JSON"),
    "rouse hooks enable shop.refund",
    "rouse hooks enable shop.refund --yes",
    "rouse hooks enable shop.refund --patch | git apply",
  ).action(async (mapping: string, options: LandOptions) =>
    (await import("./landing.ts")).makeChange(
      { kind: "enable", mapping },
      `${mapping} is live`,
      options,
      io,
    ),
  );
}
