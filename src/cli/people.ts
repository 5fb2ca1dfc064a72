import type { Command } from "commander";
import type { AddressView } from "../admin/people.ts";
import { connected, read, withId } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { cell, shortTime } from "./text.ts";

const STATES: Record<AddressView["state"], string> = {
  linked: "linked",
  owner: "the owner",
  unlinked: "not linked: no /link yet",
};

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.people.$get()));
  if (options.json) return printJson(io, answer);
  const rows = answer.addresses.map(({ personId, entry, channel, person, state, linkedAt }) => [
    personId ?? "–",
    entry ?? "–",
    channel,
    cell(person),
    STATES[state],
    linkedAt === null ? "–" : shortTime(linkedAt, io.now()),
  ]);
  printTable(io, ["ID", "CONFIG", "CHANNEL", "PERSON", "STATE", "LINKED"], rows);
}

async function unlink(person: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.people[":id"].$delete(withId(person))),
  );
  if (options.json) return printJson(io, answer);
  for (const one of answer.unlinked)
    io.out(`${cell(one.channel)}:${cell(one.person)}  unlinked: a conversation of its own again\n`);
}

const HELP = `
A person links two channels with a code: /link in a direct message on the one, then /link CODE on the other.
From then on the direct messages of both share one session, channel:person:<ID>.
CONFIG is the id of the entry in \`people\` of the config. An entry alone links nothing: each channel needs a code.
`;

export function register(program: Command, io: CliIo): void {
  const people = program
    .command("people")
    .description("people who have linked several channels")
    .addHelpText("after", HELP);
  reading(
    people.command("list").description("which channels are linked, and which the config names"),
    "rouse people list",
  ).action((options: CommonOptions) => list(options, io));
  reading(
    people
      .command("unlink <person>")
      .description(
        "take a person's channels apart by the ID, or take out one as <channel>:<id of the person>",
      ),
    "rouse people unlink ann-hk7x3ptw",
  ).action((person: string, options: CommonOptions) => unlink(person, options, io));
}
