import { useState } from "preact/hooks";
import { filter, go, href } from "../../router.ts";
import { Button, Time } from "../../ui/basic.tsx";
import { plural } from "../../ui/format.ts";
import { useKeys } from "../../ui/keys.ts";
import { toast } from "../../ui/toast.tsx";
import { EditorHost } from "./editor-host.tsx";
import { FreezeDialog } from "./freeze.tsx";
import { BodyPane, EventsPane, ResultPane, WhatIfPane, WhyPane } from "./panes.tsx";
import { ProposeDialog } from "./propose.tsx";
import { SaveDialog } from "./save.tsx";
import type { MappingText, Mappings } from "./types.ts";
import { NEW, problemsOf, useWorkbench, type Workbench } from "./use-workbench.ts";

type Open = "save" | "freeze" | "propose" | null;

/** Text of an earlier visit is offered; it is taken only when the operator says so. */
function Offer({ bench }: { bench: Workbench }) {
  const { written, editor } = bench;
  if (!written.offered) return null;
  const answer = (take: boolean): void => {
    const text = written.answerOffer(take);
    if (text !== null) editor?.setText(text);
  };
  return (
    <p class="banner" role="status">
      There is unsaved text of this mapping, written <Time iso={written.offered.at} />.{" "}
      <Button onClick={() => answer(true)}>Take it up</Button> <Button onClick={() => answer(false)}>Drop it</Button>
    </p>
  );
}

/** The file has another text by now than the one that is being changed. */
function Overtaken({ bench }: { bench: Workbench }) {
  const [isCompared, setCompared] = useState(false);
  const { mapping, written, editor, isNew } = bench;
  if (isNew || !mapping || written.base === null || mapping.text === written.base) return null;
  const { text } = mapping;
  const settle = (take: boolean): void => {
    editor?.compareWith(null);
    setCompared(false);
    if (take) editor?.setText(text);
    written.setBase(text);
  };
  if (written.text === text || written.text === written.base) {
    return (
      <p class="banner" role="status">
        The file has another text by now. <Button onClick={() => settle(true)}>Show it</Button>
      </p>
    );
  }
  const compare = (): void => {
    editor?.compareWith(isCompared ? null : text);
    setCompared(!isCompared);
  };
  return (
    <p class="banner warn" role="alert">
      This mapping was changed in its file while you were writing.{" "}
      <Button onClick={compare}>{isCompared ? "Show mine alone" : "See both"}</Button>{" "}
      <Button onClick={() => settle(true)}>Take the file's</Button> <Button onClick={() => settle(false)}>Keep mine</Button>
    </p>
  );
}

function Head({ bench, canWrite, onOpen }: { bench: Workbench; canWrite: boolean; onOpen(open: Open): void }) {
  const { id, isNew, mapping, eventId, written } = bench;
  const isPreset = !isNew && mapping?.own === false;
  const isChanged = written.base !== null && written.text !== written.base;
  return (
    <header class="page-head">
      <h1>
        <a href={href("mappings")}>Mappings</a> / {isNew ? "New mapping" : id}
      </h1>
      <span class="quiet mono">{isNew ? "" : mapping?.place}</span>
      {isChanged ? <span class="mappings-changed">not saved</span> : null}
      <div class="actions">
        <Button disabled={eventId === "" || !canWrite} onClick={() => onOpen("propose")}>
          Propose
        </Button>
        <Button disabled={eventId === "" || !canWrite} onClick={() => onOpen("freeze")} title="Keep the event as a test (f)">
          Freeze as test
        </Button>
        {isPreset ? (
          <Button kind="primary" onClick={() => go(href("mappings", NEW, { copy: id, event: eventId }))}>
            Copy into my mappings
          </Button>
        ) : (
          <Button kind="primary" disabled={!isNew && !isChanged} onClick={() => onOpen("save")} title="Ctrl S">
            Save…
          </Button>
        )}
      </div>
    </header>
  );
}

/** What is wrong with the text, and what the tests say. */
function Foot({ bench }: { bench: Workbench }) {
  const { evaluated } = bench;
  const problems = problemsOf(evaluated);
  const warnings = evaluated.now?.warnings ?? [];
  const tests = evaluated.good?.tests;
  return (
    <section class="mappings-foot" aria-label="Problems">
      <p role="status">
        {problems.length > 0 ? <b class="bad">✗ {plural(problems.length, "problem")}</b> : <span class="good">✓ no problem</span>}
        {warnings.length > 0 ? <span class="warn"> · {plural(warnings.length, "warning")}</span> : null}
        {tests ? ` · tests ${tests.passed} of ${tests.passed + tests.failed.length}` : ""}
      </p>
      <ul>
        {problems.map(({ path, message }) => (
          <li key={`${path}${message}`} class="bad">
            {path === "" ? message : `${path}: ${message}`}
          </li>
        ))}
        {warnings.map(({ path, message }) => (
          <li key={`${path}${message}`} class="warn">
            {path === "" ? message : `${path}: ${message}`}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Dialogs({ bench, open, onClose, canWrite }: { bench: Workbench; open: Open; onClose(): void; canWrite: boolean }) {
  const { change, eventId, written, id, isNew } = bench;
  const isPreset = !isNew && bench.mapping?.own === false;
  if (open === "save" && change && !isPreset) {
    const saved = (file: string): void => {
      const added = bench.evaluated.good?.mapping ?? null;
      written.forget();
      written.setBase(written.text);
      toast(`Saved in ${file.split("/").at(-1)}, and in use.`);
      onClose();
      const target = added ?? id;
      if (target !== id) go(href("mappings", target, { event: eventId }));
    };
    return <SaveDialog change={change} canWrite={canWrite} onClose={onClose} onSaved={saved} />;
  }
  if (open === "freeze" && eventId !== "") {
    const done = (): void => {
      bench.evaluateNow();
      onClose();
    };
    return <FreezeDialog event={eventId} change={isPreset ? null : change} onClose={onClose} onDone={done} />;
  }
  if (open === "propose" && eventId !== "") return <ProposeDialog bench={bench} onClose={onClose} />;
  return null;
}

/** The workbench of one mapping: an event, the text, and what the text makes of the event and of those before it. */
export function WorkbenchPage({ id, mapping, mappings }: { id: string; mapping: MappingText | undefined; mappings: Mappings }) {
  const bench = useWorkbench(id, mapping);
  const [open, setOpen] = useState<Open>(null);
  const canWrite = mappings.console === "edit";
  const { events, eventId, event, written, evaluated, compared } = bench;
  const step = (by: number): void => {
    const next = events[events.findIndex((one) => one.id === eventId) + by];
    if (next) filter({ event: next.id });
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    f: () => eventId !== "" && canWrite && setOpen("freeze"),
    e: () => bench.editor?.focus(),
    "ctrl+Enter": bench.evaluateNow,
    "ctrl+s": () => setOpen("save"),
  });
  const isStale = problemsOf(evaluated).length > 0;
  return (
    <>
      <Head bench={bench} canWrite={canWrite} onOpen={setOpen} />
      <Offer bench={bench} />
      <Overtaken bench={bench} />
      <div class="mappings-bench">
        <EventsPane events={events} path={bench.path} selected={eventId} onSelect={(one) => filter({ event: one })} />
        <BodyPane event={event} onPath={(path) => bench.editor?.insertPath(path)} />
        <section class="mappings-pane mappings-text" aria-label="Text of the mapping">
          {written.base === null ? null : (
            <EditorHost
              text={written.text}
              readOnly={!bench.isNew && mapping?.own === false}
              label={`Text of ${id}`}
              onChange={written.setText}
              onEvaluate={bench.evaluateNow}
              onSave={() => setOpen("save")}
              onReady={bench.setEditor}
            />
          )}
          <Foot bench={bench} />
        </section>
        <div class="mappings-answers">
          <WhyPane shown={evaluated.good} own={evaluated.good?.mapping ?? id} />
          <ResultPane evaluated={evaluated} isStale={isStale} />
          <WhatIfPane compared={compared} last={bench.last} onLast={bench.setLast} />
        </div>
      </div>
      <Dialogs bench={bench} open={open} onClose={() => setOpen(null)} canWrite={canWrite} />
    </>
  );
}
