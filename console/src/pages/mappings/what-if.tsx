import type { WhatIfExample, WhatIfGroup } from "../../../../src/operate/what-if/what-if.ts";
import { Id, Time } from "../../ui/basic.tsx";
import { Select } from "../../ui/fields.tsx";
import { number, plural, visibleText } from "../../ui/format.ts";
import { href } from "../../router.ts";
import type { Workbench } from "./use-workbench.ts";

const LASTS = ["200", "1000", "10000"].map(
  (count) => [count, `last ${number(Number(count))}`] as const,
);

/** The old and the new message of an event, word by word: removed words are struck out, added words underlined. */
function Words({ example: { eventId, diff = [] } }: { example: WhatIfExample }) {
  return (
    <figure class="mappings-words">
      <figcaption>
        Message of <Id id={eventId} to={href("events", eventId)} />
      </figcaption>
      <pre tabIndex={0} aria-label="Old and new text of the message">
        {diff.map(({ kind, text }, index) =>
          kind === "same" ? (
            visibleText(text)
          ) : kind === "added" ? (
            <ins key={index}>{visibleText(text)}</ins>
          ) : (
            <del key={index}>{visibleText(text)}</del>
          ),
        )}
      </pre>
    </figure>
  );
}

/** Events that change in the same way, with the newest of them. */
function Group({ group: { text, mapping, count, examples } }: { group: WhatIfGroup }) {
  const texts = examples.filter(({ diff }) => diff !== undefined);
  const others = examples.filter(({ diff }) => diff === undefined);
  return (
    <li>
      {text} {mapping} · {number(count)}{" "}
      {others.map(({ eventId }) => (
        <Id key={eventId} id={eventId} to={href("events", eventId)} />
      ))}
      {texts.map((example) => (
        <Words key={example.eventId} example={example} />
      ))}
    </li>
  );
}

/** Names the events that are compared. */
function Sample({ bench: { compared, last, path } }: { bench: Workbench }) {
  const { report, oldest, complete } = compared;
  const { events = 0, skipped = 0 } = report ?? {};
  const ofPath = path === undefined ? "" : ` of /${path}`;
  const lastOnes = `the last ${plural(last, "event")}${ofPath}`;
  return (
    <span class="quiet">
      of{" "}
      {complete
        ? events < last
          ? `${plural(events, "event")}${ofPath}`
          : lastOnes
        : `${number(events)} of ${lastOnes} so far`}
      {oldest === null ? null : (
        <>
          , the oldest <Time iso={oldest} />
        </>
      )}
      {skipped > 0 ? `, ${number(skipped)} left out` : ""}
    </span>
  );
}

/** The changes that the text would make, and their events. The pane and the dialog that saves the text both show it. */
export function Difference({ bench }: { bench: Workbench }) {
  const { report, complete, error } = bench.compared;
  const failure = error === null ? null : <p class="bad">{error}</p>;
  if (!report || report.events === 0)
    return (
      failure ?? (
        <p class="quiet">
          {complete
            ? "No event is kept to compare with."
            : report
              ? "Comparing …"
              : "Not compared yet."}
        </p>
      )
    );
  const { groups = [], wouldRun, wouldNotRun } = report;
  const texts = groups
    .filter(({ kind }) => kind === "text")
    .reduce((sum, { count }) => sum + count, 0);
  return (
    <>
      <p class="mappings-counters">
        <span class={wouldRun > 0 ? "good" : "quiet"}>+{number(wouldRun)} run</span>
        <span class={wouldNotRun > 0 ? "bad" : "quiet"}>−{number(wouldNotRun)} run</span>
        <span class={texts > 0 ? "" : "quiet"}>{number(texts)} text changed</span>
        <Sample bench={bench} />
      </p>
      {failure}
    </>
  );
}

/** The changes that the text would make to recent events. */
export function WhatIfPane({ bench }: { bench: Workbench }) {
  const { report, complete, stale, error } = bench.compared;
  const { groups = [] } = report ?? {};
  return (
    <section
      class={`mappings-pane mappings-what-if ${stale ? "stale" : ""}`}
      aria-label="What if"
      aria-busy={!complete && error === null}
    >
      <h2>
        What if{" "}
        <Select
          label="Events"
          value={String(bench.last)}
          options={LASTS}
          onChange={(value) => bench.setLast(Number(value))}
        />
      </h2>
      <Difference bench={bench} />
      {groups.length > 0 ? (
        <details>
          <summary>{plural(groups.length, "group")}</summary>
          <ul>
            {groups.map((group) => (
              <Group key={`${group.kind} ${group.mapping}`} group={group} />
            ))}
          </ul>
        </details>
      ) : null}
    </section>
  );
}
