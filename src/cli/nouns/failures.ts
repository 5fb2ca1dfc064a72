import type { FailureGroup, GroupStatus } from "../../operate/watch/watch-views.ts";
import { RouseError } from "../../core/errors.ts";
import {
  asking,
  LIMIT_OPTION,
  listing,
  printRecord,
  printRows,
  type Given,
  type Noun,
} from "../command.ts";
import { read, withId, type GatewayConnection } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { printBlock } from "../print.ts";
import { cell, renderSpark } from "../text.ts";

const SHOWS = {
  event: "rouse explain",
  run: "rouse runs",
  delivery: "rouse deliveries",
} as const;

function renderStatus({ status, isReopened, assignee }: FailureGroup): string {
  const name = status === "open" && isReopened ? "reopened" : status;
  return assignee === null ? name : `${name}, ${assignee}`;
}

/** Finds the group whose id begins so. */
async function find(
  { api }: GatewayConnection,
  prefix: string,
): Promise<{ id: string; revision?: number }> {
  const { failures: all } = await read(api.failures.$get({ query: { limit: "500" } }));
  const found = all.filter(({ id }) => id.startsWith(prefix));
  if (found.length > 1)
    throw usage(`"${prefix}" begins the ids of ${found.length} groups: write more of it`);
  return found[0] ?? { id: prefix };
}

function renderResolved(
  { resolved }: FailureGroup,
  time: (iso: string | null) => string,
): string | null {
  if (!resolved) return null;
  const { at, version } = resolved;
  return `${time(at)}${version === null ? "" : ` in config version ${version}`}`;
}

function printGroup(io: CliIo, group: FailureGroup): void {
  printRecord(io, group, [
    ["failure", ({ id }) => id],
    ["cause", ({ title }) => title],
    ["status", renderStatus],
    "count",
    "firstSeen",
    "lastSeen",
    ["24 hours", ({ hours }) => renderSpark(hours)],
    "path",
    "mapping",
    "code",
    "provider",
    "channel",
    "snoozedUntil",
    ["resolved", renderResolved],
    "revision",
    ["example", ({ example, kind }) => `${example}  (${SHOWS[kind]} ${example})`],
  ]);
  if (group.message !== null) printBlock(io, "message", group.message);
  if (group.senders.length === 0) return;
  io.out("\n");
  printRows(io, ["count", "lastSeen", "name", "mapping"], group.senders);
}

const list = listing({
  about: "groups of failures, those that failed last first",
  examples: ["rouse failures --status open"],
  options: {
    "--since <time>": 'of newer failures: an age such as "24h", or a date (default 7d)',
    "--status <status>": "open, snoozed or resolved",
    "--kind <kind>": "event, run or delivery",
    "--path <path>": "of one hook path",
    "--mapping <id>": "of one mapping",
    "--sender <name>": 'of one credential, such as "hooks.token", "path:shop" or "api:front"',
    "--assignee <name>": "of one person",
    ...LIMIT_OPTION,
  },
  ask({ api }, { since, status, kind, path, mapping, sender, assignee, limit }) {
    // The gateway says which words there are.
    const known = { status: status as GroupStatus, kind: kind as FailureGroup["kind"] };
    const query = { since, path, mapping, sender, assignee, limit, ...known };
    return read(api.failures.$get({ query }));
  },
  rows: ({ failures: groups }) => groups,
  none: "no failures",
  columns: [
    "id",
    "count",
    "lastSeen",
    ["24 hours", ({ hours }) => renderSpark(hours)],
    ["status", renderStatus],
    "from",
    "title",
  ],
  after({ failures: groups, total, isComplete }, io) {
    if (total > groups.length) io.out(`\n${total - groups.length} more: use --limit\n`);
    if (!isComplete) io.out("\nonly the newest failures were looked at: the counts are too low\n");
  },
});

const show = asking({
  usage: "<failure>",
  about: "one group, with its senders and an example",
  examples: ["rouse failures fgr_1f4…"],
  ask: async (to, _, prefix) =>
    read(to.api.failures[":id"].$get(withId((await find(to, prefix)).id))),
  print: ({ failure }, io) => printGroup(io, failure),
});

const CHANGES = {
  "--assign [name]": "note who looks after it; without a name, no one",
  "--snooze <time>": "leave it out of the open ones until then",
  "--resolve": "say that the cause is gone; it opens again if the cause comes back",
  "--reopen": "take back that it is snoozed or resolved",
  "--undo": "take back the last of these changes",
  "--revision <n>": "only if it still has this revision, as rouse failures prints it",
} as const;

/** Reads the one change that is meant. */
function readChange({ assign, snooze, resolve, reopen, undo }: Given<typeof CHANGES>) {
  const changes = [
    ...(assign === undefined
      ? []
      : [{ action: "assign" as const, assignee: assign === true ? null : assign }]),
    ...(snooze === undefined ? [] : [{ action: "snooze" as const, until: snooze }]),
    ...(resolve ? [{ action: "resolve" as const }] : []),
    ...(reopen ? [{ action: "reopen" as const }] : []),
    ...(undo ? [{ action: "undo" as const }] : []),
  ];
  const [change] = changes;
  if (!change || changes.length > 1)
    throw usage("use one of --assign, --snooze, --resolve, --reopen and --undo");
  return change;
}

function parseRevision(text: string): number {
  if (!/^\d+$/.test(text))
    throw usage(`--revision ${text}: write the number that rouse failures prints as revision`);
  return Number(text);
}

/** Says of a refused change how to see what the group is now. */
function explainConflict(id: string, error: unknown): never {
  if (!(error instanceof RouseError) || error.code !== "conflict") throw error;
  const message = `${error.message}: rouse failures ${id}`;
  throw new RouseError({ code: "conflict", message });
}

const set = asking({
  usage: "set <failure>",
  about: "assign, snooze, resolve or reopen a group, or take the last such change back",
  examples: [
    "rouse failures set fgr_1f4… --assign ann",
    "rouse failures set fgr_1f4… --snooze 4h",
    "rouse failures set fgr_1f4… --resolve",
    "rouse failures set fgr_1f4… --undo --revision 3",
  ],
  options: CHANGES,
  async ask(to, given, prefix) {
    const change = readChange(given);
    const wanted = given.revision === undefined ? undefined : parseRevision(given.revision);
    const { id, revision: current } = await find(to, prefix);
    // Only the change that is the last one now is taken back, and not one that someone makes meanwhile.
    const revision = wanted ?? (change.action === "undo" ? current : undefined);
    const json = { ...change, ...(revision !== undefined && { revision }) };
    return read(to.api.failures[":id"].$post({ ...withId(id), json })).catch((error: unknown) =>
      explainConflict(id, error),
    );
  },
  print: ({ failure }, io) =>
    io.out(`${failure.id}  ${renderStatus(failure)}  ${cell(failure.title)}\n`),
});

export const failureGroups: Noun = { list, show, commands: [set] };
