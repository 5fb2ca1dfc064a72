import { parseExact } from "../../exact-json.ts";
import { useRef, useState } from "preact/hooks";
import type { PlacedTrace } from "../../../../src/operate/records/test-hook.ts";
import { Status } from "../../ui/basic.tsx";
import { Search, Tabs } from "../../ui/fields.tsx";
import { toneOf } from "../../ui/tone.ts";
import { clockTime, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import type { Resource } from "../../resource.ts";
import { href } from "../../router.ts";
import { ActionPart } from "../events/why.tsx";
import type { Evaluated } from "./live.ts";
import type { EventDetail, EventView, TextEvaluation } from "./types.ts";

interface EventsProps {
  listed: Resource<{ events: EventView[] }>;
  path: string | undefined;
  selected: string;
  onSelect(id: string): void;
}

/** Events to choose from with the mouse or the arrow keys. */
function Choices({
  events,
  selected,
  onSelect,
}: Omit<EventsProps, "listed" | "path"> & { events: readonly EventView[] }) {
  const list = useRef<HTMLDivElement>(null);
  const at = Math.max(
    0,
    events.findIndex(({ id }) => id === selected),
  );
  const move = (step: number): void => {
    const next = events[at + step];
    if (!next) return;
    onSelect(next.id);
    list.current?.querySelectorAll<HTMLElement>("[role=option]")[at + step]?.focus();
  };
  return (
    <div
      ref={list}
      class="choices"
      role="listbox"
      aria-label="Event to evaluate"
      onKeyDown={(event) => {
        if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
        event.preventDefault();
        move(event.key === "ArrowDown" ? 1 : -1);
      }}
    >
      {events.map(({ id, receivedAt, outcome, mapping }, index) => (
        <button
          key={id}
          type="button"
          role="option"
          aria-selected={id === selected}
          tabIndex={index === at ? 0 : -1}
          onClick={() => onSelect(id)}
          title={`${outcome} ${id}`}
        >
          <span class="quiet">{clockTime(receivedAt)}</span>
          <Status word={mapping ?? outcome} tone={toneOf(outcome)} />
        </button>
      ))}
    </div>
  );
}

/** The newest events of the hook; one of them is what the text is evaluated against. */
export function EventsPane({ listed, path, selected, onSelect }: EventsProps) {
  return (
    <section class="mappings-pane mappings-events" aria-label="Events">
      <h2>{path === undefined ? "Events" : `/${path}`}</h2>
      <Loaded resource={listed}>
        {({ events }) =>
          events.length === 0 ? (
            <Empty
              {...(path === undefined
                ? {}
                : { command: `echo '{}' | rouse hooks test --path ${path} --payload -` })}
            >
              No event of this path is kept. The next one appears here; until then, try the mapping
              without one.
            </Empty>
          ) : (
            <Choices events={events} selected={selected} onSelect={onSelect} />
          )
        }
      </Loaded>
    </section>
  );
}

/** The body as a value, if it is JSON. */
function readBody({ request }: EventDetail): { isJson: boolean; value: unknown } {
  if (request.body === null || request.encoding !== "utf8") return { isJson: false, value: null };
  try {
    return { isJson: true, value: parseExact(request.body) };
  } catch {
    return { isJson: false, value: null };
  }
}

const TABS = [
  { name: "body", title: "Body" },
  { name: "headers", title: "Headers" },
  { name: "raw", title: "Raw" },
];
const MOST_RAW = 200_000;

/** The request of the event. A click on a field of the body puts its path into the editor. */
export function BodyPane(props: {
  shown: Resource<{ event: EventDetail }>;
  onPath(path: string, value: unknown): void;
}) {
  return (
    <section class="mappings-pane mappings-body" aria-label="Request">
      <Loaded resource={props.shown}>
        {({ event }) => <RequestOf event={event} onPath={props.onPath} />}
      </Loaded>
    </section>
  );
}

function RequestOf({
  event,
  onPath,
}: {
  event: EventDetail;
  onPath(path: string, value: unknown): void;
}) {
  const [tab, setTab] = useState("body");
  const [search, setSearch] = useState("");
  const { isJson, value } = readBody(event);
  const { body, headers, query, method } = event.request;
  return (
    <>
      <header>
        <Tabs label="Parts of the request" tabs={TABS} value={tab} onChange={setTab} />
        {tab === "raw" ? null : (
          <Search label="Search the request" value={search} onSearch={setSearch} />
        )}
      </header>
      {tab === "headers" ? (
        <JsonTree value={{ method, query, headers }} open={3} search={search} />
      ) : null}
      {tab === "body" && isJson ? (
        <JsonTree value={value} open={3} search={search} onPath={onPath} />
      ) : null}
      {tab === "raw" || (tab === "body" && !isJson) ? (
        <pre class="code">
          {body === null
            ? "The body is no longer kept (hooks.retention)."
            : visibleText(body.slice(0, MOST_RAW))}
          {(body?.length ?? 0) > MOST_RAW
            ? "\n… cut here: `rouse explain --request` has all of it"
            : ""}
        </pre>
      ) : null}
    </>
  );
}

const SIGNS = new Map<unknown, string>([
  [true, "✓"],
  [false, "✗"],
  ["unknown", "?"],
]);

function Trace({ trace, index, own }: { trace: PlacedTrace; index: number; own: boolean }) {
  return (
    <li class={own ? "own" : ""}>
      <span class="quiet">{index + 1}</span>{" "}
      <a href={href("mappings", trace.mapping)} title={trace.place}>
        {trace.mapping}
      </a>{" "}
      {trace.conditions.map(({ condition, result, reason }) => (
        <span
          key={condition}
          class={result === true ? "good" : result === false ? "bad" : "warn"}
          title={reason}
        >
          {SIGNS.get(result)} {condition.replace(/^match\.(?:payload\.)?/, "")}{" "}
        </span>
      ))}
      <b>{visibleText(trace.text)}</b>
    </li>
  );
}

/** The decision of each mapping of the path, in the order in which they are tried. */
export function WhyPane(props: { shown: TextEvaluation | null; own: string; hasEvent: boolean }) {
  const { shown, own, hasEvent } = props;
  const traces = shown?.result?.traces ?? [];
  return (
    <section class="mappings-pane mappings-why" aria-label="Why">
      <h2>Why</h2>
      {traces.length === 0 ? (
        <p class="quiet">
          {shown?.note ??
            (shown?.result
              ? "No mapping is for this path."
              : hasEvent
                ? "Not evaluated yet."
                : "Choose an event to see how each mapping decides about it.")}
        </p>
      ) : null}
      <ol>
        {traces.map((trace, index) => (
          <Trace key={trace.at} trace={trace} index={index} own={trace.mapping === own} />
        ))}
      </ol>
    </section>
  );
}

/** The result for the event. While the text has problems, the last answer stays, greyed. */
export function ResultPane({ evaluated, isStale }: { evaluated: Evaluated; isStale: boolean }) {
  const result = evaluated.good?.result;
  return (
    <section
      class={`mappings-pane mappings-result ${isStale ? "stale" : ""}`}
      aria-label="Result"
      aria-busy={evaluated.busy}
    >
      <h2>
        Result{" "}
        {result ? (
          <Status word={result.outcome === "actions" ? "accepted" : result.outcome} />
        ) : null}
        {result?.mapping ? <span class="quiet"> by {result.mapping}</span> : null}
        {isStale ? <span class="quiet"> of the last text without problems</span> : null}
      </h2>
      {evaluated.error ? <p class="bad">{evaluated.error}</p> : null}
      {result?.failure ? <p class="bad">{result.failure.message}</p> : null}
      {result?.reason ? <p>{result.reason}</p> : null}
      {result?.outcome === "unmatched" ? (
        <p>
          No mapping takes this event
          {result.nearest
            ? `: the closest is ${result.nearest.mapping}, whose ${result.nearest.condition} does not hold`
            : ""}
          .
        </p>
      ) : null}
      {result?.actions.map((action, index) => (
        <ActionPart key={index} action={action} />
      ))}
      {result?.would.map((action, index) => (
        <section key={index} aria-label="In shadow">
          <p class="quiet">In shadow: nothing is done.</p>
          <ActionPart action={action} />
        </section>
      ))}
      {result && result.actions.length + result.would.length > 0 ? (
        <p class="quiet">
          <mark>marked</mark> = from the sender
        </p>
      ) : null}
    </section>
  );
}
