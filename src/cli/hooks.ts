import type { Command } from "commander";
import type { FieldShape } from "../operate/shapes/shape.ts";
import { connected, read } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { usage } from "./failure.ts";
import {
  hookInput,
  addCommonOptions,
  pairs,
  proposing,
  reading,
  type CommonOptions,
} from "./options.ts";
import { printJson, printTable } from "./print.ts";
import type { SendOptions } from "./hooks-send.ts";
import type { DiffOptions } from "./hooks-diff.ts";
import { registerEnable } from "./hooks-enable.ts";
import type { TestOptions } from "./hooks-test.ts";
import { cell, shortTime } from "./text.ts";

/** The types of a field, the most frequent first. With several each has its number of bodies. */
function renderTypes({ types }: FieldShape): string {
  const found = Object.entries(types).toSorted(([, a], [, b]) => b - a);
  return found.length === 1
    ? (found[0]?.[0] ?? "")
    : found.map(([type, count]) => `${type} ${count}`).join(", ");
}

const renderShare = ({ share }: FieldShape): string =>
  share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;

/** Prints the fields of the bodies that came to a path. */
function printShape(
  { events, fields }: { events: number; fields: readonly FieldShape[] },
  io: CliIo,
): void {
  io.out(`\nfields of ${events === 1 ? "1 recorded body" : `${events} recorded bodies`}\n`);
  if (fields.length === 0) return;
  io.out("\n");
  const now = io.now();
  const rows = fields.map((field) => [
    cell(field.name),
    renderTypes(field),
    renderShare(field),
    shortTime(field.firstSeen, now),
    shortTime(field.lastSeen, now),
    cell((field.values ?? []).map((value) => JSON.stringify(value)).join(" ")),
  ]);
  printTable(io, ["FIELD", "TYPE", "IN", "FIRST", "LAST", "VALUES"], rows);
}

/** Lists all mappings, or those of a path with the fields of the bodies that came to it. */
async function list(path: string | undefined, options: CommonOptions, io: CliIo): Promise<void> {
  const [answer, shape] = await connected(options, io, async ({ api }) => [
    await read(api.mappings.$get()),
    path === undefined ? undefined : await read(api.hooks.shape.$get({ query: { path } })),
  ]);
  const isMeant = ({ paths }: { paths: readonly string[] }): boolean =>
    path === undefined || paths.length === 0 || paths.includes(path);
  const mappings = answer.mappings.filter(isMeant);
  if (options.json) return printJson(io, { ...answer, mappings, ...shape });
  const { paths, base, enabled } = answer;
  if (!enabled) io.out("hooks are off: set hooks.enabled to true\n\n");
  const auth = new Map(paths.map((one) => [one.path, one.auth]));
  const own = ["wake", "agent"].map((name) => [
    `${base}/${name}`,
    "–",
    name,
    "hooks.token",
    "built in",
  ]);
  const rows = mappings.map((mapping) => [
    mapping.paths.length === 0
      ? `${base}/*`
      : mapping.paths.map((one) => `${base}/${one}`).join(" "),
    mapping.id,
    mapping.action,
    auth.get(mapping.paths[0] ?? "") ?? "hooks.token",
    !mapping.enabled
      ? `${mapping.origin} (disabled)`
      : mapping.shadow
        ? `${mapping.origin} (in shadow)`
        : mapping.origin,
  ]);
  const head = ["PATH", "MAPPING", "ACTION", "AUTH", "FROM"];
  printTable(io, head, [...(path === undefined ? own : []), ...rows]);
  if (shape) printShape(shape.shape, io);
}

async function listSecrets(path: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.hooks.secrets.$get({ query: { path } })),
  );
  if (options.json) return printJson(io, answer);
  const { candidates } = answer;
  if (candidates.length === 0)
    return io.out(`no request has brought a secret to ${path} since the gateway started\n`);
  const rows = candidates.map((candidate) => [
    String(candidate.id),
    candidate.address,
    candidate.at,
    candidate.secret,
  ]);
  printTable(io, ["NUMBER", "FROM", "AT", "SECRET"], rows);
}

async function acceptSecret(
  path: string,
  number: string,
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  if (!/^\d{1,15}$/.test(number))
    throw usage(`"${number}" is no number of \`rouse hooks accept ${path}\``);
  const answer = await connected(options, io, ({ api }) =>
    read(api.hooks.secrets.$post({ json: { path, id: Number(number) } })),
  );
  if (options.json) return printJson(io, answer);
  const { file, secret } = answer;
  io.out(`the secret is kept in ${file}\n\n`);
  io.out(
    `in the config, write it in place of "pending":  secret: { file: ${JSON.stringify(file)} }\n`,
  );
  io.out(`if the sender asks you to confirm it, enter:  ${cell(secret)}\n`);
}

function registerDiff(hooks: Command, io: CliIo): void {
  proposing(
    hooks
      .command("diff")
      .description(
        "what a changed config would do with the hooks that came in; compares recorded events with a connection that only reads, starts and sends nothing",
      )
      .option(
        "--since <time>",
        'newer events: an age such as "7d", or a date such as "2026-01-31T08:00"',
      )
      .option(
        "--last <n>",
        "at most so many of the newest events (default 10000, with --since all)",
      )
      .option("--events <ids>", "these events, separated by commas", (ids: string) =>
        ids.split(","),
      )
      .option("--path <path>", "only events of this hook path, such as shop")
      .option("--group <name>", "list every event of one group, such as starts:shop.order")
      .option("--expect-same", "exit code 1 if anything differs"),
    "rouse hooks diff --config next.json5 --since 7d",
    "rouse hooks diff --config next.json5 --path acme --last 1000",
    "rouse hooks diff --config next.json5 --expect-same --json | jq 'select(.type == \"end\") | .groups[] | {kind, mapping, count}'",
  ).action(async (options: DiffOptions) =>
    (await import("./hooks-diff.ts")).diffHooks(options, io),
  );
}

export function register(program: Command, io: CliIo): void {
  const hooks = program.command("hooks").description("list, test, compare and send hooks");
  reading(
    hooks
      .command("list [path]")
      .description(
        "paths and mappings, in the order in which they are tried; of one path also the fields of the bodies that came to it: types, how many of the last 500 bodies have them, and values if they are few",
      ),
    "rouse hooks list",
    "rouse hooks list shop",
    "rouse hooks list shop --json | jq '.shape.fields[] | select(.share < 1).name'",
  ).action((path: string | undefined, options: CommonOptions) => list(path, options, io));
  reading(
    hookInput(
      hooks
        .command("test [mapping]")
        .description(
          "show why a mapping matches a body, and what it makes of it; evaluates the config file whatever gateway runs, needs no secrets, sends nothing",
        ),
    ).option(
      "--path <path>",
      "the hook's path (default: the mapping's first); without a mapping, all on it are tried",
    ),
    "rouse hooks test shop.order --payload order.json --header x-shop-event=order",
    "rouse hooks test --path shop --payload order.json",
    "rouse hooks test --path sms --payload message.txt --content-type application/x-www-form-urlencoded",
    "rouse hooks test -c draft.json5 --event evt_…",
  ).action(async (mapping: string | undefined, options: TestOptions) =>
    (await import("./hooks-test.ts")).printHookTest(mapping, options, io),
  );
  registerEnable(hooks, io);
  registerDiff(hooks, io);
  reading(
    hooks
      .command("accept <path> [number]")
      .description(
        "list the secrets that requests brought to a path whose secret is `pending`, or keep one of them",
      ),
    "rouse hooks accept crm",
    "rouse hooks accept crm 1",
  ).action((path: string, number: string | undefined, options: CommonOptions) =>
    number === undefined ? listSecrets(path, options, io) : acceptSecret(path, number, options, io),
  );
  addCommonOptions(
    hooks
      .command("send <name>")
      .description(
        "post a body to the running gateway as its sender would: signed, or with the token of that path",
      )
      .option("--payload <file>", "the body; - reads standard input")
      .option(
        "--sample [event]",
        "a recorded body of the path's preset instead; without a name, list them",
      )
      .option("--event <name>", "set the headers by which the preset's sender names this event")
      .option("--header <name=value>", "a header of the request (repeatable)", pairs)
      .option(
        "--content-type <type>",
        "what the body is (default: the sample's, else application/json)",
      )
      .option("--idempotency-key <key>", "a repeat with the same key is answered alike")
      .option("--wait <seconds>", "wait for the run's reply; only for the path agent")
      .option("--json", "print JSON"),
    "rouse hooks send shop --payload order.json --header x-shop-event=order",
    "rouse hooks send PRESET --sample EVENT",
    `echo '{"message":"Hello"}' | rouse hooks send agent --payload - --wait 60`,
  ).action(async (name: string, options: SendOptions) =>
    (await import("./hooks-send.ts")).sendHook(name, options, io),
  );
}
