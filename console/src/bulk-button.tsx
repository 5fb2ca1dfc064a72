import { useState } from "preact/hooks";
import type { BulkWork } from "./bulk-types.ts";
import { replayEvents, retryDeliveries, retryRuns } from "./bulk-work.ts";
import { Button } from "./ui/basic.tsx";
import { lazy } from "./ui/lazy.tsx";

/** The dialog of what is done with many, which is loaded when it is opened. What its lines are, the work alone knows. */
const BulkDialog = lazy<{ work: BulkWork; onClose(): void }>(
  async () => (await import("./bulk.tsx")).BulkPanel,
);

/** The button that does something with many, which its dialog previews. Without work there is nothing to do it with. */
function BulkButton(props: {
  label: string;
  work: BulkWork | undefined;
  /** The reason if there is no work. */
  missing: string;
  onClose(): void;
}) {
  const { label, work, missing } = props;
  const [chosen, setChosen] = useState<BulkWork>();
  const close = (): void => {
    setChosen(undefined);
    props.onClose();
  };
  return (
    <>
      <Button
        disabled={!work}
        {...(work ? {} : { title: missing })}
        onClick={() => setChosen(work)}
      >
        {label}
      </Button>
      {chosen ? <BulkDialog work={chosen} onClose={close} /> : null}
    </>
  );
}

interface ManyProps<Row> {
  query: Readonly<Record<string, string | undefined>>;
  rows: readonly Row[];
  onClose(): void;
}

const RETRY = { label: "Retry many…", missing: "Nothing is shown that can be retried" };

/** Retries the runs that a list shows. */
export const RetryRuns = ({ query, rows, onClose }: ManyProps<{ id: string; status: string }>) => (
  <BulkButton {...RETRY} work={retryRuns(query, rows)} onClose={onClose} />
);

/** Retries the deliveries that a list shows. */
export const RetryDeliveries = ({
  query,
  rows,
  onClose,
}: ManyProps<{ id: string; status: string }>) => (
  <BulkButton {...RETRY} work={retryDeliveries(query, rows)} onClose={onClose} />
);

/** Replays the events that the filters of a list leave. */
export const ReplayEvents = ({ query, rows, onClose }: ManyProps<{ id: string }>) => (
  <BulkButton
    label="Replay many…"
    missing="Nothing is shown that can be replayed"
    work={rows.length > 0 ? replayEvents(query, rows) : undefined}
    onClose={onClose}
  />
);
