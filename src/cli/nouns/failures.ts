import type { FailureGroup } from "../../operate/watch/failures.ts";
import { asking, LIMIT_OPTION, listing, type Noun } from "../command.ts";
import { read, withId, type GatewayConnection } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { readOne } from "../options.ts";
import { printDetail } from "../print.ts";
import { cell, renderSpark } from "../text.ts";

const renderStatus = ({ status, isReopened }: FailureGroup): string =>
  status === "open" && isReopened ? "reopened" : status;

/** Finds the id of the group that begins so. */
async function findId({ api }: GatewayConnection, prefix: string): Promise<string> {
  const { failures: all } = await read(api.failures.$get({ query: { limit: "500" } }));
  const found = all.filter(({ id }) => id.startsWith(prefix));
  if (found.length > 1)
    throw usage(`"${prefix}" begins the ids of ${found.length} groups: write more of it`);
  return found[0]?.id ?? prefix;
}

const list = listing({
  about: "groups of failures, those that failed last first",
  examples: ["rouse failures --status open"],
  options: {
    "--since <time>": 'of newer failures: an age such as "24h", or a date (default 7d)',
    "--status <status>": { about: "of one state", choices: ["open", "resolved"] },
    "--kind <kind>": { about: "of one kind", choices: ["event", "run", "delivery"] },
    "--path <path>": "of one hook path",
    "--mapping <id>": "of one mapping",
    "--sender <name>": 'of one credential, such as "hooks.token", "path:shop" or "api:front"',
    ...LIMIT_OPTION,
  },
  ask({ api }, { since, status, kind, path, mapping, sender, limit }) {
    const query = { since, status, kind, path, mapping, sender, limit };
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
  ask: async (to, _, prefix) => read(to.api.failures[":id"].$get(withId(await findId(to, prefix)))),
  print({ failure }, io) {
    const { hours, senders, ...group } = failure;
    const status = renderStatus(failure);
    printDetail(io, { ...group, status, "24 hours": renderSpark(hours), senders });
  },
});

const set = asking({
  usage: "set <failure>",
  about: "resolve or reopen a group",
  examples: ["rouse failures set fgr_1f4… --resolve"],
  options: {
    "--resolve": "say that the cause is gone; it opens again if the cause comes back",
    "--reopen": "take back that it is resolved",
  },
  async ask(to, given, prefix) {
    const json = { action: readOne(given, ["resolve", "reopen"]) };
    return read(to.api.failures[":id"].$post({ ...withId(await findId(to, prefix)), json }));
  },
  print: ({ failure }, io) =>
    io.out(`${failure.id}  ${renderStatus(failure)}  ${cell(failure.title)}\n`),
});

export const failuresCommand: Noun = { list, show, commands: [set] };
