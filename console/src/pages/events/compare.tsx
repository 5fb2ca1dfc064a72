import { useMemo, useState } from "preact/hooks";
import { useResource } from "../../resource.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { compareEvents } from "./differences.ts";
import type { EventInFull, EventRow } from "./types.ts";

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

/** What the address has in place of the other event until one is chosen. */
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
