import { useState } from "preact/hooks";
import type { BulkWork } from "./bulk-types.ts";
import { Button } from "./ui/basic.tsx";
import { lazy } from "./ui/lazy.tsx";

/** The dialog of what is done with many, which is loaded when it is opened. What its lines are, the work alone knows. */
const BulkDialog = lazy<{ work: BulkWork; onClose(): void }>(
  async () => (await import("./bulk.tsx")).BulkPanel,
);

/** The button that does something with many, which its dialog previews. Without work there is nothing to do it with. */
export function BulkButton(props: {
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
