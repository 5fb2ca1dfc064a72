import { z } from "zod";
import type { TurnExtension } from "../agent/types.ts";
import { findApprovedCall } from "./rules.ts";
import { NO_NOTES, OTHER_NOTES, TRUSTED_NOTES } from "./judge.ts";
import type { Tool } from "../contract/kinds.ts";
import { oneLine } from "../core/text.ts";
import {
  allCoverTool,
  OWN_SOURCE,
  RECALL_TOOL,
  RECALL_TOOL_NAME,
  REMEMBER_TOOL,
  REMEMBER_TOOL_NAME,
  type ToolPatterns,
} from "../vocabulary/tool-names.ts";
import { channelSession, type RunRecord, type Reads, type SessionRef } from "../store/types.ts";
import { MAX_NOTE_CHARS, type Memory, type Note, type NoteOrigin } from "./notes.ts";

/** The place of a room's session: where its answers go. */
interface RoomPlace {
  channel: string;
  to: string;
  thread?: string | undefined;
}

/** The session of a room without its threads, if a session is one of that room; else the session itself. */
function toRoom(session: SessionRef, { channel, to, thread }: RoomPlace): SessionRef {
  const room = { from: "", to, direct: false };
  const isRoom =
    session.origin === "channel" &&
    channelSession(session.agentId, channel, { ...room, thread }).key === session.key;
  return isRoom ? channelSession(session.agentId, channel, room) : session;
}

/**
 * Returns the conversation whose notes a run sees and adds to: the session, so that nothing is known in one conversation that
 * was said in another. All threads of a room have the notes of the room. A schedule that was asked for in a conversation has
 * the notes of that conversation; one of the config has its own, since its answers may go anywhere.
 */
function getMemoryScope({ kind, spec }: RunRecord): SessionRef {
  if (kind === "channel") return toRoom(spec.session, { ...spec, thread: spec.incoming.thread });
  const asked = kind === "schedule" ? spec.schedule.asked : undefined;
  if (asked) return asked.route ? toRoom(asked.session, asked.route) : asked.session;
  return spec.session;
}

const REMEMBER = z.strictObject({
  text: z
    .string()
    .max(MAX_NOTE_CHARS)
    .optional()
    .describe(
      "One fact in one or two sentences that can be understood without this conversation. Leave it out to forget `replaces`.",
    ),
  replaces: z
    .string()
    .optional()
    .describe("The id of a note that is no longer right: it is removed."),
});
const REMEMBER_DESCRIPTION =
  "Keeps a note for later conversations with the same person or in the same room, such as a wish, a habit or a decision. Note what will still matter in weeks, when you are asked to, or when somebody corrects you. Do not note secrets.";
const RECALL = z.strictObject({
  query: z
    .string()
    .max(2_000)
    .optional()
    .describe(
      "A few words that say what the notes are about. Without it you get the newest notes.",
    ),
});
const RECALL_DESCRIPTION =
  "Finds notes that you have kept with `remember` about the person or the room. Use it when something may have been said before that you no longer see.";
const MAX_FOUND = 15;

interface MemoryToolDeps {
  store: Reads;
  memory: Memory;
}

/** Says of a call of `remember` that needed no approval whose words were in view. */
type FindOrigin = (callId: string) => Exclude<NoteOrigin, "outside">;

const ORIGINS: Record<NoteOrigin, string> = {
  trusted: "",
  people: ", words of others",
  outside: ", from text from outside",
};

const renderNote = ({ id, text, origin, createdAt, changedAt = createdAt }: Note): string =>
  `[${id}] ${new Date(changedAt).toISOString().slice(0, 10)}${ORIGINS[origin]}: ${oneLine(text)}`;

/** Renders notes for the model; the beginning says whether all are of trusted words. */
function renderNotes(notes: readonly Note[], left: number): string {
  const lead = notes.every(({ origin }) => origin === "trusted") ? TRUSTED_NOTES : OTHER_NOTES;
  const more = left > 0 ? `\n[${left} more: give a query to find them]` : "";
  return lead + notes.map(renderNote).join("\n") + more;
}

function createRecall(run: RunRecord, { memory }: MemoryToolDeps): Tool<typeof RECALL> {
  return {
    name: RECALL_TOOL,
    description: RECALL_DESCRIPTION,
    input: RECALL,
    readOnly: true,
    idempotent: true,
    async execute({ query = "" }) {
      const found = await memory.search(getMemoryScope(run), query);
      return found.length === 0
        ? NO_NOTES
        : renderNotes(found.slice(0, MAX_FOUND), found.length - MAX_FOUND);
    },
  };
}

function createRemember(
  run: RunRecord,
  { memory, store }: MemoryToolDeps,
  findOrigin: FindOrigin,
): Tool<typeof REMEMBER> {
  /** Whose words the note is of, and who approved the call. A call that waited was judged on what was in view then. */
  const readOrigin = async (callId: string): Promise<Pick<Note, "origin" | "by">> => {
    const approval = await findApprovedCall(run.id, callId, store);
    return {
      origin: approval?.reason === "untrusted" ? "outside" : findOrigin(callId),
      ...(approval && { by: approval.decision.by }),
    };
  };
  return {
    name: REMEMBER_TOOL,
    description: REMEMBER_DESCRIPTION,
    input: REMEMBER,
    idempotent: true,
    // One after the other, as the model has written them.
    exclusive: true,
    async execute({ text = "", replaces }, { callId }) {
      const scope = getMemoryScope(run);
      if (text.trim() === "") {
        if (replaces === undefined)
          return "Nothing was noted: give `text`, or `replaces` to forget a note.";
        return (await memory.forget(scope, replaces))
          ? "The note is forgotten."
          : "There is no note with this id in this conversation.";
      }
      const added = await memory.add(scope, {
        text,
        replaces,
        runId: run.id,
        callId,
        ...(await readOrigin(callId)),
      });
      if (added === "unknown")
        return "Nothing was noted: `replaces` names no note of this conversation. `recall` shows the ids.";
      if (added === "full")
        return "Nothing was noted: there is no room for more notes. Replace notes that are no longer needed.";
      return `Noted as ${added.id}.`;
    },
  };
}

/** The tools for notes that the patterns name. Notes belong to the conversation of the run. */
export function createMemoryTools(
  patterns: ToolPatterns,
  run: RunRecord,
  deps: MemoryToolDeps,
  findOrigin: FindOrigin,
): TurnExtension[] {
  const tools: Tool[] = [
    ...(allCoverTool(patterns, REMEMBER_TOOL_NAME) ? [createRemember(run, deps, findOrigin)] : []),
    ...(allCoverTool(patterns, RECALL_TOOL_NAME) ? [createRecall(run, deps)] : []),
  ];
  return tools.length === 0 ? [] : [{ id: OWN_SOURCE, tools, warning: "" }];
}
