import { newId } from "../core/ids.ts";
import { sha256Hex } from "../core/secret.ts";
import { StoredList, type ListChange, type StoredListDeps } from "../store/stored-list.ts";
import { sessionId, type Ms, type SessionRef } from "../store/types.ts";

/**
 * Whose words a note is made of: `trusted`, those of the owner, the operator or the API's caller; `people`, those of others who
 * take part in the conversation; `outside`, text from outside, approved by a person.
 */
export type NoteOrigin = "trusted" | "people" | "outside";

/** Something that an agent is to know in later turns of a conversation. */
export interface Note {
  id: string;
  text: string;
  origin: NoteOrigin;
  /** The person who approved it, or changed it last. */
  by?: string;
  createdAt: Ms;
  changedAt?: Ms;
  /** The run and the tool call that noted it; a repeat of the call makes no second note. */
  runId: string;
  callId: string;
}

/** A note as a tool call has it. `replaces`: the id of the note whose place it takes. */
export interface NewNote extends Pick<Note, "text" | "origin" | "by" | "runId" | "callId"> {
  replaces?: string | undefined;
}

/** A note, and the conversation that it belongs to. */
export interface PlacedNote {
  scope: SessionRef;
  note: Note;
}

/** The most notes of a conversation, and the most conversations with notes. */
export const MAX_NOTES = 300;
const MAX_SCOPES = 10_000;
/** The longest note, in UTF-16 units. */
export const MAX_NOTE_CHARS = 1_000;

const INDEX = "memory.conversations";
const LEASE = "memory";
const toName = (scope: SessionRef): string => `memory.${sha256Hex(sessionId(scope)).slice(0, 32)}`;

/** Finds texts by a question. Returns their places in the list, best first. */
export type SearchTexts = (texts: readonly string[], query: string) => Promise<number[]>;

/** The notes of agents, by conversation. All gateways on one database have the same. */
export class Memory {
  readonly #deps: StoredListDeps;
  readonly #searchTexts: SearchTexts;
  /** Changes of this process, one at a time: their lists have one lease. */
  #changes: Promise<unknown> = Promise.resolve();

  constructor(deps: StoredListDeps, searchTexts: SearchTexts) {
    this.#deps = deps;
    this.#searchTexts = searchTexts;
  }

  /** The notes of one conversation, oldest first. */
  list(scope: SessionRef): Promise<readonly Note[]> {
    return this.#open<Note>(toName(scope)).readLatest();
  }

  /** The notes of one conversation that a question is about, best first. Without a question all, newest first. */
  async search(scope: SessionRef, query: string): Promise<Note[]> {
    const notes = await this.list(scope);
    if (query.trim() === "") return notes.toReversed();
    const found = await this.#searchTexts(
      notes.map(({ text }) => text),
      query,
    );
    return found.flatMap((place) => notes[place] ?? []);
  }

  /** Keeps a note. `full`: the conversation, or the agent, has as many as it may have. `unknown`: `replaces` names no note. */
  async add(
    scope: SessionRef,
    { replaces, ...given }: NewNote,
  ): Promise<Note | "full" | "unknown"> {
    // The index first: a conversation in it without notes does no harm, and notes that are not in it would never be seen.
    if (!(await this.#enter(scope))) return "full";
    return this.#change<Note, Note | "full" | "unknown">(toName(scope), (notes) => {
      const same = notes.find(({ callId }) => callId === given.callId);
      if (same) return { result: same };
      if (replaces !== undefined && !notes.some(({ id }) => id === replaces))
        return { result: "unknown" };
      const kept = notes.filter(({ id }) => id !== replaces);
      if (kept.length >= MAX_NOTES) return { result: "full" };
      const createdAt = this.#deps.clock.now();
      const added = { id: newId("mem", createdAt), ...given, createdAt };
      return { list: [...kept, added], result: added };
    });
  }

  /** Removes a note of one conversation; false if there is no such note. */
  forget(scope: SessionRef, id: string): Promise<boolean> {
    return this.#change<Note, boolean>(toName(scope), (notes) => {
      const left = notes.filter((note) => note.id !== id);
      return left.length === notes.length ? { result: false } : { list: left, result: true };
    });
  }

  /** The conversations that have had notes. */
  listScopes(): Promise<readonly SessionRef[]> {
    return this.#open<SessionRef>(INDEX).readLatest();
  }

  /** Finds a note of any conversation. */
  async find(id: string): Promise<PlacedNote | undefined> {
    for (const scope of await this.listScopes()) {
      const note = (await this.list(scope)).find((one) => one.id === id);
      if (note) return { scope, note };
    }
    return undefined;
  }

  /** Changes the text of a note as a person wants it; undefined if there is no such note. */
  async edit(id: string, text: string, by: string): Promise<PlacedNote | undefined> {
    const found = await this.find(id);
    if (!found) return undefined;
    const changedAt = this.#deps.clock.now();
    return this.#change<Note, PlacedNote | undefined>(toName(found.scope), (notes) => {
      const note = notes.find((one) => one.id === id);
      if (!note) return { result: undefined };
      // A text that a person has written in its place counts as the operator's words.
      const edited: Note = { ...note, text, origin: "trusted", by, changedAt };
      return {
        list: notes.map((one) => (one.id === id ? edited : one)),
        result: { scope: found.scope, note: edited },
      };
    });
  }

  /** Removes all notes of a conversation, and returns how many there were. */
  clear(scope: SessionRef): Promise<number> {
    return this.#change<Note, number>(toName(scope), (notes) =>
      notes.length === 0 ? { result: 0 } : { list: [], result: notes.length },
    );
  }

  /** Enters a conversation in the index; false if the index is full. */
  async #enter(scope: SessionRef): Promise<boolean> {
    const id = sessionId(scope);
    const isIt = (one: SessionRef): boolean => sessionId(one) === id;
    if ((await this.listScopes()).some(isIt)) return true;
    return this.#change<SessionRef, boolean>(INDEX, (scopes) => {
      if (scopes.some(isIt)) return { result: true };
      return scopes.length >= MAX_SCOPES
        ? { result: false }
        : { list: [...scopes, scope], result: true };
    });
  }

  #open<T>(name: string): StoredList<T> {
    return new StoredList<T>(name, this.#deps, LEASE);
  }

  #change<T, R>(name: string, make: (list: readonly T[]) => ListChange<T, R>): Promise<R> {
    const next = this.#changes.then(() => this.#open<T>(name).change(make));
    this.#changes = next.catch(() => undefined);
    return next;
  }
}
