import { computed, signal } from "@preact/signals";

/** The address, read: `#/events/evt_1?outcome=failed` is page `events`, id `evt_1`, one filter. */
export interface Place {
  page: string;
  id: string;
  query: Readonly<Record<string, string>>;
}

/** Reads an address. An id may hold slashes; it is decoded. */
export function parsePlace(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...id] = path.split("/");
  let decoded = id.join("/");
  try {
    decoded = decodeURIComponent(decoded);
  } catch {
    // An address that someone cut off in the middle of an escape: shown as it is.
  }
  return {
    page: page === "" ? "overview" : page,
    id: decoded,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

/** The place that the address names. */
export const place = computed(() => parsePlace(hash.value));

/** The address of a place. Empty values of the query are left out. */
export function href(
  page: string,
  id = "",
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const kept = Object.entries(query).filter(
    (pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== "",
  );
  const search = new URLSearchParams(kept).toString();
  return `#/${page}${id === "" ? "" : `/${encodeURIComponent(id)}`}${search === "" ? "" : `?${search}`}`;
}

/** Goes to a place. `replace` leaves no entry in the history: for filters that follow the typing. */
export function go(target: string, { replace = false } = {}): void {
  if (replace) {
    history.replaceState(null, "", target);
    hash.value = target;
  } else location.hash = target;
}

/** Changes filters of the page that is shown, and keeps its id. */
export function filter(changes: Readonly<Record<string, string | undefined>>): void {
  const { page, id, query } = place.value;
  go(href(page, id, { ...query, ...changes }), { replace: true });
}
