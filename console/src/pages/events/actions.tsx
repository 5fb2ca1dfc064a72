import { useState } from "preact/hooks";
import { useReadOnly } from "../../console-mode.ts";
import { useAction } from "../../resource.ts";
import { go, href, place } from "../../router.ts";
import { Button } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { useKeys } from "../../ui/keys.ts";
import { toastError } from "../../ui/toast.tsx";
import { Compare, CHOOSE } from "./compare.tsx";
import { FreezeDialog } from "../mappings/freeze.tsx";
import { copyCurl } from "./curl.ts";
import { Discard, EditReplay } from "./dialogs.tsx";
import { replay, Replayed } from "./replay.tsx";
import type { EventInFull, ExplanationView, ReplayView } from "./types.ts";

interface Result {
  result: ReplayView;
  dryRun: boolean;
}

const QUESTION =
  "It comes in again and is handled by the current mappings. Work that it did before is done once more.";

/**
 * Replays an event, after a question if it did work before, or says what that would do: what starts it, whether it is under
 * way, and what came of it.
 */
function useReplay(
  { id, outcome }: EventInFull,
  onChange: () => void,
): [start: (dryRun: boolean) => void, busy: boolean, result: Result | null] {
  const [result, setResult] = useState<Result | null>(null);
  const [start, busy] = useAction(async (dryRun: boolean) => {
    if (
      !dryRun &&
      outcome === "accepted" &&
      !(await confirmed("Replay this event?", QUESTION, "Replay"))
    )
      return;
    setResult({ result: await replay(id, { dryRun }), dryRun });
    if (!dryRun) onChange();
  }, toastError);
  return [start, busy, result];
}

type Open = "edit" | "freeze" | "discard" | null;

/** The actions on an event. */
export function Actions({
  explanation,
  onChange,
}: {
  explanation: ExplanationView;
  onChange(): void;
}) {
  const { event } = explanation;
  const [open, setOpen] = useState<Open>(null);
  const { page, query } = place.value;
  const comparing = query["compare"] !== undefined;
  const setCompare = (compare: string | undefined): void =>
    go(href(page, event.id, { ...query, compare }), { replace: true });
  const [start, busy, result] = useReplay(event, onChange);
  const openBench = (mapping: string): void => go(href("mappings", mapping, { event: event.id }));
  const edit = (): void => openBench(event.mapping ?? event.nearest?.mapping ?? "new");
  const noBody = event.bodyBytes === null;
  const readOnly = useReadOnly();
  const canFreeze = !noBody && readOnly === undefined;
  useKeys(open === null && !comparing ? { e: edit, f: () => canFreeze && setOpen("freeze") } : {});
  const close = (): void => setOpen(null);
  return (
    <>
      <div class="actions" role="toolbar" aria-label="Actions">
        <Button kind="primary" busy={busy} disabled={noBody} onClick={() => start(false)}>
          Replay
        </Button>
        <div class="actions">
          <Button busy={busy} disabled={noBody} onClick={() => start(true)}>
            What would it do now?
          </Button>
          <Button onClick={() => setOpen("edit")}>Edit and replay</Button>
          <Button onClick={edit} title="Edit beside (e)">
            Edit beside
          </Button>
          {event.outcome === "unmatched" ? (
            <Button onClick={() => openBench("new")}>New mapping</Button>
          ) : null}
          <Button
            onClick={() => setOpen("freeze")}
            disabled={!canFreeze}
            title={readOnly ?? "Freeze as a test (f)"}
          >
            Freeze as a test
          </Button>
          <Button onClick={() => setCompare(CHOOSE)}>Compare</Button>
          <Button onClick={() => void copyCurl(event).catch(toastError)} disabled={noBody}>
            Copy as curl
          </Button>
          {(event.outcome === "failed" || event.failedActions > 0) && event.handled === null ? (
            <Button kind="danger" onClick={() => setOpen("discard")}>
              Discard
            </Button>
          ) : null}
        </div>
      </div>
      {result ? <Replayed {...result} /> : null}
      {open === "edit" ? <EditReplay event={event} onClose={close} onChange={onChange} /> : null}
      {open === "freeze" ? (
        <FreezeDialog event={event.id} change={null} onClose={close} onDone={close} />
      ) : null}
      {open === "discard" ? <Discard event={event} onClose={close} onChange={onChange} /> : null}
      {comparing ? (
        <Compare
          event={event}
          other={query["compare"] ?? CHOOSE}
          onChoose={setCompare}
          onClose={() => setCompare(undefined)}
        />
      ) : null}
    </>
  );
}
