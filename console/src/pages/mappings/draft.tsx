import { useState } from "preact/hooks";
import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { go, href } from "../../router.ts";
import { Button, Facts, Section, Time } from "../../ui/basic.tsx";
import { number } from "../../ui/format.ts";
import { Failed } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { SaveDialog } from "./save.tsx";
import type { DraftView, Mappings, Trial } from "./types.ts";

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
  draft: DraftView;
  isBusy: boolean;
  isTried: boolean;
  onTry(): void;
  onAccept(): void;
}

function DraftHead({ draft: { name, file, problem }, isBusy, isTried, onTry, onAccept }: HeadProps) {
  return (
    <header class="page-head">
      <h1>
        <a href={href("mappings")}>Mappings</a> / Draft {name}
      </h1>
      <span class="quiet mono">{file}</span>
      <div class="actions">
        <Button busy={isBusy} disabled={problem !== null} onClick={onTry}>
          {isTried ? "Stop the trial" : "Try"}
        </Button>
        <Button kind="primary" disabled={problem !== null} onClick={onAccept}>
          Make it live…
        </Button>
      </div>
    </header>
  );
}

/** A draft: its text, its trial beside live traffic, and how it becomes live. */
export function DraftPage({ name, mappings, reload }: { name: string; mappings: Mappings; reload(): void }) {
  const draft = mappings.drafts.find((one) => one.name === name);
  const trials = useResource<{ trials: Trial[] }>("/trials", { live: true });
  const [isOpen, setOpen] = useState(false);
  const trial = trials.data?.trials.find((one) => one.draft === name);
  const isTried = trial?.ended === null;
  const [turn, isBusy] = useAction(async () => {
    await ask(`/trials/${encodeURIComponent(name)}`, { method: isTried ? "DELETE" : "POST" });
    trials.reload();
  }, toastError);
  if (!draft) return <Failed error={{ code: "not_found", message: `There is no draft "${name}".` }} retry={reload} />;
  const { text, replaces, problem } = draft;
  const saved = (where: string): void => {
    setOpen(false);
    toast(`The draft ${name} is live in ${where.split("/").at(-1)}.`);
    reload();
    go(href("mappings", draft.mappings[0] ?? ""));
  };
  return (
    <>
      <DraftHead draft={draft} isBusy={isBusy} isTried={isTried} onTry={turn} onAccept={() => setOpen(true)} />
      <div class="page-body">
        {problem === null ? null : <p class="bad">{problem}</p>}
        <p class="quiet">
          A draft is not live: hooks are handled as before. {replaces.length > 0 ? `It would replace ${replaces.join(", ")}.` : ""}
        </p>
        {trial ? (
          <Section title="Trial">
            <TrialCounts trial={trial} />
          </Section>
        ) : null}
        <Section title="Text">
          <pre class="code" tabIndex={0}>
            {text}
          </pre>
        </Section>
      </div>
      {isOpen ? (
        <SaveDialog
          change={{ kind: "draft", name }}
          canWrite={mappings.console === "edit"}
          onClose={() => setOpen(false)}
          onSaved={saved}
        />
      ) : null}
    </>
  );
}
