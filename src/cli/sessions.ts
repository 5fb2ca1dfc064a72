import type { Command } from "commander";
import { labelledText, plainText } from "../core/text.ts";
import type { SessionDetail, SessionName } from "../admin/sessions.ts";
import { connected, read } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { listing, ownOptions, reading, type CommonOptions, type PageOptions } from "./options.ts";
import { printBlock, printFields, printJson, printMore, printTable } from "./print.ts";
import { readListPage } from "./search.ts";
import { member } from "./settings.ts";
import { cell, localTime, shortTime } from "./text.ts";

interface RefOptions extends CommonOptions {
  agent?: string;
  origin?: string;
  path?: string;
  credential?: string;
}

type ListOptions = PageOptions & Pick<RefOptions, "agent" | "origin">;

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const { before, limit, ...filters } = ownOptions(options);
  const answer = await connected(options, io, ({ api }) =>
    readListPage(
      io,
      { before, limit },
      (page) => read(api.sessions.$get({ query: { ...filters, ...page } })),
      ({ sessions }) => sessions,
    ),
  );
  if (options.json) return printJson(io, answer);
  const { sessions } = answer;
  const rows = sessions.map((session) => [
    session.agentId,
    session.origin,
    String(session.turns),
    shortTime(session.lastUsedAt, io.now()),
    session.path ?? "–",
    session.credential ?? "–",
    session.key,
  ]);
  printTable(io, ["AGENT", "ORIGIN", "TURNS", "LAST USED", "PATH", "CREDENTIAL", "KEY"], rows);
  printMore(io, "rouse sessions list", answer);
}

/** The words of a model's message: a text, or the texts among its parts; tools by their name. */
function getWords(message: unknown): string {
  const content = member(message, "content");
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const parts = content.map((part: unknown) => {
    const text = member(part, "text");
    if (typeof text === "string") return text;
    const tool = member(part, "toolName");
    return typeof tool === "string" ? `[${String(member(part, "type"))} ${tool}]` : "";
  });
  return parts.filter((part) => part !== "").join("\n");
}

function printCheckpoint(
  { at, input, checkpoint }: SessionDetail["turns"][number],
  io: CliIo,
): void {
  const { turns = 0, left = 0, outside = false, model } = checkpoint ?? {};
  const missing = left === 0 ? "" : `, ${left} of them in no summary`;
  io.out(
    `\n— ${localTime(at)}  checkpoint: replaces ${turns} turns${missing}${model ? `  ${model}` : ""}\n`,
  );
  if (input.length > 0)
    printBlock(io, outside ? "summary (outside text)" : "summary", plainText(input.slice(1)));
}

function printTurn(turn: SessionDetail["turns"][number], io: CliIo): void {
  if (turn.checkpoint) return printCheckpoint(turn, io);
  io.out(`\n— ${localTime(turn.at)}  ${cell(turn.hook)}  ${turn.runId}\n`);
  printBlock(
    io,
    turn.input.some((part) => part.outside) ? "in (outside text)" : "in",
    labelledText(turn.input),
  );
  for (const message of turn.messages)
    printBlock(
      io,
      member(message, "role") === "assistant" ? "reply" : String(member(message, "role")),
      getWords(message),
    );
}

function printSession(detail: SessionDetail, io: CliIo): void {
  const { session, turns, next, queued, lastRoutes } = detail;
  printFields(io, {
    session: session.key,
    agent: session.agentId,
    origin: session.origin,
    path: session.path,
    credential: session.credential,
    turns: session.turns,
    "last used": session.lastUsedAt === null ? "never" : localTime(session.lastUsedAt),
    "last route": lastRoutes[0] ? `${lastRoutes[0].channel} ${lastRoutes[0].to}` : null,
    "waiting events": queued.length === 0 ? null : queued.length,
  });
  if (next !== null) io.out(`\nthere are older turns: --before ${next}\n`);
  for (const turn of turns) printTurn(turn, io);
  for (const event of queued)
    printBlock(
      io,
      `waits for a heartbeat since ${localTime(event.at)} (${cell(event.source)})`,
      plainText(event.text),
    );
}

/** What names a session to the gateway, which checks its origin. */
const toName = (key: string, options: RefOptions) => ({ key, ...ownOptions(options) });

async function show(
  key: string,
  options: RefOptions & Pick<PageOptions, "limit" | "before">,
  io: CliIo,
): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.sessions.show.$get({ query: toName(key, options) })),
  );
  if (options.json) return printJson(io, answer);
  printSession(answer, io);
}

async function reset(key: string, options: RefOptions, io: CliIo): Promise<void> {
  await connected(options, io, ({ api }) =>
    api.sessions.reset.$post({ json: toName(key, options) as SessionName }),
  );
  io.out(`${cell(key)}  its history is deleted\n`);
}

async function remove(key: string, options: RefOptions, io: CliIo): Promise<void> {
  await connected(options, io, ({ api }) => api.sessions.$delete({ query: toName(key, options) }));
  io.out(`${cell(key)}  deleted\n`);
}

export function register(program: Command, io: CliIo): void {
  const sessions = program.command("sessions").description("conversations and their history");
  const withRef = (command: Command): Command =>
    command
      .option(
        "--agent <id>",
        "the session's agent (default: the one that the key of an API session names, else the first)",
      )
      .option(
        "--origin <origin>",
        "main, hook, api or channel (default: what the key says, else hook)",
      )
      .option(
        "--path <path>",
        "the hook path that the session belongs to, if several have one with this key",
      )
      .option(
        "--credential <name>",
        "the configured credential that it belongs to, as `rouse sessions list` prints it",
      );
  listing(
    sessions
      .command("list")
      .description("sessions, last used first")
      .option("--agent <id>", "of one agent")
      .option("--origin <origin>", "main, hook, api or channel"),
    "rouse sessions list --origin hook --since 1d",
  ).action((options: ListOptions) => list(options, io));
  reading(
    withRef(
      sessions.command("show <key>").description("the newest turns and checkpoints of a session"),
    )
      .option("--limit <n>", "how many (default 50, at most 500)")
      .option("--before <turn>", "older than this one: the page before"),
    "rouse sessions show main",
    "rouse sessions show hook:shop:42",
  ).action((key: string, options: Parameters<typeof show>[1]) => show(key, options, io));
  reading(
    withRef(sessions.command("reset <key>").description("forget a session's history")),
    "rouse sessions reset main",
  ).action((key: string, options: RefOptions) => reset(key, options, io));
  reading(
    withRef(sessions.command("delete <key>").description("delete a session with its history")),
    "rouse sessions delete hook:shop:42",
  ).action((key: string, options: RefOptions) => remove(key, options, io));
}
