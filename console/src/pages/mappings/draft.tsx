import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../../api.ts";
import { READ_ONLY } from "../../console-mode.ts";
import { useAction, useResource } from "../../resource.ts";
import { go, href } from "../../router.ts";
import { Button, Facts, Section, Time } from "../../ui/basic.tsx";
import { number } from "../../ui/format.ts";
import { Failed } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { Bench } from "./bench.tsx";
import { FreezeDialog } from "./freeze.tsx";
import { SaveDialog } from "./save.tsx";
import type { DraftView, Mappings, Trial } from "./types.ts";
import { toSaved, useWorkbench, type Workbench } from "./use-workbench.ts";
import { useBenchKeys } from "./workbench.tsx";

/** What a trial has counted so far. */
function TrialCounts({ trial }: { trial: Trial }) {
  const { since, ended, events, matched, runs, wakes, skipped, refused, dropped, last } = trial;
  return (
    <Facts
      pairs={[
        ["since", <Time iso={since} />],
        ["ended", ended ? ended.reason : "goes on"],
        ["hooks", number(events)],
        ["it would have taken", number(matched)],
        ["runs", number(runs)],
        ["wakes", number(wakes)],
        ["skipped", number(skipped)],
        ["refused", number(refused)],
        ["left out", number(dropped)],
        ["last one", last ? <a href={href("events", last.eventId)}>{last.eventId}</a> : null],
      ]}
    />
  );
}

interface HeadProps {
  bench: Workbench;
  draft: DraftView;
  isBusy: boolean;
  isTried: boolean;
  canWrite: boolean;
  onTry(): void;
  onOpen(open: Open): void;
}

type Open = "save" | "accept" | "freeze" | null;

function DraftHead({
  bench,
  draft: { name, file, problem },
  isBusy,
  isTried,
  canWrite,
  onTry,
  onOpen,
}: HeadProps) {
  const { isChanged, eventId } = bench;
  return (
    <header class="page-head">
      <h1>
        <a href={href("mappings")}>Mappings</a> / Draft {name}
      </h1>
      <span class="quiet mono">{file}</span>
      {isChanged ? <span class="mappings-changed">not saved</span> : null}
      <div class="actions">
        <Button
          disabled={eventId === "" || !canWrite}
          onClick={() => onOpen("freeze")}
          title={canWrite ? "Keep the event as a test (f)" : READ_ONLY}
        >
          Freeze as test
        </Button>
        <Button busy={isBusy} disabled={problem !== null} onClick={onTry}>
          {isTried ? "Stop the trial" : "Try"}
        </Button>
        <Button disabled={!isChanged} onClick={() => onOpen("save")} title="Ctrl S">
          Save…
        </Button>
        <Button
          kind="primary"
          disabled={problem !== null || isChanged}
          title={isChanged ? "Save the draft first" : "Put it among the live mappings"}
          onClick={() => onOpen("accept")}
        >
          Make it live…
        </Button>
      </div>
    </header>
  );
}

interface DialogsProps {
  bench: Workbench;
  draft: DraftView;
  open: Open;
  canWrite: boolean;
  onClose(): void;
  reload(): void;
}

function Dialogs({
  bench,
  draft: { name, mappings },
  open,
  canWrite,
  onClose,
  reload,
}: DialogsProps) {
  const { written, change, eventId } = bench;
  const saving = toSaved(bench);
  if (open === "save" && saving) {
    const saved = (): void => {
      written.saved();
      toast(`Saved the draft ${name}. It is not live.`);
      onClose();
      reload();
    };
    return (
      <SaveDialog
        bench={bench}
        change={saving}
        canWrite={canWrite}
        onClose={onClose}
        onSaved={saved}
        onOvertaken={reload}
      />
    );
  }
  if (open === "accept") {
    const accepted = (where: string): void => {
      onClose();
      toast(`The draft ${name} is live in ${where.split("/").at(-1)}.`);
      reload();
      go(href("mappings", mappings[0] ?? ""));
    };
    return (
      <SaveDialog
        bench={bench}
        change={{ kind: "draft", name }}
        canWrite={canWrite}
        onClose={onClose}
        onSaved={accepted}
      />
    );
  }
  if (open !== "freeze" || eventId === "") return null;
  const frozen = (): void => {
    bench.evaluateNow();
    onClose();
  };
  return <FreezeDialog event={eventId} change={change} onClose={onClose} onDone={frozen} />;
}

interface DraftProps {
  draft: DraftView;
  mappings: Mappings;
  reload(): void;
}

function DraftBench({ draft, mappings, reload }: DraftProps) {
  const { name, replaces, problem } = draft;
  const bench = useWorkbench({ id: `draft:${name}`, draft }, mappings.mappings);
  const trials = useResource<{ trials: Trial[] }>("/trials", { live: true });
  const [open, setOpen] = useState<Open>(null);
  const trial = trials.data?.trials.find((one) => one.draft === name);
  const isTried = trial?.ended === null;
  const canWrite = mappings.console === "edit";
  useBenchKeys(bench, canWrite, setOpen);
  const [turn, isBusy] = useAction(async () => {
    await ask(`/trials/${encodeURIComponent(name)}`, { method: isTried ? "DELETE" : "POST" });
    trials.reload();
  }, toastError);
  const reloadAll = (): void => {
    reload();
    trials.reload();
  };
  return (
    <>
      <DraftHead {...{ bench, draft, isBusy, isTried, canWrite }} onTry={turn} onOpen={setOpen} />
      <div class="mappings-draft">
        {problem === null ? null : <p class="bad">{problem}</p>}
        <p class="quiet">
          A draft is not live: hooks are handled as before.{" "}
          {replaces.length > 0 ? `It would replace ${replaces.join(", ")}.` : ""}
        </p>
        {trial ? (
          <Section title="Trial">
            <TrialCounts trial={trial} />
          </Section>
        ) : null}
      </div>
      <Bench bench={bench} onSave={() => setOpen("save")} />
      <Dialogs
        {...{ bench, draft, open, canWrite }}
        onClose={() => setOpen(null)}
        reload={reloadAll}
      />
    </>
  );
}

/** A draft in the editor of mappings: its text, its trial beside live traffic, and how it becomes live. */
export function DraftPage(props: {
  name: string;
  mappings: Mappings;
  missing: ComponentChildren;
  reload(): void;
}) {
  const { name, mappings, missing, reload } = props;
  const draft = mappings.drafts.find((one) => one.name === name);
  if (!draft)
    return (
      <Failed
        error={{ code: "not_found", message: `There is no draft "${name}".` }}
        retry={reload}
        gone={missing}
      />
    );
  return <DraftBench draft={draft} mappings={mappings} reload={reload} />;
}
