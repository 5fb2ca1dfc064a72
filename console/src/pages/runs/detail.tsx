import type { RunDetail, StepView } from "../../../../src/operate/records/views.ts";
import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { sessionName } from "../../session-name.ts";
import { Button, Facts, Id, OutsideText, Section, Status, Time } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { elapsed, plural, visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { Timeline } from "./timeline.tsx";
import { usd, WaitsFor } from "./words.tsx";

const CANCELLABLE = ["queued", "running", "waiting", "parked", "collecting"];
const RETRIED = ["failed", "timed_out", "cancelled"];
const LIVE_MS = 1500;

/** Cancel or retry, as the state of the run allows. */
function Actions({ run, reload }: { run: RunDetail; reload(): void }) {
  const operate = async (name: "cancel" | "retry"): Promise<void> => {
    const { run: after } = await ask<{ run: RunDetail }>(
      `/runs/${encodeURIComponent(run.id)}/${name}`,
      { method: "POST" },
    );
    toast(`The run is ${after.status.replaceAll("_", " ")} now.`);
    reload();
  };
  const [cancel, cancelling] = useAction(async () => {
    if (
      await confirmed(
        "Cancel this run?",
        "What it has done stays done. It can be started again.",
        "Cancel the run",
        true,
      )
    )
      await operate("cancel");
  }, toastError);
  const [retry, retrying] = useAction(async () => {
    const text =
      "It starts again under its own id, after its last step: calls that were answered are not made again.";
    if (await confirmed("Start this run again?", text, "Retry")) await operate("retry");
  }, toastError);
  return (
    <div class="actions">
      {CANCELLABLE.includes(run.status) ? (
        <Button kind="danger" busy={cancelling} onClick={cancel}>
          Cancel
        </Button>
      ) : null}
      {RETRIED.includes(run.status) && run.kind === "hook" ? (
        <Button busy={retrying} onClick={retry}>
          Retry
        </Button>
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

/** Why the run is not done: its error, or what it waits for. */
function Trouble({ run }: { run: RunDetail }) {
  if (!run.error && !run.waitsFor) return null;
  return (
    <div class="runs-trouble">
      <Facts
        pairs={[
          [
            "error",
            run.error ? (
              <span class="bad">{`${run.error.code}: ${visibleText(run.error.message)}`}</span>
            ) : null,
            true,
          ],
          ["provider said", run.providerText && visibleText(run.providerText)],
          ["waits for", run.waitsFor ? <WaitsFor wait={run.waitsFor} /> : null, true],
          ["waits since", run.waitsFor?.since ? <Time iso={run.waitsFor.since} /> : null],
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

/** All else about a run, in two columns where there is room. */
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
          [
            "event",
            run.eventId === null ? null : <Id id={run.eventId} to={href("events", run.eventId)} />,
          ],
          ["delivery", run.delivery ? <Delivered run={run} /> : null],
          ["attempts", run.attempts > 1 ? run.attempts : null],
          ["restarts", run.restarts > 0 ? run.restarts : null],
          ["batch", run.collected === null ? null : plural(run.collected, "event")],
          ["trace", run.traceId],
          ["tokens", run.usageText],
          ["cost", run.usage ? usd(run.usage.costUsd) : null],
          ["created", <Time iso={run.createdAt} />],
          ["started", run.startedAt === null ? null : <Time iso={run.startedAt} />],
          ["ended", run.endedAt === null ? null : <Time iso={run.endedAt} />],
          [
            "took",
            run.startedAt === null || run.endedAt === null
              ? null
              : elapsed(run.startedAt, run.endedAt),
          ],
        ]}
      />
    </div>
  );
}

/** What the mapping's code printed and threw, as it is kept for the operator. */
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
