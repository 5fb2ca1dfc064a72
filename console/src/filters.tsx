import { filter, place } from "./router.ts";
import { Button } from "./ui/basic.tsx";
import { Search, Select, type SelectOptions } from "./ui/fields.tsx";
import { exactTime } from "./ui/format.ts";

/** A choice that is a filter of the address. `fallback` is chosen if the address does not say, and is not written into it. */
export function FilterSelect(props: {
  name: string;
  label: string;
  options: SelectOptions;
  fallback?: string;
}) {
  const { name, label, options, fallback = "" } = props;
  return (
    <Select
      label={label}
      value={place.value.query[name] ?? fallback}
      options={options}
      onChange={(value) => filter({ [name]: value === fallback ? "" : value })}
    />
  );
}

/** A search that is a filter of the address. */
export function FilterSearch(props: { name: string; label: string; placeholder?: string }) {
  const { name, ...shown } = props;
  return (
    <Search
      {...shown}
      value={place.value.query[name] ?? ""}
      onSearch={(text) => filter({ [name]: text })}
    />
  );
}

/** A filter of the address that is on or off. */
export const FilterCheck = ({ name, label }: { name: string; label: string }) => (
  <label class="check">
    <input
      type="checkbox"
      checked={place.value.query[name] === "1"}
      onChange={({ currentTarget }) => filter({ [name]: currentTarget.checked ? "1" : "" })}
    />
    {label}
  </label>
);

const AGES = [
  ["", "Any time"],
  ["1h", "Last hour"],
  ["1d", "Last day"],
  ["7d", "Last 7 days"],
] as const;

const toText = (time: string): string => (Number.isNaN(Date.parse(time)) ? time : exactTime(time));

/** The filter by time. A chart also links to the times of one of its bars: they are shown, with the way out of the later one. */
export function TimeSpan({ label }: { label: string }) {
  const { since = "", until = "" } = place.value.query;
  const options = AGES.some(([value]) => value === since)
    ? AGES
    : [...AGES, [since, toText(since)] as const];
  return (
    <>
      <FilterSelect name="since" label={label} options={options} />
      {until === "" ? null : (
        <Button title="Show what came later too" onClick={() => filter({ until: "" })}>
          until {toText(until)} ×
        </Button>
      )}
    </>
  );
}
