import type { ComponentChildren } from "preact";
import type { Paged } from "./paged.ts";
import { go, href, place } from "./router.ts";
import { Button, Time } from "./ui/basic.tsx";
import { number, plural } from "./ui/format.ts";
import { useKeys } from "./ui/keys.ts";
import { PageHead } from "./ui/page-head.tsx";
import { Split } from "./ui/split.tsx";
import { Loaded } from "./ui/states.tsx";
import { Table, type Column } from "./ui/table.tsx";

export interface ListPageProps {
  /** The name of the page in the address. */
  page: string;
  title: string;
  filters?: ComponentChildren;
  actions?: ComponentChildren;
  /** Stands above the list and the detail. */
  notices?: ComponentChildren;
  list: ComponentChildren;
  /** Shows the row that the address names. */
  detail(id: string): ComponentChildren;
}

export interface ListingProps<Row> extends Omit<ListPageProps, "list"> {
  paged: Paged<Row>;
  columns: readonly Column<Row>[];
  /** Stands in place of an empty list. */
  empty: ComponentChildren;
  /** When a row was made: says how far a search has looked. */
  at?(row: Row): string | null;
  /** The row whose detail is shown, if the address names a part of it. */
  selected?: string;
}

/** Goes to a row of a page, or to its list alone, with the filters as they are. From row to row is one entry of the history. */
export function select(page: string, id: string): void {
  go(href(page, id, place.value.query), { replace: id !== "" && place.value.id !== "" });
}

/** The number of rows so far, and the way to older ones. */
function Foot<Row>({ paged, oldest }: { paged: Paged<Row>; oldest: string | null | undefined }) {
  const { rows, all, next, searchedTo, busy, more } = paged;
  const looked = paged.looked || all.length;
  const to = searchedTo ?? oldest;
  const isChosen = looked > rows.length;
  return (
    <p class="listing-foot quiet" role="status">
      {plural(rows.length, "row")}
      {isChosen ? ` of ${number(looked)} looked at` : ""}
      {next === null ? (
        ", no older ones."
      ) : to ? (
        <>
          {isChosen ? ", back to " : ", looked back to "}
          <Time iso={to} />.
        </>
      ) : (
        "."
      )}{" "}
      {next === null ? null : (
        <Button kind="plain" busy={busy} onClick={more}>
          {searchedTo ? "Look further" : "Older"}
        </Button>
      )}
    </p>
  );
}

/** A page that lists: its head with filters, the list, and beside it the detail of the row that the address names. */
export function ListPage({ page, notices, list, detail, ...head }: ListPageProps) {
  const { id } = place.value;
  const close = (): void => select(page, "");
  useKeys(id === "" ? {} : { Escape: close });
  return (
    <>
      <PageHead {...head} />
      {notices}
      <Split name={page} onClose={close} detail={id === "" ? null : detail(id)} list={list} />
    </>
  );
}

/** A page that lists what the admin API gives page by page. */
export function Listing<Row>(props: ListingProps<Row>) {
  const { page, paged } = props;
  const { all, next, searchedTo, more } = paged;
  const last = all.at(-1);
  const list = (
    <Loaded resource={paged.resource}>
      {(rows) => (
        <>
          <Table
            label={props.title}
            rows={rows}
            columns={props.columns}
            rowId={paged.rowId}
            selected={props.selected ?? place.value.id}
            onSelect={(chosen) => select(page, chosen)}
            onEnd={() => searchedTo === null && more()}
            empty={next === null ? props.empty : undefined}
          />
          {all.length > 0 || paged.looked > 0 || next !== null ? (
            <Foot paged={paged} oldest={last && props.at?.(last)} />
          ) : null}
        </>
      )}
    </Loaded>
  );
  return <ListPage {...props} list={list} />;
}
