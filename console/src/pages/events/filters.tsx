import { useState } from "preact/hooks";
import { useResource } from "../../resource.ts";
import { filter, place } from "../../router.ts";

/** The outcomes of events, as in src/vocabulary/outcomes.ts. */
export const OUTCOMES = [
  "accepted",
  "skipped",
  "unmatched",
  "duplicate",
  "rejected",
  "failed",
] as const;

/** A filter that is written: what is known is offered. */
function Written({
  name,
  label,
  known,
}: {
  name: string;
  label: string;
  known: readonly string[];
}) {
  const value = place.value.query[name] ?? "";
  const [text, setText] = useState(value);
  const [shown, setShown] = useState(value);
  if (value !== shown) {
    setShown(value);
    setText(value);
  }
  const apply = (): void => filter({ [name]: text.trim() });
  return (
    <label class="field">
      <span class="unseen">{label}</span>
      <input
        class="input events-written"
        list={`events-known-${name}`}
        placeholder={`Any ${label.toLowerCase()}`}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onChange={apply}
        onKeyDown={({ key, currentTarget }) => {
          if (key === "Enter") apply();
          // The keys of the list work again.
          if (key === "Enter" || key === "Escape") currentTarget.blur();
        }}
      />
      <datalist id={`events-known-${name}`}>
        {known.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </label>
  );
}

/** The filters by path and mapping, which offer those of the config. */
export function PathAndMapping() {
  const { data } = useResource<{ mappings: { id: string; paths: string[] }[] }>("/mappings");
  const mappings = data?.mappings ?? [];
  return (
    <>
      <Written
        name="path"
        label="Path"
        known={[
          ...new Set(["wake", "agent", ...mappings.flatMap(({ paths }) => paths)]),
        ].toSorted()}
      />
      <Written name="mapping" label="Mapping" known={mappings.map(({ id }) => id)} />
    </>
  );
}
