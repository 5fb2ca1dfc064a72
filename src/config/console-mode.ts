import { isLoopback } from "../core/http/address.ts";
import type { CONSOLE_MODES } from "./schema/gateway.ts";
import type { Config } from "./schema/index.ts";

export type ConsoleMode = (typeof CONSOLE_MODES)[number];

/** The mode of the console. If none is set, it changes files only where no other machine can reach the gateway. */
export function getConsoleMode({
  console,
  host,
  publicUrl,
}: Pick<Config["gateway"], "console" | "host" | "publicUrl">): ConsoleMode {
  return console ?? (isLoopback(host) && publicUrl === undefined ? "edit" : "read");
}
