import { RouseError } from "../../core/errors.ts";
import type { ChatLine } from "../../http/admin/chat.ts";
import { newId } from "../../core/ids.ts";
import { doing, type Given } from "../command.ts";
import { connected, readLines, withId, type GatewayConnection } from "./connect.ts";
import { reportError, usage } from "../failure.ts";
import { EXIT, type CliIo } from "../io.ts";
import { readInput } from "../options.ts";
import { printJson } from "../print.ts";
import { printable, shellWord } from "../text.ts";

const CHAT_OPTIONS = {
  "-m, --message <text>": "say this and end; without it and without a terminal, what is piped in",
  "--session <id>": "go on with a session, or begin one of this name",
} as const;
type ChatOptions = Given<typeof CHAT_OPTIONS>;

/** One turn: what it says, line by line. An aborted signal stops it. */
type Talk = (message: string, signal: AbortSignal) => AsyncGenerator<ChatLine>;

/** Talks through the operator's interface. The turn is stopped by its run's id: it would go on without us. */
function createTalk(
  { api }: GatewayConnection,
  agent: string | undefined,
  session: string | undefined,
): Talk {
  return async function* (message, signal) {
    const json = { message, session, agent };
    for await (const line of readLines<ChatLine>(api.chat.$post({ json }))) {
      if (line.type === "start") {
        const stop = (): void =>
          void api.runs[":id"].cancel.$post(withId(line.runId)).catch(() => undefined);
        if (signal.aborted) stop();
        else signal.addEventListener("abort", stop, { once: true });
      }
      yield line;
    }
  };
}

interface Taken {
  ok: boolean;
  runId: string | null;
  reply: string;
  /** The passages that the reply names by their number. */
  sources: readonly { number: number; chunkId: string; filename: string; page: number | null }[];
}

/** The passages of a turn that its reply names, as `[1]`. */
const namedSources = ({
  citations,
  marks,
}: Extract<ChatLine, { type: "end"; ok: true }>): Taken["sources"] =>
  citations
    .filter((citation) => marks.some(({ number }) => number === citation.number))
    .map(({ number, chunkId, filename, page }) => ({ number, chunkId, filename, page }));

/** Takes one turn and prints it as it comes. Ctrl-C stops the turn, not the program. */
async function take(talk: Talk, message: string, options: ChatOptions, io: CliIo): Promise<Taken> {
  const abort = new AbortController();
  const undo = io.onInterrupt?.(() => abort.abort());
  const taken: Taken = { ok: false, runId: null, reply: "", sources: [] };
  try {
    for await (const line of talk(message, abort.signal)) {
      if (line.type === "start") taken.runId = line.runId;
      if (line.type === "text") {
        taken.reply += line.text;
        if (!options.json) io.out(printable(line.text));
      }
      if (line.type !== "end") continue;
      taken.ok = line.ok;
      if (line.ok) taken.sources = namedSources(line);
      if (!line.ok && !abort.signal.aborted)
        throw new RouseError({ code: "internal", message: line.message });
    }
  } catch (error) {
    if (!abort.signal.aborted) throw error;
  } finally {
    undo?.();
    if (!options.json && taken.reply !== "") io.out("\n");
    if (!options.json)
      for (const { number, filename, page, chunkId } of taken.sources)
        io.err(
          `[${number}] ${printable(filename)}${page === null ? "" : `, page ${page}`}  ${chunkId}\n`,
        );
  }
  if (abort.signal.aborted) io.err("stopped\n");
  return taken;
}

/** Asks for one message after the other until there is no more. A turn that fails does not end the conversation. */
async function converse(
  talk: Talk,
  ask: NonNullable<CliIo["ask"]>,
  options: ChatOptions,
  io: CliIo,
): Promise<void> {
  for (;;) {
    const message = await ask("> ");
    if (message === undefined) return;
    if (message.trim() === "") continue;
    try {
      await take(talk, message, options, io);
    } catch (error) {
      reportError(error, io, options.verbose ?? false);
    }
  }
}

async function sayOnce(
  talk: Talk,
  session: string | undefined,
  options: ChatOptions,
  io: CliIo,
): Promise<void> {
  const message =
    options.message ?? (await readInput("-", io)).toString("utf8").replace(/\r?\n$/, "");
  if (message.trim() === "")
    throw usage("there is nothing to say: use --message, or pipe the text in");
  const { ok, runId, reply, sources } = await take(talk, message, options, io);
  if (!ok) io.exitCode = EXIT.failure;
  if (options.json) printJson(io, { ok, session: session ?? null, runId, reply, sources });
}

async function chatWith(io: CliIo, options: ChatOptions, agent: string | undefined): Promise<void> {
  const ask = options.message === undefined && io.terminal.in && !options.json ? io.ask : undefined;
  // A single message is one shot: its conversation is not continued.
  const session = options.session ?? (ask && newId("trn", io.now()).slice(4, 20));
  await connected(options, io, async (to) => {
    const talk = createTalk(to, agent, session);
    if (!ask) return sayOnce(talk, session, options, io);
    await converse(talk, ask, options, io);
    const name = agent === undefined ? "" : ` ${agent}`;
    io.err(`\ngo on with: rouse chat${name} --session ${shellWord(session ?? "")}\n`);
  });
}

export const chatCommand = doing({
  usage: "chat [agent]",
  about: "talk to an agent: each line is a turn of one session, Ctrl-C stops a turn, Ctrl-D ends",
  examples: ["rouse chat", 'rouse chat ops --message "What failed tonight?"'],
  options: CHAT_OPTIONS,
  json: true,
  run: chatWith,
});
