import { useState } from "preact/hooks";
import type { NoteView } from "../../../../src/operate/people/memory.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { FilterSearch } from "../../filters.tsx";
import { useAction, useResource } from "../../resource.ts";
import { href, place } from "../../router.ts";
import { Button, Section, Time } from "../../ui/basic.tsx";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

const toPath = ({ id }: NoteView): string => `/memory/${encodeURIComponent(id)}`;

function Edit({ note, changed, onClose }: { note: NoteView; changed(): void; onClose(): void }) {
  const [text, setText] = useState(note.text);
  const [save, busy] = useAction(async () => {
    await ask(toPath(note), { method: "PATCH", body: { text: text.trim() } });
    toast("The note is changed.");
    changed();
    onClose();
  }, toastError);
  return (
    <FormDialog title="Edit note" action="Save" busy={busy} onSubmit={save} onClose={onClose}>
      <TextField
        label="Text"
        value={text}
        onInput={setText}
        lines={4}
        required
        hint="It counts as your words from then on."
      />
    </FormDialog>
  );
}

function Actions({ note, changed }: { note: NoteView; changed(): void }) {
  const [isEditing, setEditing] = useState(false);
  return (
    <>
      <Button onClick={() => setEditing(true)}>Edit…</Button>{" "}
      <ActionButton
        label="Delete"
        kind="danger"
        question={["Delete this note?", visibleText(note.text)]}
        send={() => ask(toPath(note), { method: "DELETE" })}
        done="The note is deleted."
        onDone={changed}
      />
      {isEditing ? <Edit note={note} changed={changed} onClose={() => setEditing(false)} /> : null}
    </>
  );
}

const matches = ({ text, agentId, session }: NoteView, words: string): boolean =>
  [text, agentId, session.key].some((one) => one.toLowerCase().includes(words.toLowerCase()));

/** The notes of agents about people and rooms. */
export function Memory() {
  const { search = "" } = place.value.query;
  const memory = useResource<{ notes: NoteView[]; total: number }>("/memory?limit=500", {
    live: true,
  });
  return (
    <Section
      title="Notes of agents"
      actions={
        <FilterSearch
          name="search"
          label="Search notes"
          placeholder="Text, agent or conversation"
        />
      }
    >
      <Loaded resource={memory}>
        {({ notes, total }) => {
          const rows = notes.filter((note) => matches(note, search.trim()));
          if (rows.length === 0)
            return (
              <Empty command="rouse memory">
                {total === 0
                  ? "No agent has noted anything: its tools have to name rouse.remember."
                  : "No note matches the search."}
              </Empty>
            );
          return (
            <>
              <Table
                label="List of notes"
                rows={rows}
                rowId={({ id }) => id}
                columns={[
                  { head: "Note", cell: ({ text }) => visibleText(text), grow: true },
                  { head: "Agent", cell: ({ agentId }) => agentId },
                  {
                    head: "Conversation",
                    cell: ({ session }) => <span class="mono">{visibleText(session.key)}</span>,
                  },
                  { head: "Words of", cell: ({ wordsOf }) => wordsOf, minor: true },
                  {
                    head: "Noted",
                    cell: ({ createdAt, changedAt }) => <Time iso={changedAt ?? createdAt} />,
                    minor: true,
                  },
                  {
                    head: "Run",
                    cell: ({ runId }) => <a href={href("runs", runId)}>run</a>,
                    minor: true,
                  },
                  {
                    head: "Actions",
                    cell: (note) => <Actions note={note} changed={memory.reload} />,
                  },
                ]}
              />
              {total > notes.length ? (
                <p class="quiet">
                  {plural(total - notes.length, "older note")}: <code>rouse memory</code> lists
                  them.
                </p>
              ) : null}
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}
