import { useState, useEffect, useRef } from "preact/hooks";
import { filter } from "../../router.ts";
import { Button, Time } from "../../ui/basic.tsx";
import { plural } from "../../ui/format.ts";
import type { KeptText } from "./written.ts";
import { BodyPane, EventsPane, ResultPane, WhyPane } from "./panes.tsx";
import { WhatIfPane } from "./what-if.tsx";
import { isPreset, problemsOf, type Workbench } from "./use-workbench.ts";
import type { Editor, EditorOptions } from "./editor/create.ts";
import { LateSkeleton } from "../../ui/states.tsx";

/** Mounts the editor. Its chunk is loaded when the first editor is shown. */
function EditorHost(props: EditorOptions & { onReady(editor: Editor | null): void }) {
  const host = useRef<HTMLDivElement>(null);
  const current = useRef(props);
  current.current = props;
  const [state, setState] = useState<"loading" | "ready" | "failed">("loading");
  useEffect(() => {
    let editor: Editor | null = null;
    let isGone = false;
    const open = async (): Promise<void> => {
      const { createEditor } = await import("./editor/create.ts");
      if (isGone || !host.current) return;
      const { text, readOnly, label } = current.current;
      editor = createEditor(host.current, {
        text,
        readOnly,
        label,
        onChange: (next) => current.current.onChange(next),
        onEvaluate: () => current.current.onEvaluate(),
        onSave: () => current.current.onSave(),
      });
      setState("ready");
      current.current.onReady(editor);
    };
    open().catch(() => setState("failed"));
    return () => {
      isGone = true;
      current.current.onReady(null);
      editor?.close();
    };
  }, []);
  return (
    <div class="mappings-editor">
      {state === "loading" ? <LateSkeleton /> : null}
      {state === "failed" ? (
        <p class="bad" role="alert">
          The editor could not be loaded. The gateway may have been updated: load the page again.
          Unsaved text is kept.
        </p>
      ) : null}
      <div ref={host} class="host" />
    </div>
  );
}

/** Texts of earlier visits are offered; one is taken only when the operator says so. */
function Offers({ bench }: { bench: Workbench }) {
  const { written, editor } = bench;
  const answer = (offer: KeptText, take: boolean): void => {
    const text = written.answerOffer(offer, take);
    if (text !== null) editor?.setText(text);
  };
  return (
    <>
      {written.offered.map((offer) => (
        <p key={offer.at} class="banner" role="status">
          There is unsaved text of this mapping, written <Time iso={offer.at} />.{" "}
          <Button onClick={() => answer(offer, true)}>Take it up</Button>{" "}
          <Button onClick={() => answer(offer, false)}>Drop it</Button>
        </p>
      ))}
    </>
  );
}

/** The file has another text by now than the one that is being changed. */
function Overtaken({ bench }: { bench: Workbench }) {
  const [isCompared, setCompared] = useState(false);
  const { filed: text, written, editor } = bench;
  if (
    text === undefined ||
    written.base === null ||
    text.trim() === written.base.trim() ||
    text === written.savedOver
  )
    return null;
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
      <Button onClick={() => settle(true)}>Take the file's</Button>{" "}
      <Button onClick={() => settle(false)}>Keep mine</Button>
    </p>
  );
}

/** The problems of the text, and the results of the tests. */
function Foot({ bench }: { bench: Workbench }) {
  const { evaluated } = bench;
  const problems = problemsOf(evaluated);
  const warnings = evaluated.now?.warnings ?? [];
  const tests = evaluated.good?.tests;
  return (
    <section class="mappings-foot" aria-label="Problems">
      <p role="status">
        {problems.length > 0 ? (
          <b class="bad">✗ {plural(problems.length, "problem")}</b>
        ) : evaluated.now === null || evaluated.error !== null ? (
          <span class="quiet">not evaluated yet</span>
        ) : (
          <span class="good">✓ no problem</span>
        )}
        {warnings.length > 0 ? (
          <span class="warn"> · {plural(warnings.length, "warning")}</span>
        ) : null}
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

/** The panes of the workbench: an event, the text, and what the text makes of the event and of those before it. */
export function Bench({ bench, onSave }: { bench: Workbench; onSave(): void }) {
  const { listed, shown, eventId, written, evaluated } = bench;
  const isStale = problemsOf(evaluated).length > 0;
  const own = evaluated.good?.mapping ?? bench.id;
  return (
    <>
      <Offers bench={bench} />
      <Overtaken bench={bench} />
      <div class="mappings-bench">
        <EventsPane
          listed={listed}
          path={bench.path}
          selected={eventId}
          onSelect={(one) => filter({ event: one })}
        />
        <BodyPane shown={shown} onPath={(path, value) => bench.editor?.insertPath(path, value)} />
        <section class="mappings-pane mappings-text" aria-label="Text of the mapping">
          {written.base === null ? null : (
            <EditorHost
              text={written.text}
              readOnly={isPreset(bench)}
              label={`Text of ${bench.id}`}
              onChange={written.setText}
              onEvaluate={bench.evaluateNow}
              onSave={onSave}
              onReady={bench.setEditor}
            />
          )}
          {isPreset(bench) ? null : <Foot bench={bench} />}
        </section>
        <div class="mappings-answers">
          <WhyPane shown={evaluated.good} own={own} hasEvent={eventId !== ""} />
          <ResultPane evaluated={evaluated} isStale={isStale} />
          {isPreset(bench) ? null : <WhatIfPane bench={bench} />}
        </div>
      </div>
    </>
  );
}
