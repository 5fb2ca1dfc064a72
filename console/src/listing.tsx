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

export interface ListingProps<Row> {
  /** The name of the page in the address. */
  page: string;
  title: string;
  filters?: ComponentChildren;
  actions?: ComponentChildren;
  paged: Paged<Row>;
  columns: readonly Column<Row>[];
  rowId(row: Row): string;
  /** What stands in place of an empty list. */
  empty: ComponentChildren;
  /** When a row was made: says how far a search has looked. */
  at?(row: Row): string | null;
  detail(id: string): ComponentChildren;
}

/** Goes to a row of a page, or to its list alone, with the filters as they are. From row to row is one entry of the history. */
export function select(page: string, id: string): void {
  go(href(page, id, place.value.query), { replace: id !== "" && place.value.id !== "" });
}

/** How many rows there are so far, and the way to older ones. */
function Foot<Row>({ paged, oldest }: { paged: Paged<Row>; oldest: string | null | undefined }) {
  const { rows, next, searchedTo, looked, busy, more } = paged;
  const to = searchedTo ?? oldest;
  const isChosen = looked.length > rows.length;
  return (
    <p class="listing-foot quiet" role="status">
      {plural(rows.length, "row")}
      {isChosen ? ` of ${number(looked.length)} looked at` : ""}
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

/** A page that lists: its head with filters, the table, and beside it the detail of the row that the address names. */
export function Listing<Row>(props: ListingProps<Row>) {
  const { page, paged, rowId } = props;
  const { id } = place.value;
  const close = (): void => select(page, "");
  useKeys({ Escape: () => id !== "" && close() });
  const last = paged.looked.at(-1);
  return (
    <>
      <PageHead title={props.title} filters={props.filters} actions={props.actions} />
      <Split
        name={page}
        onClose={close}
        detail={id === "" ? null : props.detail(id)}
        list={
          <Loaded resource={paged.resource}>
            {(rows) => (
              <>
                {rows.length === 0 && paged.next === null ? (
                  props.empty
                ) : (
                  <Table
                    label={props.title}
                    rows={rows}
                    columns={props.columns}
                    rowId={rowId}
                    selected={id}
                    onSelect={(chosen) => select(page, chosen)}
                    onEnd={paged.more}
                  />
                )}
                {paged.looked.length > 0 || paged.next !== null ? (
                  <Foot paged={paged} oldest={last && props.at?.(last)} />
                ) : null}
              </>
            )}
          </Loaded>
        }
      />
    </>
  );
}
