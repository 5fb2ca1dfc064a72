import type { Command } from "commander";
import { connected, read } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { usage } from "./failure.ts";
import { addCommonOptions, pairs, reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import type { SendOptions } from "./hooks-send.ts";
import type { TestOptions } from "./hooks-test.ts";
import { cell } from "./text.ts";

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.mappings.$get()));
  if (options.json) return printJson(io, answer);
  const { mappings, paths, base, enabled } = answer;
  if (!enabled) io.out("hooks are off: set hooks.enabled to true\n\n");
  const auth = new Map(paths.map((path) => [path.path, path.auth]));
  const own = ["wake", "agent"].map((path) => [`${base}/${path}`, "–", path, "hooks.token", "built in"]);
  const rows = mappings.map((mapping) => [
    mapping.paths.length === 0 ? `${base}/*` : mapping.paths.map((path) => `${base}/${path}`).join(" "),
    mapping.id,
    mapping.action,
    auth.get(mapping.paths[0] ?? "") ?? "hooks.token",
    mapping.enabled ? mapping.origin : `${mapping.origin} (disabled)`,
  ]);
  printTable(io, ["PATH", "MAPPING", "ACTION", "AUTH", "FROM"], [...own, ...rows]);
}

async function listSecrets(path: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.hooks.secrets.$get({ query: { path } })));
  if (options.json) return printJson(io, answer);
  const { candidates } = answer;
  if (candidates.length === 0) return io.out(`no request has brought a secret to ${path} since the gateway started\n`);
  const rows = candidates.map((candidate) => [String(candidate.id), candidate.address, candidate.at, candidate.secret]);
  printTable(io, ["NUMBER", "FROM", "AT", "SECRET"], rows);
}

async function acceptSecret(path: string, number: string, options: CommonOptions, io: CliIo): Promise<void> {
  if (!/^\d{1,15}$/.test(number)) throw usage(`"${number}" is no number of \`rouse hooks accept ${path}\``);
  const answer = await connected(options, io, ({ api }) => read(api.hooks.secrets.$post({ json: { path, id: Number(number) } })));
  if (options.json) return printJson(io, answer);
  const { file, secret } = answer;
  io.out(`the secret is kept in ${file}\n\n`);
  io.out(`in the config, write it in place of "pending":  secret: { file: ${JSON.stringify(file)} }\n`);
  io.out(`if the sender asks you to confirm it, enter:  ${cell(secret)}\n`);
}

export function register(program: Command, io: CliIo): void {
  const hooks = program.command("hooks").description("list, test and send hooks");
  reading(hooks.command("list").description("paths and mappings, in the order in which they are tried"), "rouse hooks list").action(
    (options: CommonOptions) => list(options, io),
  );
  reading(
    hooks
      .command("test [mapping]")
      .description(
        "show why a mapping matches a body, and what it makes of it; evaluates the config file whatever gateway runs, needs no secrets, sends nothing",
      )
      .option("--payload <file>", "the body, as JSON; - reads standard input")
      .option("--event <id>", "the body, headers and query of a recorded event")
      .option("--header <name=value>", "a header of the request (repeatable)", pairs)
      .option("--query <name=value>", "a query parameter (repeatable)", pairs)
      .option("--path <path>", "the hook's path (default: the mapping's first); without a mapping, all on it are tried"),
    "rouse hooks test shop.order --payload order.json --header x-shop-event=order",
    "rouse hooks test --path shop --payload order.json",
    "rouse hooks test -c draft.json5 --event evt_…",
  ).action(async (mapping: string | undefined, options: TestOptions) =>
    (await import("./hooks-test.ts")).printHookTest(mapping, options, io),
  );
  reading(
    hooks
      .command("accept <path> [number]")
      .description("list the secrets that requests brought to a path whose secret is `pending`, or keep one of them"),
    "rouse hooks accept crm",
    "rouse hooks accept crm 1",
  ).action((path: string, number: string | undefined, options: CommonOptions) =>
    number === undefined ? listSecrets(path, options, io) : acceptSecret(path, number, options, io),
  );
  addCommonOptions(
    hooks
      .command("send <name>")
      .description("post a body to the running gateway as its sender would: signed, or with the token of that path")
      .option("--payload <file>", "the body; - reads standard input")
      .option("--sample [event]", "a recorded body of the path's preset instead; without a name, list them")
      .option("--event <name>", "set the headers by which the preset's sender names this event")
      .option("--header <name=value>", "a header of the request (repeatable)", pairs)
      .option("--content-type <type>", "what the body is (default: the sample's, else application/json)")
      .option("--idempotency-key <key>", "a repeat with the same key is answered alike")
      .option("--wait <seconds>", "wait for the run's reply; only for the path agent")
      .option("--json", "print JSON"),
    "rouse hooks send shop --payload order.json --header x-shop-event=order",
    "rouse hooks send PRESET --sample EVENT",
    `echo '{"message":"Hello"}' | rouse hooks send agent --payload - --wait 60`,
  ).action(async (name: string, options: SendOptions) => (await import("./hooks-send.ts")).sendHook(name, options, io));
}
