import type { Command } from "commander";
import type { ChannelView } from "../admin/channels.ts";
import { connected, read, withId } from "./connect.ts";
import { EXIT, type CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { printable } from "./text.ts";

/** The agents of a channel, as `desk in C0123 for U1, main`. */
function renderAgents(agents: ChannelView["agents"]): string {
  const parts = agents.map(({ agent, room, person }) =>
    [
      agent,
      ...(room === null ? [] : [`in ${room}`]),
      ...(person === null ? [] : [`for ${person}`]),
    ].join(" "),
  );
  return parts.join(", ") || "–";
}

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.channels.$get()));
  if (options.json) return printJson(io, answer);
  const { channels } = answer;
  const rows = channels.map(
    ({ name, id, loaded, receives, allowFrom, dmPolicy, defaultTo, limit, fallback, agents }) => [
      name,
      name === id ? (loaded ? "configured" : "–") : `= ${id}`,
      receives ? renderSenders(allowFrom, dmPolicy) : "–",
      defaultTo ?? "–",
      limit === null ? "–" : String(limit),
      fallback ? "yes" : "–",
      receives ? renderAgents(agents) : "–",
    ],
  );
  printTable(
    io,
    ["CHANNEL", "STATE", "RECEIVES", "DEFAULT TO", "LIMIT", "LAST RESORT", "AGENTS"],
    rows,
  );
}

/** Who may write: those in allowFrom, and whom dmPolicy adds. */
function renderSenders(allowFrom: number, dmPolicy: ChannelView["dmPolicy"]): string {
  const allowed = allowFrom === 0 ? "no allowed senders" : `from ${allowFrom}`;
  if (dmPolicy === "allowlist") return allowed;
  return dmPolicy === "open"
    ? "from everybody"
    : `${allowed}, ${dmPolicy === "pairing" ? "pairing" : "groups only"}`;
}

async function status(options: CommonOptions, io: CliIo): Promise<void> {
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await read(to.api.channels.status.$get())),
  }));
  const { channels } = answer;
  if (
    channels.some(
      ({ reach, receive, away }) => away !== null || reach?.ok === false || receive?.ok === false,
    )
  )
    io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, answer);
  const rows = channels.map(({ id, reach, receive, away, nobody }) => [
    id,
    away === null
      ? (reach?.message ?? "cannot tell")
      : `sends fail, ${away.waiting} deliveries wait`,
    nobody
      ? "rejects all: allowFrom is empty"
      : (receive?.message ?? (live ? "–" : "no gateway runs")),
  ]);
  printTable(
    { ...io, terminal: { ...io.terminal, columns: undefined } },
    ["CHANNEL", "SENDING", "RECEIVING"],
    rows,
  );
}

async function test(
  name: string,
  { to, text, ...options }: CommonOptions & { to?: string; text?: string },
  io: CliIo,
): Promise<void> {
  const body = { ...withId(name), json: { to, text } };
  const answer = await connected(options, io, ({ api }) =>
    read(api.channels[":id"].test.$post(body)),
  );
  if (answer.result.status !== "sent") io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, answer);
  const { channel, to: recipient, result } = answer;
  if (result.status === "sent")
    io.out(`sent to ${recipient} on ${channel}  ${(result.messageIds ?? []).join(" ")}\n`);
  else io.err(`not sent to ${recipient} on ${channel}: ${printable(result.reason)}\n`);
}

export function register(program: Command, io: CliIo): void {
  const channels = program
    .command("channels")
    .description("where replies go, and who may write to the agent");
  reading(
    channels.command("list").description("channels that are known, and those that are configured"),
    "rouse channels list",
  ).action((options: CommonOptions) => list(options, io));
  reading(
    channels
      .command("status")
      .description(
        "whether each can be reached, and whether it receives messages; exit code 1 if one cannot",
      ),
    "rouse channels status",
  ).action((options: CommonOptions) => status(options, io));
  reading(
    channels
      .command("test <channel>")
      .description("send a message immediately, bypassing the outbox")
      .option("--to <recipient>", "the recipient (default: the channel's defaultTo)")
      .option("--text <text>", "the message (default: a line that says it is a test)"),
    "rouse channels test console --to me",
  ).action((id: string, options: CommonOptions & { to?: string; text?: string }) =>
    test(id, options, io),
  );
}
