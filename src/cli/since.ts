import { parseSince } from "../http/admin/query.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";

/** The point in time that an option such as `--since` names, in milliseconds since the epoch. */
export function readSince(text: string, io: CliIo, option = "since"): number {
  const at = parseSince(text.trim(), io.now());
  if (at === undefined)
    throw usage(
      `--${option} ${text}: write an age such as "90m" or "7d", or a date such as "2026-01-31T08:00"`,
    );
  return at;
}
