import { useEffect, useState } from "preact/hooks";
import { useResource } from "../../resource.ts";
import { href, place } from "../../router.ts";
import { Facts, Id, OutsideText, Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { Actions } from "./actions.tsx";
import { Request } from "./request.tsx";
import { Result, Traces } from "./why.tsx";
import type { EventInFull, ExplanationView } from "./types.ts";

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

/** The output and the errors of the mappings' code. */
function CodeNotes({ debug }: { debug: EventInFull["debug"] }) {
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

/** An answer with a long body is not asked for again every few seconds. */
const MAX_LIVE_BYTES = 64 * 1024;
const ENDED = /^(?:succeeded|failed|timed_out|cancelled|forgotten)$/;

/** True if the state of the event's runs may still change. */
const isOpen = ({ event }: ExplanationView): boolean =>
  (event.bodyBytes ?? 0) <= MAX_LIVE_BYTES &&
  event.actions.some(({ status }) => status !== undefined && !ENDED.test(status));

function eventFacts({ event, config }: ExplanationView) {
  const link = (id: string | null) =>
    id && <Id id={id} to={href("events", id, place.value.query)} />;
  return [
    ["Received", <Time iso={event.receivedAt} />],
    ["Reason", event.reason && <Prose text={event.reason} />, true],
    ["Path", <a href={href("events", "", { path: event.path })}>{visibleText(event.path)}</a>],
    [
      "Mapping",
      event.mapping && (
        <a href={href("mappings", event.mapping, { event: event.id })}>
          {visibleText(event.mapping)}
        </a>
      ),
    ],
    ["Answered", event.answerStatus],
    ["Warnings", visibleText(event.warnings.join("; "))],
    ["Missing fields", visibleText(event.missing.join(", "))],
    [
      "Came in by",
      visibleText(`${event.credential}${event.address === null ? "" : ` from ${event.address}`}`),
    ],
    ["Duplicate of", link(event.duplicateOf)],
    ["Replay of", link(event.replayOf)],
    ["Body", event.edited && "edited by an operator before the replay"],
    ["Handled", event.handled && <Handled handled={event.handled} />],
    ["Decided by", config && `${config.text}${config.isToday ? ", in use today" : ""}`],
    ["Note", config?.note && visibleText(config.note)],
    ["Trace", event.traceId && <span class="mono">{event.traceId}</span>],
  ] as const;
}

function Handled({
  handled,
}: {
  handled: NonNullable<EventInFull["handled"]> & { reason?: string; eventId?: string };
}) {
  return (
    <>
      {handled.as} <Time iso={handled.at} />
      {handled.reason ? `: ${visibleText(handled.reason)}` : ""}
      {handled.eventId ? (
        <Id id={handled.eventId} to={href("events", handled.eventId, place.value.query)} />
      ) : null}
    </>
  );
}

/** The runs and wakes of the event, each with its state. */
function Became({ explanation: { event, runs } }: { explanation: ExplanationView }) {
  if (event.actions.length === 0) return null;
  return (
    <Section title="Runs">
      <ul class="events-runs">
        {event.actions.map((action) => {
          const run = runs.find((one) => one.run.id === action.id);
          const kept = action.kind === "run" && action.status !== "forgotten";
          return (
            <li key={action.id}>
              {action.status === "forgotten" ? (
                <span class="quiet">no longer kept</span>
              ) : (
                <Status word={action.status ?? action.kind} />
              )}
              <span>{visibleText(action.name ?? action.mapping ?? action.kind)}</span>
              {kept ? <Id id={action.id} to={href("runs", action.id)} /> : <Id id={action.id} />}
              {run?.delivery ? (
                <a href={href("deliveries", run.delivery.id)}>
                  reply <Status word={run.delivery.status} />
                </a>
              ) : null}
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

/** The actions that mappings in shadow would have made. */
function Shadow({ would }: { would: EventInFull["would"] }) {
  if (would.length === 0) return null;
  return (
    <Section title="What a mapping in shadow would have done">
      {would.map(({ mapping, kind, fields, content }, index) => (
        <div key={index} class="events-action">
          <Facts
            pairs={[
              ["mapping", visibleText(mapping ?? kind)],
              ...Object.entries(fields).map(
                ([name, value]) => [name, visibleText(String(value))] as const,
              ),
            ]}
          />
          <OutsideText parts={content} />
        </div>
      ))}
    </Section>
  );
}

function Why({ explanation: { event, evaluation, note } }: { explanation: ExplanationView }) {
  return (
    <>
      <Section title="Why">
        {note === null ? null : <p class={evaluation ? "warn" : "quiet"}>{visibleText(note)}</p>}
        {evaluation ? (
          evaluation.traces.length === 0 ? (
            <p class="quiet">No mapping is for this path.</p>
          ) : (
            <Traces traces={evaluation.traces} event={event.id} />
          )
        ) : null}
      </Section>
      {evaluation ? (
        <Section title="Result">
          <Result evaluation={evaluation} />
        </Section>
      ) : null}
    </>
  );
}

/** One event: why it had its outcome, what was rendered, what it became, and its request. */
export function Detail({ id, onChange }: { id: string; onChange(): void }) {
  const [live, setLive] = useState(false);
  const resource = useResource<{ explanation: ExplanationView }>(
    `/events/${encodeURIComponent(id)}/explain`,
    { live },
  );
  const explanation = resource.data?.explanation;
  useEffect(() => setLive(explanation !== undefined && isOpen(explanation)), [explanation]);
  const changed = (): void => {
    resource.reload();
    onChange();
  };
  return (
    <Loaded resource={resource} lines={10}>
      {({ explanation }) => {
        const { event } = explanation;
        return (
          <>
            <header class="events-head">
              <h2>
                <Status word={event.outcome} /> {visibleText(event.mapping ?? event.path)}
              </h2>
              <Id id={event.id} />
            </header>
            <Actions explanation={explanation} onChange={changed} />
            <Facts pairs={eventFacts(explanation)} />
            <Why explanation={explanation} />
            <Became explanation={explanation} />
            <Shadow would={event.would} />
            <CodeNotes debug={event.debug} />
            <Request event={event} />
          </>
        );
      }}
    </Loaded>
  );
}
