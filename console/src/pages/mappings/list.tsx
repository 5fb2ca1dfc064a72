import { useMemo } from "preact/hooks";
import type { EventView } from "../../../../src/admin/views.ts";
import type { AskError } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { filter, go, href, place } from "../../router.ts";
import { Button, Section, Status, Time } from "../../ui/basic.tsx";
import { Search, Select } from "../../ui/fields.tsx";
import { number } from "../../ui/format.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Empty, Failed, Loaded } from "../../ui/states.tsx";
import { Table, type Column } from "../../ui/table.tsx";
import type { DraftView, Mappings, PlacedMapping, Trial } from "./types.ts";

const OWNERS = ["", ["own", "Own"], ["preset", "Of presets"]] as const;

interface Hits {
  counts: ReadonlyMap<string, number>;
  /** Of how many events; undefined until they are there. */
  of: number | undefined;
  error: AskError | undefined;
  reload(): void;
}

/** How many of the last events each mapping took. */
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
    cell: ({ id, enabled }) => (
      <>
        <a href={href("mappings", id)}>{id}</a>{" "}
        {enabled ? null : <Status word="off" tone="quiet" />}
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

function Drafts({ drafts }: { drafts: readonly DraftView[] }) {
  const { data, error, reload } = useResource<{ trials: Trial[] }>("/trials", { live: true });
  if (drafts.length === 0) return null;
  return (
    <Section title="Drafts">
      {error ? <Failed error={error} retry={reload} /> : null}
      <Table
        label="Drafts"
        rows={drafts}
        rowId={({ name }) => name}
        columns={[
          {
            head: "Draft",
            cell: ({ name }) => <a href={href("mappings", `draft:${name}`)}>{name}</a>,
            grow: true,
          },
          { head: "Mappings", cell: ({ mappings }) => mappings.join(", ") },
          { head: "Replaces", cell: ({ replaces }) => replaces.join(", ") || "–", minor: true },
          {
            head: "State",
            cell: ({ problem }) =>
              problem === null ? <Status word="draft" /> : <span class="bad">{problem}</span>,
          },
          {
            head: "Trial",
            cell({ name }) {
              if (!data) return error ? "not known" : "";
              const trial = data.trials.find(
                ({ draft, ended }) => draft === name && ended === null,
              );
              return trial ? `took ${number(trial.matched)} of ${number(trial.events)}` : "–";
            },
          },
        ]}
      />
    </Section>
  );
}

interface Version {
  id: string;
  at: string;
  what: string;
  file: string;
  by: string | null;
  from: string | null;
}

/** The changes that can be taken back: who made them, and when. */
function Versions() {
  const changes = useResource<{ versions: Version[] }>("/changes");
  if (changes.data?.versions.length === 0) return null;
  return (
    <Section title="Last changes">
      <Loaded resource={changes} lines={2}>
        {({ versions }) => <VersionTable versions={versions} />}
      </Loaded>
      <p class="quiet mappings-note">
        <code>rouse config undo</code> takes the newest one back.
      </p>
    </Section>
  );
}

const VersionTable = ({ versions }: { versions: readonly Version[] }) => (
  <Table
    label="Last changes"
    rows={versions}
    rowId={({ id }) => id}
    columns={[
      { head: "When", cell: ({ at }) => <Time iso={at} /> },
      { head: "Change", cell: ({ what }) => what, grow: true, lead: true },
      { head: "By", cell: ({ by }) => by ?? "–" },
      {
        head: "From version",
        cell: ({ from }) => <span class="mono">{from?.slice(0, 10) ?? "–"}</span>,
        minor: true,
      },
      {
        head: "File",
        cell: ({ file }) => <span class="mono">{file.split("/").at(-1)}</span>,
        minor: true,
      },
    ]}
  />
);

/** The live mappings in the order in which they are tried, drafts, and the last changes. */
export function MappingList({ mappings, drafts }: Mappings) {
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
            <Search
              label="Search mappings"
              value={search}
              onSearch={(text) => filter({ search: text })}
            />
            <Select
              label="Origin"
              value={owner}
              options={OWNERS}
              onChange={(value) => filter({ owner: value })}
            />
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
        {mappings.length === 0 ? (
          <Empty command="rouse presets list">
            No mapping is live. Write one here, or enable a preset: this lists them.
          </Empty>
        ) : (
          <Table
            label="Mappings"
            rows={rows}
            columns={toColumns(hits, order)}
            rowId={({ id }) => id}
            onSelect={(id) => go(href("mappings", id))}
          />
        )}
        <Drafts drafts={drafts} />
        <Versions />
      </div>
    </>
  );
}
