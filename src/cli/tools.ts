import type { Command } from "commander";
import type { ToolView } from "../admin/tools.ts";
import { connected, read, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { askYes, EXIT, type CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { renderOutput } from "./runs.ts";
import { cell, printable } from "./text.ts";

/** Says who is offered a tool: hook runs, with the mappings that differ, chats and the API. A reason is given once. */
function renderOffered({ hooks, exceptions, chats, api }: ToolView): string[] {
  const render = (why: string | null) => (why === null ? "yes" : `no: ${why}`);
  const others = exceptions.map((id) => `; ${hooks === null ? "no" : "yes"} in ${id}`);
  const rest = [chats, api].map((why) => (why !== null && why === hooks ? "no" : render(why)));
  return [render(hooks) + others.join(""), ...rest];
}

async function list(
  { agent, ...options }: CommonOptions & { agent?: string },
  io: CliIo,
): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.tools.$get({ query: { agent } })),
  );
  if (options.json) return printJson(io, answer);
  const rows = answer.agents.flatMap(({ agentId, tools }) =>
    tools.map((tool) => [
      agentId,
      tool.tool,
      tool.from,
      ...renderOffered(tool),
      tool.approval ?? "–",
    ]),
  );
  printTable(io, ["AGENT", "TOOL", "FROM", "HOOK RUNS", "CHATS", "API", "APPROVAL"], rows);
  for (const warning of answer.warnings) io.out(`warning: ${cell(warning)}\n`);
}

function readArguments(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw usage(`the arguments are a JSON object, such as '{"town":"Ulm"}'`);
}

/** Asks before a call that changes something, or that an agent would have to ask for. */
async function confirmCall({ api }: GatewayConnection, name: string, io: CliIo): Promise<void> {
  const { agents } = await read(api.tools.$get({ query: {} }));
  const found = agents.flatMap(({ tools }) => tools).filter(({ tool }) => tool === name);
  if (found.every(({ readOnly, approval }) => readOnly && approval === null)) return;
  const why = `${cell(name)} changes something, or needs an approval`;
  const isMeant = await askYes(io, `${why}. Call it?`);
  if (isMeant === undefined) throw usage(`${why}: add --yes if this is no terminal`);
  if (!isMeant) throw usage("the tool was not called");
}

async function test(
  name: string,
  text: string | undefined,
  { yes, ...options }: CommonOptions & { yes?: boolean },
  io: CliIo,
): Promise<void> {
  const json = { arguments: readArguments(text ?? "{}") };
  const answer = await connected(options, io, async (to) => {
    if (!yes) await confirmCall(to, name, io);
    return read(to.api.tools[":id"].test.$post({ ...withId(name), json }));
  });
  if (answer.output.isError) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, answer);
  io.out(`${printable(renderOutput(answer).join("\n"))}\n`);
}

export function register(program: Command, io: CliIo): void {
  const tools = program.command("tools").description("what agents may call, and trying it");
  reading(
    tools
      .command("list")
      .description("tools of servers and plugins, built-in ones, and where agents are offered them")
      .option("--agent <id>", "of one agent"),
    "rouse tools list --agent main",
  ).action((options: CommonOptions & { agent?: string }) => list(options, io));
  reading(
    tools
      .command("test <tool> [arguments]")
      .description("call a tool of a server or a plugin once, and print its answer")
      .option("--yes", "do not ask before a call that may change something"),
    `rouse tools test town.weather '{"town":"Ulm"}'`,
  ).action((name: string, text: string | undefined, options: CommonOptions & { yes?: boolean }) =>
    test(name, text, options, io),
  );
}
