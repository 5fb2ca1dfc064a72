import { useEffect, useState } from "preact/hooks";
import type { StepView, ToolCallView } from "../../../../src/operate/records/views.ts";
import { useResource } from "../../resource.ts";
import { Status } from "../../ui/basic.tsx";
import { elapsed, number, plural, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { Loaded } from "../../ui/states.tsx";

const WORK_MS = 1000;

function Call({ call }: { call: ToolCallView }) {
  const texts = call.output?.parts.flatMap((part) => ("text" in part ? [part.text] : [])) ?? [];
  return (
    <details class="chat-call">
      <summary>
        <code>{visibleText(call.tool)}</code> <Status word={call.state} />
        {call.startedAt ? (
          <span class="quiet"> {elapsed(call.startedAt, call.endedAt)}</span>
        ) : null}
      </summary>
      <h4>Arguments</h4>
      <JsonTree value={call.input} />
      {call.approvals.map(({ id, why }) => (
        <p key={id} class="quiet">
          Asked for an approval: {visibleText(why)}
        </p>
      ))}
      {texts.length > 0 ? (
        <>
          <h4>{call.output?.isError ? "Error" : "Result"}</h4>
          <pre class="code">{visibleText(texts.join("\n"))}</pre>
        </>
      ) : null}
    </details>
  );
}

function Step({ step }: { step: StepView }) {
  const { inputTokens, outputTokens } = step.usage;
  return (
    <li>
      <p>
        <b>Step {step.index + 1}</b> <span class="mono">{visibleText(step.model)}</span>{" "}
        <span class="quiet">
          {elapsed(step.startedAt, step.endedAt)}
          {inputTokens === undefined ? "" : `, ${number(inputTokens)} tokens in`}
          {outputTokens === undefined ? "" : `, ${number(outputTokens)} out`}
        </span>
      </p>
      {step.failedAttempts.map(({ at, model, error }) => (
        <p key={at} class="bad">
          {visibleText(model)}: {visibleText(error.message)}
        </p>
      ))}
      {step.thinking ? (
        <details>
          <summary>Thinking</summary>
          <pre class="code">{visibleText(step.thinking)}</pre>
        </details>
      ) : null}
      {step.calls.map((call) => (
        <Call key={call.id} call={call} />
      ))}
    </li>
  );
}

/** What the agent did for a turn: the calls of the model and of tools, while they happen. */
export function Steps({ runId, running }: { runId: string; running: boolean }) {
  // The id of a run is known a moment before the run is kept.
  const [asks, setAsks] = useState(!running);
  useEffect(() => {
    const timer = setTimeout(() => setAsks(true), running ? WORK_MS : 0);
    return () => clearTimeout(timer);
  }, [running]);
  const steps = useResource<{ steps: StepView[] }>(
    asks ? `/runs/${encodeURIComponent(runId)}/steps` : null,
  );
  const { reload } = steps;
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(reload, WORK_MS);
    return () => {
      clearInterval(timer);
      reload();
    };
  }, [running, reload]);
  return (
    <Loaded resource={steps} lines={1}>
      {({ steps: all }) =>
        all.length === 0 ? (
          <p class="quiet chat-no-steps">
            {running ? "No step has ended yet." : "This run has no steps."}
          </p>
        ) : (
          <details class="chat-steps" open>
            <summary>{plural(all.length, "step")}</summary>
            <ol>
              {all.map((step) => (
                <Step key={step.index} step={step} />
              ))}
            </ol>
          </details>
        )
      }
    </Loaded>
  );
}
