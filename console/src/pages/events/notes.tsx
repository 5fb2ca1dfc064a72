import { Section } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import type { EventInFull } from "./types.ts";

type Debug = NonNullable<EventInFull["debug"]>;

function renderNote({ error, console: printed = [], cut }: Debug["notes"][number]): string {
  return [
    ...(error ? [error.message, ...(error.frames ?? []).map((frame) => `  at ${frame}`)] : []),
    ...(error?.excerpt ? [`line ${error.line}, column ${error.column}:`, error.excerpt] : []),
    ...printed.map(
      ({ stream, text }) => `${stream === "stderr" ? "console (stderr)" : "console"}: ${text}`,
    ),
    ...(cut ? ["further lines are not kept"] : []),
  ].join("\n");
}

/** What the code of mappings printed and threw. */
export function CodeNotes({ debug }: { debug: EventInFull["debug"] }) {
  if (!debug) return null;
  return (
    <Section title="What the mapping's code printed and threw">
      {debug.notes.map((note, index) => (
        <div key={index}>
          <h3>
            {note.field} of {visibleText(note.mapping)}
            {note.item === undefined ? "" : `, item ${note.item}`}
          </h3>
          <pre class="code">{visibleText(renderNote(note))}</pre>
        </div>
      ))}
      {debug.cut ? <p class="quiet">Further notes are not kept.</p> : null}
    </Section>
  );
}
