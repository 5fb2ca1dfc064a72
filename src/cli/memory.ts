import type { Command } from "commander";
import type { NoteView } from "../admin/memory.ts";
import { connected, read, withId } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { ownOptions, reading, type CommonOptions } from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { cell, shortTime } from "./text.ts";

interface ListOptions extends CommonOptions {
  agent?: string;
  session?: string;
  limit?: string;
}

const WORDS: Record<NoteView["words"], string> = {
  trusted: "trusted",
  people: "people in the conversation",
  outside: "from outside, approved",
};

const describeWords = ({ words, by }: NoteView): string =>
  WORDS[words] + (by === null ? "" : ` (${cell(by)})`);

function printNote(note: NoteView, io: CliIo): void {
  printFields(io, {
    note: note.id,
    agent: note.agentId,
    session: note.session.key,
    text: cell(note.text),
    words: describeWords(note),
    run: note.runId,
  });
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.memory.$get({ query: ownOptions(options) })),
  );
  if (options.json) return printJson(io, answer);
  const { notes, total } = answer;
  printTable(
    io,
    ["ID", "CHANGED", "AGENT", "SESSION", "WORDS OF", "NOTE"],
    notes.map((note) => [
      note.id,
      shortTime(note.changedAt ?? note.createdAt, io.now()),
      note.agentId,
      cell(note.session.key),
      describeWords(note),
      cell(note.text),
    ]),
  );
  if (total > notes.length)
    io.out(`\n${total - notes.length} more: choose an agent or a session, or raise --limit\n`);
}

async function edit(id: string, text: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.memory[":id"].$patch({ ...withId(id), json: { text } })),
  );
  if (options.json) return printJson(io, answer);
  printNote(answer.note, io);
}

async function remove(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.memory[":id"].$delete(withId(id))),
  );
  if (options.json) return printJson(io, answer);
  io.out(`${answer.note.id}  deleted\n`);
}

async function clear(
  session: string,
  options: CommonOptions & { agent?: string },
  io: CliIo,
): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.memory.$delete({ query: { session, ...ownOptions(options) } })),
  );
  if (options.json) return printJson(io, answer);
  io.out(
    `${cell(session)}  ${answer.deleted === 1 ? "1 note" : `${answer.deleted} notes`} deleted\n`,
  );
}

export function register(program: Command, io: CliIo): void {
  const memory = program
    .command("memory")
    .description("what agents have noted about people and rooms, with the tool `remember`");
  reading(
    memory
      .command("list")
      .description("notes, newest first")
      .option("--agent <id>", "of one agent")
      .option("--session <key>", "of one conversation, by the key that `rouse sessions list` shows")
      .option("--limit <n>", "how many (default 50, at most 500)"),
    "rouse memory list --session main",
  ).action((options: ListOptions) => list(options, io));
  reading(
    memory
      .command("edit <id> <text>")
      .description("correct a note: it counts as your words from then on"),
    'rouse memory edit mem_… "Ann is a vegetarian."',
  ).action((id: string, text: string, options: CommonOptions) => edit(id, text, options, io));
  reading(
    memory.command("delete <id>").description("delete a note"),
    "rouse memory delete mem_…",
  ).action((id: string, options: CommonOptions) => remove(id, options, io));
  reading(
    memory
      .command("clear <session>")
      .description("delete all notes of a conversation")
      .option("--agent <id>", "of this agent alone (default: of all agents)"),
    "rouse memory clear hook:shop:42",
  ).action((session: string, options: CommonOptions & { agent?: string }) =>
    clear(session, options, io),
  );
}
