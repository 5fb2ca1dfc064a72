import { filter, place } from "./router.ts";
import { Button } from "./ui/basic.tsx";
import { Select } from "./ui/fields.tsx";
import { exactTime } from "./ui/format.ts";

const toText = (time: string): string => (Number.isNaN(Date.parse(time)) ? time : exactTime(time));

/** The filter by time. A chart also links to the times of one of its bars: they are shown, with the way out of the later one. */
export function TimeSpan({
  label,
  ages,
}: {
  label: string;
  ages: readonly (readonly [value: string, label: string])[];
}) {
  const { since = "", until = "" } = place.value.query;
  const options = ages.some(([value]) => value === since)
    ? ages
    : [...ages, [since, toText(since)] as const];
  return (
    <>
      <Select
        label={label}
        value={since}
        options={options}
        onChange={(value) => filter({ since: value })}
      />
      {until === "" ? null : (
        <Button title="Show what came later too" onClick={() => filter({ until: "" })}>
          until {toText(until)} ×
        </Button>
      )}
    </>
  );
}
