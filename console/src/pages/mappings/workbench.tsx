import { useState } from "preact/hooks";
import { READ_ONLY } from "../../console-mode.ts";
import { filter, go, href } from "../../router.ts";
import { Button } from "../../ui/basic.tsx";
import { useKeys } from "../../ui/keys.ts";
import { toast } from "../../ui/toast.tsx";
import { Bench } from "./bench.tsx";
import { FreezeDialog } from "./freeze.tsx";
import { ProposeDialog } from "./propose.tsx";
import { EnableDialog, SaveDialog } from "./save.tsx";
import type { MappingText, Mappings } from "./types.ts";
import { isPreset, NEW, toSaved, useWorkbench, type Workbench } from "./use-workbench.ts";

type Open = "save" | "freeze" | "propose" | "enable" | null;

function Head({
  bench,
  canWrite,
  onOpen,
}: {
  bench: Workbench;
  canWrite: boolean;
  onOpen(open: Open): void;
}) {
  const { id, isNew, mapping, eventId, isChanged } = bench;
  const refusal = canWrite ? undefined : READ_ONLY;
  return (
    <header class="page-head">
      <h1>
        <a href={href("mappings")}>Mappings</a> / {isNew ? "New mapping" : id}
      </h1>
      <span class="quiet mono">{isNew ? "" : mapping?.place}</span>
      {isChanged ? <span class="mappings-changed">not saved</span> : null}
      <div class="actions">
        <Button
          disabled={eventId === "" || !canWrite}
          onClick={() => onOpen("propose")}
          title={refusal ?? "Propose a mapping"}
        >
          Propose
        </Button>
        <Button
          disabled={eventId === "" || !canWrite}
          onClick={() => onOpen("freeze")}
          title={refusal ?? "Keep the event as a test (f)"}
        >
          Freeze as test
        </Button>
        {mapping?.shadow && !isNew && !isPreset(bench) ? (
          <Button
            disabled={isChanged}
            onClick={() => onOpen("enable")}
            title={isChanged ? "Save the mapping first" : "Take `shadow` away"}
          >
            Make it live…
          </Button>
        ) : null}
        {isPreset(bench) ? (
          <Button
            kind="primary"
            onClick={() => go(href("mappings", NEW, { copy: id, event: eventId }))}
          >
            Copy into my mappings
          </Button>
        ) : (
          <Button
            kind="primary"
            disabled={!isNew && !isChanged}
            onClick={() => onOpen("save")}
            title="Ctrl S"
          >
            Save…
          </Button>
        )}
      </div>
    </header>
  );
}

interface DialogsProps {
  bench: Workbench;
  open: Open;
  mappings: Mappings;
  onClose(): void;
  reload(): void;
}

function Dialogs({ bench, open, mappings, onClose, reload }: DialogsProps) {
  const { eventId, written, id } = bench;
  const saving = toSaved(bench);
  if (open === "save" && saving && !isPreset(bench)) {
    const saved = (file: string): void => {
      const added = bench.evaluated.good?.mapping ?? null;
      written.saved();
      toast(`Saved in ${file.split("/").at(-1)}, and in use.`);
      onClose();
      reload();
      const target = added ?? id;
      if (target !== id) go(href("mappings", target, { event: eventId }));
    };
    return (
      <SaveDialog
        bench={bench}
        change={saving}
        canWrite={mappings.console === "edit"}
        onClose={onClose}
        onSaved={saved}
        onOvertaken={reload}
      />
    );
  }
  if (open === "freeze" && eventId !== "") {
    const done = (): void => {
      bench.evaluateNow();
      onClose();
    };
    return (
      <FreezeDialog
        event={eventId}
        change={isPreset(bench) ? null : bench.change}
        onClose={onClose}
        onDone={done}
      />
    );
  }
  if (open === "enable") {
    const enabled = (): void => {
      toast(`${id} is live.`);
      onClose();
      reload();
    };
    return (
      <EnableDialog
        bench={bench}
        canWrite={mappings.console === "edit"}
        onClose={onClose}
        onSaved={enabled}
      />
    );
  }
  if (open === "propose" && eventId !== "")
    return <ProposeDialog bench={bench} onClose={onClose} />;
  return null;
}

/** The keys of the workbench. */
function useBenchKeys(
  bench: Workbench,
  canWrite: boolean,
  onOpen: (open: "save" | "freeze") => void,
): void {
  const { events, eventId } = bench;
  const step = (by: number): void => {
    const next = events[events.findIndex((one) => one.id === eventId) + by];
    if (next) filter({ event: next.id });
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    f: () => eventId !== "" && canWrite && onOpen("freeze"),
    e: () => bench.editor?.focus(),
    "ctrl+Enter": bench.evaluateNow,
    "ctrl+s": () => onOpen("save"),
  });
}

interface WorkbenchProps {
  id: string;
  mapping: MappingText | undefined;
  mappings: Mappings;
  reload(): void;
}

/** The workbench of one mapping. */
export function WorkbenchPage({ id, mapping, mappings, reload }: WorkbenchProps) {
  const bench = useWorkbench({ id, mapping }, mappings);
  const [open, setOpen] = useState<Open>(null);
  const canWrite = mappings.console === "edit";
  useBenchKeys(bench, canWrite, setOpen);
  return (
    <>
      <Head bench={bench} canWrite={canWrite} onOpen={setOpen} />
      {canWrite || isPreset(bench) ? null : (
        <p class="banner">{READ_ONLY} What you write here can be taken as a patch (Save…).</p>
      )}
      <Bench bench={bench} onSave={() => setOpen("save")} />
      <Dialogs
        bench={bench}
        open={open}
        onClose={() => setOpen(null)}
        mappings={mappings}
        reload={reload}
      />
    </>
  );
}
