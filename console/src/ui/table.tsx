import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "./keys.ts";

export interface Column<Row> {
  head: string;
  cell(row: Row): ComponentChildren;
  /** Numbers stand at the right, one under another. */
  numeric?: boolean;
  /** Left out if there is little room. */
  minor?: boolean;
  /** Takes the room that is left. */
  grow?: boolean;
  /**
   * The subject of the row, which has its first line in a narrow window: by default the first column, or the one that grows in
   * a list whose rows can be selected.
   */
  lead?: boolean;
}

export interface TableProps<Row> {
  /** The name of the list, for screen readers. */
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowId(row: Row): string;
  /** Stands in its place if there are no rows. */
  empty?: ComponentChildren;
  /** The row whose detail is shown beside the table. */
  selected?: string;
  onSelect?(id: string): void;
  /** Called when the end of the rows comes into sight. */
  onEnd?(): void;
}

const ROW_HEIGHT = 34;
/** In a narrow window a row has two lines; the style has the same height and width. */
const NARROW_ROW_HEIGHT = 60;
const NARROW = matchMedia("(max-width: 46rem)");

/** The height of a row, in pixels. */
function useRowHeight(): number {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const listen = (): void => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", listen);
    return () => NARROW.removeEventListener("change", listen);
  }, []);
  return isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
}

/** Shorter tables are drawn whole, so that the browser's own search finds everything in them. */
const DRAWN_WHOLE = 200;

/** Which rows to draw of a long table that scrolls in `scroller`. */
function useVisibleRows(
  scroller: RefObject<HTMLElement | null>,
  count: number,
  rowHeight: number,
): { from: number; to: number } {
  const [range, setRange] = useState({ from: 0, to: Math.min(count, 60) });
  const virtualizer = useRef<Virtualizer<HTMLElement, HTMLElement> | null>(null);
  useLayoutEffect(() => {
    if (count <= DRAWN_WHOLE) return;
    const update = (instance: Virtualizer<HTMLElement, HTMLElement>): void => {
      const items = instance.getVirtualItems();
      const from = items[0]?.index ?? 0;
      const to = (items.at(-1)?.index ?? 59) + 1;
      setRange((before) => (before.from === from && before.to === to ? before : { from, to }));
    };
    const options = {
      count,
      getScrollElement: () => scroller.current,
      estimateSize: () => rowHeight,
      overscan: 20,
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      onChange: update,
    };
    virtualizer.current ??= new Virtualizer(options);
    virtualizer.current.setOptions(options);
    const unmount = virtualizer.current._didMount();
    virtualizer.current._willUpdate();
    update(virtualizer.current);
    return unmount;
  }, [count, scroller, rowHeight]);
  return count <= DRAWN_WHOLE
    ? { from: 0, to: count }
    : { from: Math.min(range.from, count), to: Math.min(range.to, count) };
}

/** Calls `onEnd` when the element after the last row comes into sight, or is still in sight after rows were added. */
function useEnd(
  end: RefObject<HTMLElement | null>,
  count: number,
  onEnd: (() => void) | undefined,
): void {
  const called = useRef(onEnd);
  called.current = onEnd;
  useEffect(() => {
    if (!end.current) return;
    const observer = new IntersectionObserver(
      ([entry]) => entry?.isIntersecting && called.current?.(),
      { rootMargin: "400px" },
    );
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [end, count]);
}

/** The classes of each column, which the style goes by. */
function toClasses<Row>(columns: readonly Column<Row>[], isSelectable: boolean): readonly string[] {
  const lead =
    columns.find((column) => column.lead) ??
    columns.find(({ grow }) => isSelectable && grow) ??
    columns[0];
  return columns.map((column) =>
    [
      column.numeric && "number",
      column.minor && "minor",
      column.grow && "grow",
      column === lead && "lead",
    ]
      .filter(Boolean)
      .join(" "),
  );
}

const Head = <Row,>({
  columns,
  classes,
}: {
  columns: readonly Column<Row>[];
  classes: readonly string[];
}) => (
  <thead>
    <tr>
      {columns.map(({ head }, index) => (
        <th key={head} scope="col" class={classes[index]}>
          {head}
        </th>
      ))}
    </tr>
  </thead>
);

/** The gap of rows that are not drawn. */
const Gap = ({ rows, columns, rowHeight }: { rows: number; columns: number; rowHeight: number }) =>
  rows > 0 ? (
    <tr aria-hidden="true">
      <td colSpan={columns} style={{ height: `${rows * rowHeight}px`, padding: 0, border: 0 }} />
    </tr>
  ) : null;

/**
 * A dense table with a head that stays; in a narrow window, each row has two lines in place of columns. If rows can be
 * selected, a click or `j` and `k` select one, and its detail is shown beside it by the page.
 */
export function Table<Row>(props: TableProps<Row>) {
  const { rows, columns, rowId, selected, onSelect } = props;
  const rowHeight = useRowHeight();
  const scroller = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const { from, to } = useVisibleRows(scroller, rows.length, rowHeight);
  useEnd(end, rows.length, props.onEnd);
  // Keys may come faster than the address names the row that the last one chose.
  const chosen = useRef(selected);
  useLayoutEffect(() => void (chosen.current = selected), [selected]);
  const move = (step: number): void => {
    if (!onSelect || rows.length === 0) return;
    const at = rows.findIndex((row) => rowId(row) === chosen.current);
    const next = Math.min(
      rows.length - 1,
      Math.max(0, at === -1 ? (step > 0 ? 0 : rows.length - 1) : at + step),
    );
    const row = rows[next];
    if (row === undefined) return;
    chosen.current = rowId(row);
    onSelect(chosen.current);
    const box = scroller.current;
    const top = next * rowHeight;
    if (box && (top < box.scrollTop || top > box.scrollTop + box.clientHeight - 3 * rowHeight))
      box.scrollTop = top - box.clientHeight / 2;
  };
  useKeys(onSelect ? { j: () => move(1), k: () => move(-1) } : {});
  const classes = toClasses(columns, onSelect !== undefined);
  if (rows.length === 0 && props.empty !== undefined) return <>{props.empty}</>;
  return (
    <div class="table rows" ref={scroller} tabIndex={0} role="region" aria-label={props.label}>
      <table aria-rowcount={rows.length}>
        <Head columns={columns} classes={classes} />
        <tbody>
          <Gap rows={from} columns={columns.length} rowHeight={rowHeight} />
          {rows.slice(from, to).map((row) => {
            const id = rowId(row);
            return (
              <tr
                key={id}
                data-id={id}
                aria-selected={onSelect ? id === selected : undefined}
                class={onSelect ? "selectable" : ""}
                onClick={(event) => {
                  if (!(event.target as Element).closest("a, button, input")) onSelect?.(id);
                }}
              >
                {columns.map((column, index) => (
                  <td key={column.head} class={classes[index]} data-head={column.head}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          <Gap rows={rows.length - to} columns={columns.length} rowHeight={rowHeight} />
        </tbody>
      </table>
      <div ref={end} class="end" />
    </div>
  );
}
