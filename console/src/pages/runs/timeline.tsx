import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { DeliveryDetail, RunDetail, StepView } from "../../../../src/operate/records/views.ts";
import { Messages } from "../../messages.tsx";
import { useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Id, Section, Status, Time } from "../../ui/basic.tsx";
import { elapsed, plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { Call, callHas } from "./call.tsx";
import { WithIds } from "../../ui/with-ids.tsx";
import { Attempt, usd, WaitsFor } from "./words.tsx";

type Tone = "good" | "warn" | "bad" | "quiet" | "step";

/** One point of the timeline; its mark has a shape for each kind. */
function Point(props: { mark: string; tone: Tone; children: ComponentChildren }) {
  return (
    <li class={`runs-point ${props.tone}`}>
      <span class="runs-mark" aria-hidden="true">
        {props.mark}
      </span>
      <div class="runs-point-body">{props.children}</div>
    </li>
  );
}

/** A period as a bar within the time of the run. */
function Bar({ from, to, of }: { from: string; to: string; of: { from: number; to: number } }) {
  const whole = Math.max(1, of.to - of.from);
  const share = (iso: string): number =>
    Math.min(100, Math.max(0, ((Date.parse(iso) - of.from) / whole) * 100));
  return (
    <span
      class="runs-bar"
      aria-hidden="true"
      style={{ "--from": `${share(from)}%`, "--to": `${100 - share(to)}%` }}
    >
      <span />
    </span>
  );
}

/** The usual ends of a step: the model has answered, or calls tools. */
const USUAL_ENDS: ReadonlySet<string> = new Set(["stop", "tool-calls"]);

function Step({
  run,
  step,
  search,
  of,
}: {
  run: RunDetail;
  step: StepView;
  search: string;
  of: { from: number; to: number };
}) {
  const calls = search === "" ? step.calls : step.calls.filter((call) => callHas(call, search));
  return (
    <section aria-label={`Step ${step.index + 1}`}>
      <header class="runs-step-head">
        <h3>Step {step.index + 1}</h3>
        <span class="mono">{step.model}</span>
        <span class="quiet">
          {elapsed(step.startedAt, step.endedAt)} · {step.usageText || "no tokens counted"}
          {step.usage.costUsd === undefined ? "" : ` · ${usd(step.usage.costUsd)}`}
        </span>
        <span class="runs-at">
          <Time iso={step.startedAt} />
        </span>
        <Bar from={step.startedAt} to={step.endedAt} of={of} />
      </header>
      {step.tools === null ? null : <p class="quiet">{visibleText(step.tools)}</p>}
      {step.failedAttempts.map((attempt, index) => (
        <Attempt key={index} attempt={attempt} />
      ))}
      {step.insteadOf === null ? null : (
        <p class="warn">
          ● {step.model} answered instead of {step.insteadOf}
        </p>
      )}
      {step.thinking === null ? null : (
        <details>
          <summary class="quiet">Thinking</summary>
          <pre class="code">{visibleText(step.thinking)}</pre>
        </details>
      )}
      {step.text === null ? null : <pre class="runs-said">{visibleText(step.text)}</pre>}
      {calls.map((call) => (
        <Call key={call.id} runId={run.id} call={call} search={search} />
      ))}
      {USUAL_ENDS.has(step.finish) ? null : (
        <p class="warn">● The model stopped: {step.finish.replaceAll("-", " ")}</p>
      )}
    </section>
  );
}

/** A delivery of the run with its messages, and which of them are sent. */
function Reply({ id, title }: { id: string; title: string }) {
  const delivery = useResource<{ delivery: DeliveryDetail }>(
    `/deliveries/${encodeURIComponent(id)}`,
    { live: true },
  );
  return (
    <Loaded resource={delivery} lines={2}>
      {({ delivery }) => {
        const { status, channel, to, texts, sentChunks, attempts, error, nextAt } = delivery;
        return (
          <section aria-label={title}>
            <header class="runs-step-head">
              <h3>{title}</h3>
              <Status word={status} />
              <span class="quiet">
                {channel} {to === null ? "" : visibleText(to)} · {sentChunks} of{" "}
                {plural(texts.length, "message")} sent · {plural(attempts, "try", "tries")}
                {nextAt === null ? null : (
                  <>
                    {" "}
                    · next try <Time iso={nextAt} planned />
                  </>
                )}
              </span>
              <Id id={id} to={href("deliveries", id)} />
            </header>
            {error ? (
              <p class="bad">
                {error.code}: {visibleText(error.message)}
              </p>
            ) : null}
            <Messages delivery={delivery} />
          </section>
        );
      }}
    </Loaded>
  );
}

const stepHas = (step: StepView, text: string): boolean =>
  `${step.model} ${step.text ?? ""} ${step.thinking ?? ""}`.toLowerCase().includes(text) ||
  step.calls.some((call) => callHas(call, text));

/** A wait that is over: how long, and what for. */
function Waited({ wait }: { wait: RunDetail["waits"][number] }) {
  return (
    <>
      Waited {elapsed(wait.since, wait.until)} for <WithIds text={wait.text} />, since{" "}
      <Time iso={wait.since} />
    </>
  );
}

function Ending({ run }: { run: RunDetail }) {
  if (run.endedAt === null) return null;
  const isGood = run.status === "succeeded";
  return (
    <Point mark={isGood ? "✓" : "✗"} tone={isGood ? "good" : "bad"}>
      <Status word={run.status} /> <Time iso={run.endedAt} />
      {run.error ? (
        <p class="bad">
          {run.error.code}: {visibleText(run.error.message)}
        </p>
      ) : null}
    </Point>
  );
}

function StepPoint(props: Parameters<typeof Step>[0]) {
  return (
    <Point mark={String(props.step.index + 1)} tone="step">
      <Step {...props} />
    </Point>
  );
}

function Steps({
  run,
  steps,
  search,
}: {
  run: RunDetail;
  steps: readonly StepView[];
  search: string;
}) {
  const shown = search === "" ? steps : steps.filter((step) => stepHas(step, search));
  const of = {
    from: Math.min(...steps.map(({ startedAt }) => Date.parse(startedAt))),
    to: Math.max(...steps.map(({ endedAt }) => Date.parse(endedAt))),
  };
  const besides = [
    ...run.failedAttempts.map((attempt, index) => ({
      at: attempt.at,
      point: (
        <Point key={`attempt ${index}`} mark="✗" tone="bad">
          <p>A model call without an answer</p>
          <Attempt attempt={attempt} />
        </Point>
      ),
    })),
    ...run.waits.map((wait) => ({
      at: wait.since,
      point: (
        <Point key={`wait ${wait.since}`} mark="◌" tone="quiet">
          <Waited wait={wait} />
        </Point>
      ),
    })),
  ];
  const points = [
    ...shown.map((step) => ({
      at: step.startedAt,
      point: <StepPoint key={`step ${step.index}`} run={run} step={step} search={search} of={of} />,
    })),
    ...(search === "" ? besides : []),
  ].toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return (
    <>
      {points.map(({ point }) => point)}
      {search !== "" && shown.length === 0 ? <li class="quiet">No step has “{search}”.</li> : null}
    </>
  );
}

/** The course of a run, from the event to the deliveries, in order of time. */
export function Timeline({ run, steps }: { run: RunDetail; steps: readonly StepView[] }) {
  const [text, setText] = useState("");
  const search = text.trim().toLowerCase();
  const find = (
    <label class="field">
      <span class="unseen">Search in the steps</span>
      <input
        class="input"
        type="search"
        placeholder="Search in the steps"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </label>
  );
  return (
    <Section title="Timeline" actions={steps.length > 0 ? find : null}>
      <ol class="runs-timeline">
        <Point mark="→" tone="quiet">
          {run.eventId === null ? "Made" : "Its event came in:"}{" "}
          {run.eventId === null ? null : <Id id={run.eventId} to={href("events", run.eventId)} />}{" "}
          <Time iso={run.createdAt} />
        </Point>
        <Steps run={run} steps={steps} search={search} />
        {run.waitsFor ? (
          <Point mark="◌" tone="warn">
            Waits for <WaitsFor wait={run.waitsFor} />
          </Point>
        ) : null}
        {run.status === "running" ? (
          <Point mark="◌" tone="warn">
            Running
          </Point>
        ) : null}
        <Ending run={run} />
        {run.deliveryId === null ? null : (
          <Point mark="↗" tone="quiet">
            <Reply id={run.deliveryId} title="Delivery" />
          </Point>
        )}
        {run.callbackId === null ? null : (
          <Point mark="↗" tone="quiet">
            <Reply id={run.callbackId} title="Receipt" />
          </Point>
        )}
      </ol>
    </Section>
  );
}
