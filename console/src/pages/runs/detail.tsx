import type { RunDetail, StepView } from "../../../../src/operate/records/views.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { sessionName } from "../../session-name.ts";
import { Facts, Id, OutsideText, Section, Status, Time } from "../../ui/basic.tsx";
import { elapsed, plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { renderProblem, toLink } from "../../ui/with-ids.tsx";
import { Timeline } from "./timeline.tsx";
import { usd, WaitsFor } from "./words.tsx";

const CANCELLABLE = ["queued", "running", "waiting", "parked", "collecting"];
const RETRIED = ["failed", "timed_out", "cancelled"];
const LIVE_MS = 1500;

/** Cancel or retry, as the state of the run allows. */
function Actions({ run, reload }: { run: RunDetail; reload(): void }) {
  const operate = (name: "cancel" | "retry") => ({
    send: () =>
      ask<{ run: RunDetail }>(`/runs/${encodeURIComponent(run.id)}/${name}`, { method: "POST" }),
    done: ({ run: after }: { run: RunDetail }) =>
      `The run is ${after.status.replaceAll("_", " ")} now.`,
    onDone: reload,
  });
  return (
    <div class="actions">
      {CANCELLABLE.includes(run.status) ? (
        <ActionButton
          label="Cancel"
          kind="danger"
          question={[
            "Cancel this run?",
            "What it has done stays done. It can be started again.",
            "Cancel the run",
          ]}
          {...operate("cancel")}
        />
      ) : null}
      {RETRIED.includes(run.status) && run.kind === "hook" ? (
        <ActionButton
          label="Retry"
          question={[
            "Start this run again?",
            "It starts again under its own id, after its last step: calls that were answered are not made again.",
          ]}
          {...operate("retry")}
        />
      ) : null}
    </div>
  );
}

const Warnings = ({ of }: { of: readonly string[] }) =>
  of.length === 0 ? null : (
    <ul class="runs-warnings">
      {of.map((warning) => (
        <li key={warning} class="warn">
          {visibleText(warning)}
        </li>
      ))}
    </ul>
  );

/** The reason why the run is not done: its error, or what it waits for. */
function Trouble({ run }: { run: RunDetail }) {
  if (!run.error && !run.waitsFor) return null;
  return (
    <div class="runs-trouble">
      <Facts
        pairs={[
          ["error", renderProblem(run.error), true],
          ["provider said", run.providerText && visibleText(run.providerText)],
          ["waits for", run.waitsFor && <WaitsFor wait={run.waitsFor} />, true],
          ["waits since", run.waitsFor?.since && <Time iso={run.waitsFor.since} />],
        ]}
      />
    </div>
  );
}

function Delivered({ run }: { run: RunDetail }) {
  if (!run.delivery) return null;
  const reason =
    run.route && "reason" in run.route && typeof run.route.reason === "string"
      ? ` ${run.route.reason}`
      : "";
  return (
    <>
      <Status word={run.delivery} />
      {visibleText(reason)}
    </>
  );
}

/** All else about a run, in two columns if there is room. */
function RunFacts({ run }: { run: RunDetail }) {
  return (
    <div class="runs-facts">
      <Facts
        pairs={[
          ["agent", run.agentId],
          ["model", run.model],
          [
            "session",
            <a href={href("sessions", sessionName({ ...run, key: run.sessionKey }))}>
              {visibleText(run.sessionKey)}
            </a>,
            true,
          ],
          ["mapping", run.mapping],
          ["event", toLink(run.eventId)],
          ["delivery", run.delivery ? <Delivered run={run} /> : null],
          ["attempts", run.attempts > 1 ? run.attempts : null],
          ["restarts", run.restarts > 0 ? run.restarts : null],
          ["batch", run.collected === null ? null : plural(run.collected, "event")],
          ["trace", run.traceId],
          ["tokens", run.usageText],
          ["cost", run.usage ? usd(run.usage.costUsd) : null],
          ["created", <Time iso={run.createdAt} />],
          ["started", run.startedAt && <Time iso={run.startedAt} />],
          ["ended", run.endedAt && <Time iso={run.endedAt} />],
          ["took", run.startedAt && run.endedAt && elapsed(run.startedAt, run.endedAt)],
        ]}
      />
    </div>
  );
}

/** The output of the mapping's code, as it is kept for the operator. */
const Debug = ({ run }: { run: RunDetail }) =>
  run.debug === null ? null : (
    <Section title="What the mapping's code printed">
      <pre class="code">{visibleText(JSON.stringify(run.debug, null, 2))}</pre>
    </Section>
  );

/** A run as a timeline, up to date while it runs. */
export function Detail({ id }: { id: string }) {
  const path = `/runs/${encodeURIComponent(id)}`;
  const run = useResource<{ run: RunDetail }>(path, { live: LIVE_MS });
  const steps = useResource<{ steps: StepView[] }>(`${path}/steps`, { live: LIVE_MS });
  const reload = (): void => {
    run.reload();
    steps.reload();
  };
  return (
    <Loaded resource={run}>
      {({ run: shown }) => (
        <>
          <header class="runs-head">
            <h2>{visibleText(shown.name)}</h2>
            <Status word={shown.status} />
            <Id id={shown.id} />
            <Actions run={shown} reload={reload} />
          </header>
          <Trouble run={shown} />
          <RunFacts run={shown} />
          <Warnings of={shown.warnings} />
          <Loaded resource={steps}>
            {({ steps: all }) => <Timeline run={shown} steps={all} />}
          </Loaded>
          {shown.reply === null ? null : (
            <Section title="What it replied">
              <pre class="code">{visibleText(shown.reply)}</pre>
            </Section>
          )}
          <Section title="What the agent was given">
            {shown.instructions === null ? null : (
              <pre class="code">{visibleText(shown.instructions)}</pre>
            )}
            <OutsideText parts={shown.input} />
          </Section>
          <Debug run={shown} />
        </>
      )}
    </Loaded>
  );
}
