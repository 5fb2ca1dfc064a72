import "../events/style.css";
import "./style.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { FirstHook } from "../../first-hook.tsx";
import { FilterSelect } from "../../filters.tsx";
import { ListPage, select } from "../../listing.tsx";
import { href, place } from "../../router.ts";
import { Button, Status } from "../../ui/basic.tsx";
import { number, plural } from "../../ui/format.ts";
import { useKeys } from "../../ui/keys.ts";
import { lazy } from "../../ui/lazy.tsx";
import { Empty } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { eventColumns } from "../events/columns.tsx";
import { OUTCOMES, PathAndMapping } from "../events/filters.tsx";
import type { EventRow } from "../events/types.ts";
import { useLiveEvents, type LiveEvents } from "./stream.ts";

const Detail = lazy(async () => (await import("../events/detail.tsx")).Detail);

const FILTERS = ["outcome", "path", "mapping"] as const;
const TONES = { connecting: "quiet", live: "good", paused: "quiet", away: "warn" } as const;
const WORDS = {
  connecting: "connecting",
  live: "live",
  paused: "paused",
  away: "not connected",
} as const;
const SAID_MS = 5000;
const NOTHING_YET = {
  connecting: "Connecting…",
  away: "Live is not connected. It tries again by itself every second.",
} as const;

/** Says how many events came, every five seconds at most: each of them read aloud would be too much. */
function Announcer({ rows, paused }: { rows: readonly EventRow[]; paused: boolean }) {
  const [said, setSaid] = useState("");
  const newest = useRef<string | undefined>(undefined);
  const current = useRef(rows);
  current.current = rows;
  useEffect(() => {
    if (paused) return setSaid("");
    newest.current = current.current[0]?.id;
    const timer = setInterval(() => {
      const at = current.current.findIndex(({ id }) => id === newest.current);
      const fresh = at === -1 ? current.current : current.current.slice(0, at);
      const [first] = fresh;
      if (!first) return;
      newest.current = first.id;
      setSaid(`${plural(fresh.length, "new event")}. The newest: ${first.path}, ${first.outcome}.`);
    }, SAID_MS);
    return () => clearInterval(timer);
  }, [paused]);
  return (
    <p class="unseen" aria-live={paused ? "off" : "polite"} data-live>
      {said}
    </p>
  );
}

function Notices({ live, asked }: { live: LiveEvents; asked: string }) {
  return (
    <>
      {live.error === null ? null : (
        <p class="banner warn" role="status">
          {live.error}
        </p>
      )}
      {live.leftOut > 0 ? (
        <p class="live-notice">
          {plural(live.leftOut, "event")} came in faster than they are shown here.{" "}
          <a href={`#/events${asked === "" ? "" : `?${asked}`}`}>Events has all of them.</a>
        </p>
      ) : null}
    </>
  );
}

/** Stands in place of the list while no event has come in. */
function Nothing({ state, isFiltered }: { state: LiveEvents["state"]; isFiltered: boolean }) {
  if (state === "connecting" || state === "away") return <Empty>{NOTHING_YET[state]}</Empty>;
  if (isFiltered)
    return <Empty>No event with these filters yet. New ones show here as they come in.</Empty>;
  return <FirstHook>Events show here as they come in. This line sends one.</FirstHook>;
}

/** The events as they come in, with a pause. */
export function Page() {
  const { id, query } = place.value;
  const [paused, setPaused] = useState(false);
  const asked = new URLSearchParams(
    FILTERS.flatMap((name) => (query[name] ? [[name, query[name]]] : [])),
  ).toString();
  const live = useLiveEvents(asked, paused);
  const pause = (): void => setPaused(!paused);
  useKeys({ p: pause });
  const list =
    live.rows.length === 0 ? (
      <Nothing state={live.state} isFiltered={asked !== ""} />
    ) : (
      <Table
        label="Live events"
        rows={live.rows}
        rowId={(row) => row.id}
        columns={eventColumns({ link: (one) => href("live", one, query), exact: true })}
        selected={id}
        onSelect={(next) => select("live", next)}
      />
    );
  return (
    <>
      <Announcer rows={live.rows} paused={paused} />
      <ListPage
        page="live"
        title="Live"
        filters={
          <>
            <Status word={WORDS[live.state]} tone={TONES[live.state]} />
            <FilterSelect name="outcome" label="Outcome" options={["", ...OUTCOMES]} />
            <PathAndMapping />
          </>
        }
        actions={
          <>
            {live.waiting > 0 ? (
              <span class="live-waiting">{number(live.waiting)} waiting</span>
            ) : null}
            <Button onClick={pause} title="Pause or go on (p)">
              {paused ? "▶ Go on" : "❚❚ Pause"}
            </Button>
          </>
        }
        notices={<Notices live={live} asked={asked} />}
        list={list}
        detail={(shown) => <Detail key={shown} id={shown} onChange={() => {}} />}
      />
    </>
  );
}
