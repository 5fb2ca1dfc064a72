import type { Command } from "commander";
import type { PairingView } from "../admin/pairings.ts";
import { connected, read, withId } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { cell, shortTime } from "./text.ts";

const describeState = ({ state, by }: PairingView): string =>
  by === null ? state : `${state} by ${by}`;

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.pairings.$get()));
  if (options.json) return printJson(io, answer);
  const rows = answer.pairings.map((pairing) => [
    pairing.code ?? "–",
    pairing.channel,
    pairing.person,
    pairing.name === null ? "–" : cell(pairing.name),
    shortTime(pairing.requestedAt, io.now()),
    pairing.expiresAt === null ? "–" : shortTime(pairing.expiresAt, io.now()),
    describeState(pairing),
    pairing.id,
  ]);
  printTable(io, ["CODE", "CHANNEL", "PERSON", "NAME", "ASKED", "UNTIL", "STATE", "ID"], rows);
}

async function decide(
  code: string,
  verdict: "approve" | "deny",
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await read(to.api.pairings[":id"].$post({ ...withId(code), json: { verdict } }))),
  }));
  if (options.json) return printJson(io, answer);
  const { channel, person, state } = answer.pairing;
  io.out(`${cell(channel)}:${cell(person)}  ${state}\n`);
  if (!live)
    io.out("no gateway runs just now: the person gets the message with the next `rouse start`\n");
}

async function revoke(person: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.pairings[":id"].$delete(withId(person))),
  );
  if (options.json) return printJson(io, answer);
  const { channel, person: id } = answer.pairing;
  io.out(`${cell(channel)}:${cell(id)}  revoked: this person is a stranger again\n`);
}

export function register(program: Command, io: CliIo): void {
  const pairing = program
    .command("pairing")
    .description("people who ask to write to the agent on a channel");
  reading(
    pairing.command("list").description("who waits, and who was approved or denied, newest first"),
    "rouse pairing list",
  ).action((options: CommonOptions) => list(options, io));
  reading(
    pairing
      .command("approve <code>")
      .description("let the person write direct messages to the agent"),
    "rouse pairing approve HK7X3PTW",
  ).action((code: string, options: CommonOptions) => decide(code, "approve", options, io));
  reading(
    pairing
      .command("deny <code>")
      .description("do not answer the person, and send no further code"),
    "rouse pairing deny HK7X3PTW",
  ).action((code: string, options: CommonOptions) => decide(code, "deny", options, io));
  reading(
    pairing
      .command("revoke <person>")
      .description(
        "take a decision back, by the id or as <channel>:<id of the person>: the person is a stranger again",
      ),
    "rouse pairing revoke par_…",
  ).action((person: string, options: CommonOptions) => revoke(person, options, io));
}
