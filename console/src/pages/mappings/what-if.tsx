import type { WhatIfExample, WhatIfGroup } from "../../../../src/workbench/what-if-groups.ts";
import { Id } from "../../ui/basic.tsx";
import { Select } from "../../ui/fields.tsx";
import { number, plural, visibleText } from "../../ui/format.ts";
import { href } from "../../router.ts";
import type { Compared } from "./live.ts";

const KINDS: Record<string, string> = {
  starts: "starts a run",
  stops: "no longer runs",
  text: "text changed",
  rejected: "would be rejected",
};
const LASTS = ["200", "1000", "10000"].map(
  (count) => [count, `last ${number(Number(count))}`] as const,
);

/** What an event's message would be instead, word by word: what goes is struck out, what comes is underlined. */
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
function Group({ group: { kind, mapping, count, examples } }: { group: WhatIfGroup }) {
  const texts = examples.filter(({ diff }) => diff !== undefined);
  const others = examples.filter(({ diff }) => diff === undefined);
  return (
    <li>
      {KINDS[kind] ?? kind} {mapping} · {number(count)}{" "}
      {others.map(({ eventId }) => (
        <Id key={eventId} id={eventId} to={href("events", eventId)} />
      ))}
      {texts.map((example) => (
        <Words key={example.eventId} example={example} />
      ))}
    </li>
  );
}

function Counters({ compared: { report, complete } }: { compared: Compared }) {
  const { groups = [], perDay, skipped } = report;
  const texts = groups
    .filter(({ kind }) => kind === "text")
    .reduce((sum, { count }) => sum + count, 0);
  return (
    <p class="counters">
      <span class={report.wouldRun > 0 ? "good" : "quiet"}>+{number(report.wouldRun)} run</span>
      <span class={report.wouldNotRun > 0 ? "bad" : "quiet"}>
        −{number(report.wouldNotRun)} run
      </span>
      <span class={texts > 0 ? "" : "quiet"}>{number(texts)} text changed</span>
      <span class="quiet">
        of {plural(report.events, "event")}
        {skipped > 0 ? `, ${number(skipped)} left out` : ""}
        {complete ? "" : " …"}
      </span>
      {perDay ? (
        <span>{`${perDay.runs >= 0 ? "+" : "−"}${Math.abs(perDay.runs).toFixed(1)} runs a day`}</span>
      ) : null}
    </p>
  );
}

/** What the text would change of the events that came in lately. */
export function WhatIfPane(props: {
  compared: Compared;
  last: number;
  onLast(last: number): void;
}) {
  const { report, complete, stale, error } = props.compared;
  const groups = report.groups ?? [];
  return (
    <section
      class={`mappings-pane mappings-what-if ${stale ? "stale" : ""}`}
      aria-label="What if"
      aria-busy={!complete}
    >
      <h2>
        What if{" "}
        <Select
          label="Events"
          value={String(props.last)}
          options={LASTS}
          onChange={(value) => props.onLast(Number(value))}
        />
      </h2>
      <Counters compared={props.compared} />
      {error ? <p class="bad">{error}</p> : null}
      {report.warnings?.map((warning) => (
        <p key={warning} class="warn">
          {warning}
        </p>
      ))}
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
