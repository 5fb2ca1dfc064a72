import { useState } from "preact/hooks";
import { replayEvents } from "./bulk-work.ts";
import { BulkDialog } from "./bulk.tsx";
import { Button } from "./ui/basic.tsx";

/** Replays the events that the filters of a list leave, after a preview of what would become of each. */
export function ReplayMany({ query, onClose }: { query: Readonly<Record<string, string | undefined>>; onClose(): void }) {
  const [open, setOpen] = useState(false);
  const close = (): void => {
    setOpen(false);
    onClose();
  };
  // A replay of many knows the filters below, and no search: it would take more than the list shows.
  const isSearch = Boolean(query["search"]) || Boolean(query["bookmarked"]);
  return (
    <>
      <Button
        disabled={isSearch}
        title={isSearch ? "Take the search away: many are chosen by outcome, path, mapping and time" : "Replay the events of these filters"}
        onClick={() => setOpen(true)}
      >
        Replay many…
      </Button>
      {open ? <BulkDialog work={replayEvents(query)} onClose={close} /> : null}
    </>
  );
}
