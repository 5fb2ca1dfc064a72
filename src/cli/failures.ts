import type { Command } from "commander";
import type { FailureGroup, GroupStatus } from "../admin/watch-views.ts";
import { RouseError } from "../core/errors.ts";
import { connected, read, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printBlock, printFields, printJson, printTable } from "./print.ts";
import { cell, shortTime } from "./text.ts";

interface ListOptions extends CommonOptions {
  since?: string;
  status?: string;
  kind?: string;
  path?: string;
  mapping?: string;
  sender?: string;
  assignee?: string;
  limit?: string;
}

/** Digits of a bar, from none to the most of the line. */
const BARS = "▁▂▃▄▅▆▇█";

/** Draws counts as one character each. */
export function renderSpark(values: readonly number[]): string {
  const most = Math.max(1, ...values);
  return values
    .map((value) => (value === 0 ? "·" : BARS[Math.ceil((value / most) * (BARS.length - 1))]))
    .join("");
}

const SHOWS = {
  event: "rouse explain",
  run: "rouse runs show",
  delivery: "rouse deliveries list # look for",
} as const;

function renderStatus({ status, isReopened, assignee }: FailureGroup): string {
  const name = status === "open" && isReopened ? "reopened" : status;
  return assignee === null ? name : `${name}, ${assignee}`;
}

async function list(
  { config, json, verbose: _verbose, status, kind, ...filters }: ListOptions,
  io: CliIo,
): Promise<void> {
  // The gateway says which words there are.
  const query = {
    ...filters,
    status: status as GroupStatus | undefined,
    kind: kind as FailureGroup["kind"] | undefined,
  };
  const answer = await connected(
    { ...(config === undefined ? {} : { config }), ...(json === undefined ? {} : { json }) },
    io,
    ({ api }) => read(api.failures.$get({ query })),
  );
  if (json) return printJson(io, answer);
  const { failures, total, isComplete } = answer;
  if (failures.length === 0) return io.out("no failures\n");
  printTable(
    io,
    ["FAILURE", "COUNT", "LAST", "24 HOURS", "STATUS", "SENDER", "CAUSE"],
    failures.map((one) => [
      one.id,
      String(one.count),
      shortTime(one.lastSeen, io.now()),
      renderSpark(one.hours),
      renderStatus(one),
      one.from ?? "–",
      one.title,
    ]),
  );
  if (total > failures.length) io.out(`\n${total - failures.length} more: use --limit\n`);
  if (!isComplete) io.out("\nonly the newest failures were looked at: the counts are too low\n");
}

/** Finds the group whose id begins so. */
async function find(
  { api }: GatewayConnection,
  prefix: string,
): Promise<{ id: string; revision?: number }> {
  const { failures } = await read(api.failures.$get({ query: { limit: "500" } }));
  const found = failures.filter(({ id }) => id.startsWith(prefix));
  if (found.length > 1)
    throw usage(`"${prefix}" begins the ids of ${found.length} groups: write more of it`);
  return found[0] ?? { id: prefix };
}

function print(io: CliIo, group: FailureGroup): void {
  const at = (iso: string | null): string | null =>
    iso === null ? null : shortTime(iso, io.now());
  const { resolved } = group;
  printFields(io, {
    failure: group.id,
    cause: group.title,
    status: renderStatus(group),
    count: group.count,
    "first seen": at(group.firstSeen),
    "last seen": at(group.lastSeen),
    "24 hours": renderSpark(group.hours),
    path: group.path,
    mapping: group.mapping,
    code: group.code,
    provider: group.provider,
    channel: group.channel,
    "snoozed until": at(group.snoozedUntil),
    resolved:
      resolved &&
      `${at(resolved.at)}${resolved.version === null ? "" : ` in config version ${resolved.version}`}`,
    revision: group.revision,
    example: `${group.example}  (${SHOWS[group.kind]} ${group.example})`,
  });
  if (group.message !== null) printBlock(io, "message", group.message);
  if (group.senders.length === 0) return;
  io.out("\n");
  printTable(
    io,
    ["COUNT", "LAST", "SENDER", "MAPPING"],
    group.senders.map(({ count, lastSeen, name, mapping }) => [
      String(count),
      shortTime(lastSeen, io.now()),
      name,
      mapping ?? "–",
    ]),
  );
}

async function show(prefix: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) =>
    read(to.api.failures[":id"].$get(withId((await find(to, prefix)).id))),
  );
  if (options.json) return printJson(io, answer);
  print(io, answer.failure);
}

interface Change {
  action: "assign" | "snooze" | "resolve" | "reopen" | "undo";
  assignee?: string | null;
  until?: string;
  version?: number;
  revision?: number;
}

/** Says of a refused change how to see what the group is now. */
function explainConflict(id: string, error: unknown): never {
  if (!(error instanceof RouseError) || error.code !== "conflict") throw error;
  throw new RouseError({
    code: "conflict",
    message: `${error.message}: rouse failures show ${id}`,
  });
}

async function change(
  prefix: string,
  json: Change,
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  const answer = await connected(options, io, async (to) => {
    const { id, revision } = await find(to, prefix);
    // Only the change that is the last one now is taken back, and not one that someone makes meanwhile.
    const body = json.action === "undo" && revision !== undefined ? { revision, ...json } : json;
    return read(to.api.failures[":id"].$post({ ...withId(id), json: body })).catch(
      (error: unknown) => explainConflict(id, error),
    );
  });
  if (options.json) return printJson(io, answer);
  io.out(`${answer.failure.id}  ${renderStatus(answer.failure)}  ${cell(answer.failure.title)}\n`);
}

function parseRevision(text: string | undefined): { revision?: number } {
  if (text === undefined) return {};
  if (!/^\d+$/.test(text))
    throw usage(`--revision ${text}: write the number that rouse failures show prints as revision`);
  return { revision: Number(text) };
}

function parseVersion(text: string | undefined): { version?: number } {
  if (text === undefined) return {};
  if (!/^[1-9]\d*$/.test(text))
    throw usage(`--in ${text}: write the number of a config, as rouse explain shows it`);
  return { version: Number(text) };
}

function registerChanges(failures: Command, io: CliIo): void {
  reading(
    failures
      .command("assign <failure> [name]")
      .description("note who looks after a group; without a name, no one"),
    "rouse failures assign fgr_1f4… ann",
  ).action((id: string, name: string | undefined, options: CommonOptions) =>
    change(id, { action: "assign", assignee: name ?? null }, options, io),
  );
  reading(
    failures
      .command("snooze <failure> <time>")
      .description("leave a group out of the open ones until then"),
    "rouse failures snooze fgr_1f4… 4h",
    "rouse failures snooze fgr_1f4… 2026-01-31T08:00",
  ).action((id: string, until: string, options: CommonOptions) =>
    change(id, { action: "snooze", until }, options, io),
  );
  reading(
    failures
      .command("resolve <failure>")
      .description("say that the cause is gone; the group opens again if it comes back")
      .option("--in <number>", "the config that resolved it (default: the one in use)"),
    "rouse failures resolve fgr_1f4…",
  ).action((id: string, { in: version, ...options }: CommonOptions & { in?: string }) =>
    change(id, { action: "resolve", ...parseVersion(version) }, options, io),
  );
  reading(
    failures
      .command("reopen <failure>")
      .description("take back that a group is snoozed or resolved"),
    "rouse failures reopen fgr_1f4…",
  ).action((id: string, options: CommonOptions) => change(id, { action: "reopen" }, options, io));
}

function registerUndo(failures: Command, io: CliIo): void {
  reading(
    failures
      .command("undo <failure>")
      .description("take back the last change of a group: an assign, snooze, resolve or reopen")
      .option(
        "--revision <number>",
        "only if the group still has this revision, as rouse failures show prints it",
      ),
    "rouse failures undo fgr_1f4…",
    "rouse failures undo fgr_1f4… --revision 3",
  ).action((id: string, { revision, ...options }: CommonOptions & { revision?: string }) =>
    change(id, { action: "undo", ...parseRevision(revision) }, options, io),
  );
}

export function register(program: Command, io: CliIo): void {
  const failures = program.command("failures").description("what failed, by its cause");
  reading(
    failures
      .command("list")
      .description("groups of failures, those that failed last first")
      .option("--since <time>", 'of newer failures: an age such as "24h", or a date (default 7d)')
      .option("--status <status>", "open, snoozed or resolved")
      .option("--kind <kind>", "event, run or delivery")
      .option("--path <path>", "of one hook path")
      .option("--mapping <id>", "of one mapping")
      .option(
        "--sender <name>",
        'of one credential, such as "hooks.token", "path:shop" or "api:front"',
      )
      .option("--assignee <name>", "of one person")
      .option("--limit <n>", "how many (default 50, at most 500)"),
    "rouse failures list --status open",
  ).action((options: ListOptions) => list(options, io));
  reading(
    failures.command("show <failure>").description("one group, with its senders and an example"),
    "rouse failures show fgr_1f4…",
  ).action((id: string, options: CommonOptions) => show(id, options, io));
  registerChanges(failures, io);
  registerUndo(failures, io);
}
