import type { Failure } from "../core/errors.ts";

/** The things that have an id, and the command that lists each. */
const LISTED_BY = {
  agent: "rouse agents",
  approval: "rouse approvals --all",
  "approval rule": "rouse approvals --rules",
  channel: "rouse channels",
  delivery: "rouse deliveries",
  document: "rouse knowledge",
  event: "rouse events",
  failure: "rouse failures",
  key: "rouse keys",
  mapping: "rouse hooks",
  note: "rouse memory",
  person: "rouse people",
  run: "rouse runs",
  schedule: "rouse schedules",
  session: "rouse sessions",
  tool: "rouse tools",
} as const;

/** The failure of an id that names nothing: the same sentence for everything that operators look up. */
export const unknownId = (noun: keyof typeof LISTED_BY, id: string): Failure => ({
  code: "not_found",
  message: `there is no ${noun} "${id}"; \`${LISTED_BY[noun]}\` lists them`,
});
