import type { Command } from "commander";
import { connected } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { common, pairs, reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import type { SendOptions } from "./hooks-send.ts";
import type { TestOptions } from "./hooks-test.ts";

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, (to) => to.request("mappings", "GET", "mappings"));
  if (options.json) return printJson(io, answer);
  if (!answer.enabled) io.out("hooks are off: set hooks.enabled to true\n\n");
  const auth = new Map(answer.paths.map((path) => [path.path, path.auth]));
  const own = ["wake", "agent"].map((path) => [`${answer.base}/${path}`, "–", path, "hooks.token", "built in"]);
  const rows = answer.mappings.map((mapping) => [
    mapping.paths.length === 0 ? `${answer.base}/*` : mapping.paths.map((path) => `${answer.base}/${path}`).join(" "),
    mapping.id,
    mapping.action,
    auth.get(mapping.paths[0] ?? "") ?? "hooks.token",
    mapping.enabled ? mapping.origin : `${mapping.origin} (disabled)`,
  ]);
  printTable(io, ["PATH", "MAPPING", "ACTION", "AUTH", "FROM"], [...own, ...rows]);
}

export function registerHooks(program: Command, io: CliIo): void {
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
  ).action(async (mapping: string | undefined, options: TestOptions) => (await import("./hooks-test.ts")).testHook(mapping, options, io));
  common(
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
