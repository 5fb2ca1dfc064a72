import { useMemo } from "preact/hooks";
import type { EventView } from "../../../../src/operate/records/views.ts";
import type { AskError } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { FilterSearch, FilterSelect } from "../../filters.tsx";
import { go, href, place } from "../../router.ts";
import { Button, Status } from "../../ui/basic.tsx";
import { number } from "../../ui/format.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Empty, Failed } from "../../ui/states.tsx";
import { Table, type Column } from "../../ui/table.tsx";
import type { Mappings, PlacedMapping } from "./types.ts";

const OWNERS = ["", ["own", "Own"], ["preset", "Of presets"]] as const;

interface Hits {
  counts: ReadonlyMap<string, number>;
  /** Of how many events; undefined until they are there. */
  of: number | undefined;
  error: AskError | undefined;
  reload(): void;
}

/** Counts the last events that each mapping took. */
function useHits(): Hits {
  const { data, error, reload } = useResource<{ events: EventView[] }>("/events?limit=500");
  const events = data?.events;
  const counted = useMemo(() => {
    const counts = new Map<string, number>();
    for (const { mapping } of events ?? [])
      if (mapping !== null) counts.set(mapping, (counts.get(mapping) ?? 0) + 1);
    return { counts, of: events?.length };
  }, [events]);
  return { ...counted, error, reload };
}

const toColumns = (hits: Hits, order: ReadonlyMap<string, number>): Column<PlacedMapping>[] => [
  { head: "#", cell: ({ id }) => order.get(id), numeric: true, minor: true },
  {
    head: "Mapping",
    cell: ({ id, enabled, shadow }) => (
      <>
        <a href={href("mappings", id)}>{id}</a>{" "}
        {enabled ? null : <Status word="off" tone="quiet" />}
        {enabled && shadow ? <Status word="in shadow" tone="quiet" /> : null}
      </>
    ),
    grow: true,
  },
  {
    head: "Paths",
    cell: ({ paths }) => (paths.length === 0 ? "any" : paths.map((path) => `/${path}`).join(", ")),
  },
  { head: "Action", cell: ({ action }) => action, minor: true },
  {
    head: "Written in",
    cell: ({ own, origin, place: at }) => (
      <span class="mono" title={at}>
        {own ? at : origin}
      </span>
    ),
    minor: true,
  },
  {
    head: hits.of === undefined ? "Hits" : `Took of the last ${number(hits.of)}`,
    cell: ({ id }) =>
      hits.of === undefined ? (hits.error ? "not known" : "") : number(hits.counts.get(id) ?? 0),
    numeric: true,
  },
];

/** The mappings in the order in which they are tried. */
export function MappingList({ mappings }: Mappings) {
  const { search = "", owner = "" } = place.value.query;
  const hits = useHits();
  const order = new Map(mappings.map(({ id }, index) => [id, index + 1]));
  const words = search.toLowerCase();
  const rows = mappings.filter(
    ({ id, paths, own, place: at }) =>
      (owner === "" || (owner === "own") === own) &&
      [id, at, ...paths].some((text) => text.toLowerCase().includes(words)),
  );
  return (
    <>
      <PageHead
        title="Mappings"
        filters={
          <>
            <FilterSearch name="search" label="Search mappings" />
            <FilterSelect name="owner" label="Origin" options={OWNERS} />
          </>
        }
        actions={
          <Button kind="primary" onClick={() => go(href("mappings", "new"))}>
            New mapping
          </Button>
        }
      />
      <div class="page-body mappings-list">
        {hits.error ? <Failed error={hits.error} retry={hits.reload} /> : null}
        <Table
          label="Mappings"
          rows={rows}
          columns={toColumns(hits, order)}
          rowId={({ id }) => id}
          onSelect={(id) => go(href("mappings", id))}
          empty={
            mappings.length > 0 ? (
              <Empty>No mapping matches the filters.</Empty>
            ) : (
              <Empty command="rouse presets">
                No mapping is live. Write one here, or enable a preset: this lists them.
              </Empty>
            )
          }
        />
      </div>
    </>
  );
}
