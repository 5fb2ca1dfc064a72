import { useState } from "preact/hooks";
import { replayEvents } from "./bulk-work.ts";
import { BulkDialog } from "./bulk-dialog.ts";
import { Button } from "./ui/basic.tsx";

interface ReplayManyProps {
  query: Readonly<Record<string, string | undefined>>;
  /** The rows of the list; undefined until they are there. */
  rows: readonly { id: string }[] | undefined;
  onClose(): void;
}

/** Replays the events that the filters of a list leave, after a preview of what would become of each. */
export function ReplayMany({ query, rows, onClose }: ReplayManyProps) {
  const [work, setWork] = useState<ReturnType<typeof replayEvents> | null>(null);
  const close = (): void => {
    setWork(null);
    onClose();
  };
  return (
    <>
      <Button
        disabled={!rows?.length}
        title="Replay the events of these filters"
        onClick={() => setWork(replayEvents(query, rows ?? []))}
      >
        Replay many…
      </Button>
      {work ? <BulkDialog work={work} onClose={close} /> : null}
    </>
  );
}
