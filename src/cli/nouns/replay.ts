import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bodyGone } from "../../core/body-gone.ts";
import { OUTCOMES } from "../../vocabulary/outcomes.ts";
import type { ReplayResult } from "../../intake/types.ts";
import { BULK_OPTIONS, checkChoice, followBulk, readBulk } from "./bulk.ts";
import { doing, type Given } from "../command.ts";
import { connected, read, withId, type GatewayConnection } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { resolveId } from "../ids.ts";
import { EXIT, type CliIo } from "../io.ts";
import { OUTCOME_OPTION, readCount, readRate } from "../options.ts";
import { printJson } from "../print.ts";
import { cell } from "../text.ts";

const CHOOSING = {
  "--failed": "all that failed: of those with runs, only the failed runs start again",
  "--unmatched": "all that no mapping matched",
  ...OUTCOME_OPTION,
  "--path <path>": "only those of this hook path",
  "--mapping <id>": "only those that this mapping took",
} as const;
const OF_ONE = {
  "--action <n>": "only this action of one event, by its number from 1",
  "--edit": "open the body of one event in $VISUAL or $EDITOR, and replay it as saved",
} as const;
const OPTIONS = {
  ...CHOOSING,
  ...BULK_OPTIONS,
  ...OF_ONE,
  "--yes": "replay accepted events, too: they do their work a second time",
} as const;
type ReplayOptions = Given<typeof OPTIONS>;

function renderReplayed({
  eventId,
  newEventId,
  outcome,
  mapping,
  reason,
  actions,
}: ReplayResult): string {
  const into = newEventId === undefined ? "" : ` → ${newEventId}`;
  const head = [`${eventId}${into}`, outcome, mapping, reason && cell(reason)];
  const lines = actions.map(({ kind, id, summary }) => ["", kind, id, cell(summary)]);
  return [head, ...lines]
    .map((line) => `${line.filter((part) => part !== undefined).join("  ")}\n`)
    .join("");
}

/** Opens a text in the user's editor, and returns it as it was saved. */
async function editText(bytes: Buffer, name: string, io: CliIo): Promise<Buffer> {
  const editor = io.env["VISUAL"] || io.env["EDITOR"] || "vi";
  const folder = await mkdtemp(join(tmpdir(), "rouse-edit-"));
  try {
    const file = join(folder, name);
    // A body may hold what other users of the machine must not read.
    await writeFile(file, bytes, { mode: 0o600 });
    const child = spawn("sh", ["-c", `${editor} "$1"`, "sh", file], {
      stdio: "inherit",
      env: { ...process.env, ...io.env },
    });
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0)
      throw usage(
        `the editor \`${editor}\` ended with ${code ?? "a signal"}; nothing was replayed`,
      );
    return await readFile(file);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The body of an event as the user has edited it, in base64; undefined if it was not changed. */
async function editBody(id: string, to: GatewayConnection, io: CliIo): Promise<string | undefined> {
  const { event } = await read(to.api.events[":id"].$get(withId(id)));
  const { body, encoding, contentType } = event.request;
  if (body === null) throw bodyGone();
  const before = Buffer.from(body, encoding);
  const after = await editText(
    before,
    contentType?.includes("json") === true ? "body.json" : "body.txt",
    io,
  );
  return after.equals(before) ? undefined : after.toString("base64");
}

async function replayOne(
  name: string,
  to: GatewayConnection,
  options: ReplayOptions,
  io: CliIo,
): Promise<void> {
  const id = await resolveId(to, "events", name);
  const body = options.edit ? await editBody(id, to, io) : undefined;
  if (options.edit && body === undefined)
    return io.err("the body was not changed; nothing was replayed\n");
  const json = {
    dryRun: options.dryRun === true,
    action: readCount("action", options.action),
    body,
  };
  const answer = await read(to.api.events[":id"].replay.$post({ ...withId(id), json }));
  if (options.json) printJson(io, answer);
  else io.out(renderReplayed(answer.result));
  if (answer.result.outcome === "failed" || answer.result.outcome === "rejected")
    io.exitCode = EXIT.failure;
}

/** Reads which events are meant. */
function readSelect({ failed, unmatched, outcome: text, yes, dryRun }: ReplayOptions) {
  if (failed && unmatched) throw usage("use --failed or --unmatched");
  const select = failed ? "failed" : unmatched ? "unmatched" : "all";
  const outcome = OUTCOMES.find((known) => known === text);
  if (text !== undefined && select !== "all") throw usage(`--outcome does not go with --${select}`);
  if (text !== undefined && outcome === undefined)
    throw usage(`--outcome ${text}: write ${OUTCOMES.join(", ")}`);
  const doesWorkTwice = select === "all" && (outcome === undefined || outcome === "accepted");
  if (doesWorkTwice && !yes && !dryRun)
    throw usage(
      "accepted events would do their work a second time: choose others with --outcome, try it with --dry-run, or add --yes",
    );
  return { select, outcome } as const;
}

/** Follows a replay of many, or what it would do. */
const follow = (
  answer: Promise<{ body: ReadableStream | null }>,
  options: ReplayOptions,
  io: CliIo,
): Promise<void> => followBulk(answer, options, io, { done: "replayed", label: "replaying" });

async function replayAll(io: CliIo, options: ReplayOptions): Promise<void> {
  const { path, mapping } = options;
  const bulk = { ...readSelect(options), path, mapping, ...readBulk(options, io) };
  await connected(options, io, ({ api }) =>
    follow(api.events.replay.$post({ json: bulk }), options, io),
  );
}

/** `rouse events replay`: of several events that are named, the oldest comes first. */
export const replay = doing({
  usage: "replay [event...]",
  about: "replay events with the current mappings",
  examples: [
    "rouse events replay evt_… --dry-run",
    "rouse events replay evt_… --edit",
    "rouse events replay evt_… evt_… --dry-run",
    "rouse events replay --unmatched --since 1d",
    "rouse events replay --outcome rejected --path shop --rate 5/s",
  ],
  options: OPTIONS,
  json: true,
  async run(io, options, names) {
    checkChoice(options, names.length, {
      filters: CHOOSING,
      own: OF_ONE,
      how: { "--rate <n>": "" },
    });
    const [only] = names;
    if (only === undefined) return replayAll(io, options);
    await connected(options, io, async (to) => {
      if (names.length === 1) return replayOne(only, to, options, io);
      const ids: string[] = [];
      for (const name of names) ids.push(await resolveId(to, "events", name));
      const dryRun = options.dryRun === true;
      const json = { select: "all" as const, ids, perSecond: readRate(options.rate), dryRun };
      await follow(to.api.events.replay.$post({ json }), options, io);
    });
  },
});
