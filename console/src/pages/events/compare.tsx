import { useMemo, useState } from "preact/hooks";
import { useResource } from "../../resource.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import type { EventInFull, EventRow } from "./types.ts";
import { isNested } from "../../exact-json.ts";
import { MAX_READ, readBody } from "./body.ts";

interface Difference {
  field: string;
  /** Undefined if this event does not have the field. */
  here: string | undefined;
  there: string | undefined;
}

/** So many fields of one event are compared. */
const MAX_FIELDS = 20_000;
const MAX_DEPTH = 60;

const render = (value: unknown): string =>
  typeof value === "string" ? JSON.stringify(value) : String(value);

function flatten(value: unknown, path: string, into: Map<string, string>, depth = 0): void {
  if (into.size >= MAX_FIELDS) return;
  if (!isNested(value) || depth > MAX_DEPTH) {
    into.set(path, depth > MAX_DEPTH ? "nested deeper than is compared" : render(value));
    return;
  }
  const members = Array.isArray(value)
    ? value.map((one, index) => [`${path}[${index}]`, one] as const)
    : Object.entries(value).map(([key, one]) => [`${path}.${key}`, one] as const);
  if (members.length === 0) into.set(path, Array.isArray(value) ? "[]" : "{}");
  for (const [name, one] of members) flatten(one, name, into, depth + 1);
}

function flattenBody(
  { body, encoding, contentType }: EventInFull["request"],
  into: Map<string, string>,
): void {
  if (body === null) return void into.set("body", "no longer kept");
  if (encoding === "base64" || body.length > 4 * MAX_READ)
    return void into.set("body", encoding === "base64" ? body : render(body));
  const read = readBody(body, contentType);
  if (read.kind === "json") return flatten(read.value, "body", into);
  if (read.kind === "text" || read.kind === "xml") {
    for (const [index, line] of read.text.split("\n").slice(0, MAX_FIELDS).entries())
      into.set(`body, line ${index + 1}`, line);
    return;
  }
  const pairs =
    read.kind === "form" ? read.fields : [...read.headers, ["text", read.text] as const];
  for (const [name, value] of pairs) into.set(`body.${name}`, render(value));
}

function fieldsOf(event: EventInFull): Map<string, string> {
  const into = new Map<string, string>();
  const { outcome, reason, mapping, path, credential, request } = event;
  for (const [name, value] of Object.entries({
    outcome,
    reason,
    mapping,
    path,
    credential,
    method: request.method,
    contentType: request.contentType,
  }))
    if (value !== null) into.set(name, value);
  for (const [name, value] of Object.entries(request.headers)) into.set(`header ${name}`, value);
  for (const [name, value] of Object.entries(request.query))
    into.set(`query ${name}`, [value].flat().join(", "));
  flattenBody(request, into);
  return into;
}

/** Compares two events field by field: those that differ, and how many are the same. */
function compareEvents(
  here: EventInFull,
  there: EventInFull,
): { differences: Difference[]; same: number } {
  const [left, right] = [fieldsOf(here), fieldsOf(there)];
  const names = [...left.keys(), ...[...right.keys()].filter((name) => !left.has(name))];
  const differences = names
    .map((field) => ({ field, here: left.get(field), there: right.get(field) }))
    .filter((one) => one.here !== one.there);
  return { differences, same: names.length - differences.length };
}

/** So many differences are drawn before a button asks for more. */
const STEP = 200;

function Side({ value }: { value: string | undefined }) {
  if (value === undefined) return <span class="quiet">not there</span>;
  return <code>{visibleText(value.slice(0, 500))}</code>;
}

function Differences({ here, there }: { here: EventInFull; there: EventInFull }) {
  const { differences, same } = useMemo(() => compareEvents(here, there), [here, there]);
  const [shown, setShown] = useState(STEP);
  return (
    <>
      <p>
        {differences.length === 0
          ? "No field differs"
          : `${plural(differences.length, "field")} ${differences.length === 1 ? "differs" : "differ"}`}
        ; {plural(same, "field")} {same === 1 ? "is" : "are"} the same.
      </p>
      {differences.length === 0 ? null : (
        <div class="events-compare" role="region" aria-label="Differences" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">{here.id.slice(-8)}, this event</th>
                <th scope="col">{there.id.slice(-8)}</th>
              </tr>
            </thead>
            <tbody>
              {differences.slice(0, shown).map((one) => (
                <tr key={one.field}>
                  <th scope="row">{visibleText(one.field)}</th>
                  <td>
                    <Side value={one.here} />
                  </td>
                  <td>
                    <Side value={one.there} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {differences.length > shown ? (
        <Button onClick={() => setShown(shown + 5 * STEP)}>
          Show more of {differences.length}
        </Button>
      ) : null}
    </>
  );
}

/** The newest events of the same path, and a field for the id of any other. */
function Choose({ event, onChoose }: { event: EventInFull; onChoose(id: string): void }) {
  const [id, setId] = useState("");
  const recent = useResource<{ events: EventRow[] }>(
    `/events?path=${encodeURIComponent(event.path)}&limit=20`,
  );
  return (
    <>
      <form
        class="events-choose"
        onSubmit={(submitted) => {
          submitted.preventDefault();
          if (id.trim() !== "") onChoose(id.trim());
        }}
      >
        <TextField label="Id of the other event" value={id} onInput={setId} autoFocus />
        <Button submit kind="primary" disabled={id.trim() === ""}>
          Compare
        </Button>
      </form>
      <h3>Or one of the newest of this path</h3>
      <Loaded resource={recent} lines={4}>
        {({ events }) => {
          const others = events.filter((one) => one.id !== event.id);
          if (others.length === 0) return <Empty>There is no other event of this path.</Empty>;
          return (
            <ul class="events-others">
              {others.map((one) => (
                <li key={one.id}>
                  <button type="button" class="button plain" onClick={() => onChoose(one.id)}>
                    <Time iso={one.receivedAt} /> <Status word={one.outcome} />
                    <span>{visibleText(one.mapping ?? one.text)}</span>
                    <span class="mono quiet">{one.id.slice(-8)}</span>
                  </button>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </>
  );
}

/** The value in the address until the other event is chosen. */
export const CHOOSE = "choose";

/** Compares the event with another one, field by field. */
export function Compare(props: {
  event: EventInFull;
  other: string;
  onChoose(id: string): void;
  onClose(): void;
}) {
  const { event, other } = props;
  const found = useResource<{ event: EventInFull }>(
    other === CHOOSE ? null : `/events/${encodeURIComponent(other)}`,
  );
  return (
    <Dialog title="Compare" onClose={props.onClose} wide>
      <div class="body">
        {other === CHOOSE ? (
          <Choose event={event} onChoose={props.onChoose} />
        ) : (
          <>
            <Loaded resource={found}>
              {({ event: there }) => <Differences here={event} there={there} />}
            </Loaded>
            <div class="actions">
              <Button onClick={() => props.onChoose(CHOOSE)}>Compare with another event</Button>
            </div>
          </>
        )}
      </div>
    </Dialog>
  );
}
