import type { Given } from "../command.ts";

/** The request that is tested. */
export const TEST_OPTIONS = {
  "--payload <file>": "the body; - reads standard input",
  "--content-type <type>": "what the body is (default: JSON)",
  "--event <id>": "the body, headers and query of a recorded event",
  "--header <name=value>": { about: "a header of the request (repeatable)", repeat: "pairs" },
  "--query <name=value>": { about: "a query parameter (repeatable)", repeat: "pairs" },
  "--path <path>":
    "the hook's path (default: the mapping's first); without a mapping, all on it are tried",
} as const;
export type TestOptions = Given<typeof TEST_OPTIONS>;

export const DIFF_OPTIONS = {
  "--since <time>": 'newer events: an age such as "7d", or a date such as "2026-01-31T08:00"',
  "--last <n>": "at most so many of the newest events (default 10000, with --since all)",
  "--events <ids>": "these events, separated by commas",
  "--path <path>": "only events of this hook path, such as shop",
  "--group <name>": "list every event of one group, such as starts:shop.order",
  "--expect-same": "exit code 1 if anything differs",
} as const;
export type DiffOptions = Given<typeof DIFF_OPTIONS>;

export const SEND_OPTIONS = {
  "--payload <file>": "the body; - reads standard input",
  "--sample [event]": "a recorded body of the path's preset instead; without a name, list them",
  "--event <name>": "set the headers by which the preset's sender names this event",
  "--header <name=value>": { about: "a header of the request (repeatable)", repeat: "pairs" },
  "--content-type <type>": "what the body is (default: the sample's, else application/json)",
  "--idempotency-key <key>": "a repeat with the same key is answered alike",
  "--wait <seconds>": "wait for the run's reply; only for the path agent",
} as const;
export type SendOptions = Given<typeof SEND_OPTIONS>;
