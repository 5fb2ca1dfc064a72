import { OPERATOR } from "../../config/schema/tools.ts";
import type { PlacedNote } from "../../people/notes.ts";
import type { SessionRef } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, matches } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso, isoOrNull, pick, pickOrNull } from "../records/views.ts";

const WORDS_OF: Record<PlacedNote["note"]["origin"], string> = {
  trusted: "owner or operator",
  people: "people in the conversation",
  outside: "from outside, approved",
};

/** A note of an agent, as operators see it. */
export type NoteView = ReturnType<typeof noteView>;

function noteView({ scope: { agentId, origin, key, via }, note }: PlacedNote) {
  return {
    ...pick(note, "id", "text", "runId"),
    /** The person who approved it, or changed it last. */
    ...pickOrNull(note, "by"),
    agentId,
    /** The conversation that the note belongs to. */
    session: { key, origin, ...pickOrNull(via, "path", "credential") },
    /** Whose words it is of: `trusted`, `people` in the conversation, or `outside`. */
    words: note.origin,
    /** The same in words. */
    wordsOf: WORDS_OF[note.origin],
    createdAt: iso(note.createdAt),
    changedAt: isoOrNull(note.changedAt),
  };
}

/** A choice of notes; those of all conversations if `session` is absent. */
interface NoteQuery {
  agent?: string | undefined;
  session?: string | undefined;
}

const listScopes = async (
  { memory }: AdminDeps,
  { agent, session }: NoteQuery,
): Promise<SessionRef[]> =>
  (await memory.listScopes()).filter((scope) => matches(scope, { agentId: agent, key: session }));

/** Lists notes, the newest first, `limit` at most; `total` counts all. */
export async function listNotes(
  deps: AdminDeps,
  { limit, ...query }: NoteQuery & { limit: number },
) {
  const placed: PlacedNote[] = [];
  for (const scope of await listScopes(deps, query))
    for (const note of await deps.memory.list(scope)) placed.push({ scope, note });
  const sorted = placed.toSorted(
    (a, b) => (b.note.changedAt ?? b.note.createdAt) - (a.note.changedAt ?? a.note.createdAt),
  );
  return { notes: sorted.slice(0, limit).map(noteView), total: placed.length };
}

/**
 * Changes the text of a note: it counts as the operator's words from then on.
 * @throws RouseError `not_found`
 */
export async function editNote({ memory }: AdminDeps, id: string, text: string) {
  return { note: noteView(found(await memory.edit(id, text, OPERATOR), unknownId("note", id))) };
}

/**
 * Deletes a note.
 * @throws RouseError `not_found`
 */
export async function deleteNote({ memory }: AdminDeps, id: string) {
  const placed = found(await memory.find(id), unknownId("note", id));
  found((await memory.forget(placed.scope, id)) || undefined, unknownId("note", id));
  return { note: noteView(placed) };
}

/** Deletes all notes of the conversations with a key, of one agent or of all. Returns how many there were. */
export async function deleteNotes(deps: AdminDeps, query: NoteQuery & { session: string }) {
  let deleted = 0;
  for (const scope of await listScopes(deps, query)) deleted += await deps.memory.clear(scope);
  return { deleted };
}
