import { href } from "../../router.ts";
import { OutsideText } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import type { ActionView, Evaluation, FailureView, Trace } from "./types.ts";

type Condition = Trace["conditions"][number];

const MARKS = {
  true: ["✓", "good", "holds"],
  false: ["✗", "bad", "does not hold"],
  unknown: ["?", "warn", "is unknown"],
} as const;

const TONES: Partial<Record<Trace["verdict"], string>> = {
  first: "good",
  also: "good",
  hidden: "warn",
  unknown: "warn",
  failed: "bad",
};

function ConditionLine({ one }: { one: Condition }) {
  const [mark, tone, words] = MARKS[`${one.result}`];
  const near = one.saw?.near ? ` There is ${one.saw.near.join(", ")}.` : "";
  return (
    <li>
      <span class={`events-mark ${tone}`} role="img" aria-label={words}>
        {mark}
      </span>
      <span>
        <code>{visibleText(one.condition)}</code>{" "}
        {one.wants !== undefined && !one.children ? (
          <code class="quiet">{visibleText(one.wants)}</code>
        ) : null}
        {one.result === true ? null : (
          <span class="events-saw">
            {visibleText(one.reason)}
            {visibleText(near)}
          </span>
        )}
        {one.children ? <Conditions all={one.children} /> : null}
      </span>
    </li>
  );
}

const Conditions = ({ all }: { all: readonly Condition[] }) => (
  <ul class="events-conditions">
    {all.map((one, index) => (
      <ConditionLine key={index} one={one} />
    ))}
  </ul>
);

/** The expressions that found nothing, and fields that could not be rendered. */
function RenderedFields({ fields }: { fields: NonNullable<Trace["fields"]> }) {
  const lines = fields.flatMap(({ field, item, pieces, failure }) => {
    const name = item === undefined ? field : `${field}, item ${item}`;
    const missing = pieces
      .filter((piece) => piece.missing)
      .map(({ expression = "" }) => `{{${expression}}} is missing`);
    return [...(failure === undefined ? [] : [failure]), ...missing].map((text) => ({
      name,
      text,
    }));
  });
  if (lines.length === 0) return null;
  return (
    <ul class="events-conditions">
      {lines.map(({ name, text }, index) => (
        <li key={index}>
          <span class="events-mark warn" role="img" aria-label="note">
            !
          </span>
          <span>
            <code>{name}</code> <span class="events-saw">{visibleText(text)}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

function TraceView({ trace, event }: { trace: Trace; event: string }) {
  return (
    <details class="events-trace" open={trace.verdict !== "disabled" && trace.verdict !== "hidden"}>
      <summary>
        <a href={href("mappings", trace.mapping, { event })}>{visibleText(trace.mapping)}</a>
        <span class={`events-verdict ${TONES[trace.verdict] ?? "quiet"}`}>
          {visibleText(trace.text)}
        </span>
        <span class="quiet mono">{visibleText(trace.place)}</span>
      </summary>
      {trace.conditions.length === 0 ? (
        <p class="quiet">It has no conditions.</p>
      ) : (
        <Conditions all={trace.conditions} />
      )}
      {trace.fields ? <RenderedFields fields={trace.fields} /> : null}
    </details>
  );
}

/** Each mapping of the path in the order in which they are tried, with its verdict and the conditions that decided. */
export function Traces({ traces, event }: { traces: readonly Trace[]; event: string }) {
  return (
    <ol class="events-traces">
      {traces.map((trace) => (
        <li key={`${trace.at}${trace.mapping}`}>
          <TraceView trace={trace} event={event} />
        </li>
      ))}
    </ol>
  );
}

export const FailureText = ({ failure }: { failure: FailureView }) => (
  <div class="events-failure">
    <p class="bad">
      {visibleText(failure.code)}: {visibleText(failure.message)}
    </p>
    {(failure.issues ?? []).map(({ path, message }) => (
      <p key={`${path}${message}`}>
        <code>{visibleText(path)}</code> {visibleText(message)}
      </p>
    ))}
  </div>
);

/** An action that a mapping makes, its text from outside marked, or why there is none. */
export function ActionPart({ action }: { action: ActionView }) {
  if (!action.ok) return <FailureText failure={action.failure} />;
  const fields = Object.entries(action.fields).map(
    ([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)] as const,
  );
  return (
    <div class="events-action">
      <p class="events-fields">
        <b>{action.action}</b>
        {fields.map(([name, value]) => (
          <span key={name}>
            <span class="quiet">{name}</span> {visibleText(value)}
          </span>
        ))}
      </p>
      <OutsideText parts={action.content} />
      {action.content.some(({ outside }) => outside) ? (
        <p class="quiet">
          Marked text is from the sender
          {action.unsafe
            ? "; allowUnsafeExternalContent puts it into the prompt without the boundary"
            : ", and stands inside the boundary"}
          .
        </p>
      ) : null}
      {action.missing.length > 0 ? (
        <p class="warn">Missing: {visibleText(action.missing.join(", "))}</p>
      ) : null}
      {action.warnings.map((warning) => (
        <p key={warning} class="warn">
          {visibleText(warning)}
        </p>
      ))}
      {action.problem ? <FailureText failure={action.problem} /> : null}
    </div>
  );
}

/** The result of the mappings for an event: its actions with outside text marked, or why there are none. */
export const Result = ({
  evaluation: { text, actions, failure, missing },
}: {
  evaluation: Evaluation;
}) => (
  <>
    {actions.map((action, index) => (
      <ActionPart key={index} action={action} />
    ))}
    {text === null ? null : <p>{visibleText(text)}</p>}
    {failure ? <FailureText failure={failure} /> : null}
    {missing.length > 0 ? <p class="warn">Missing: {visibleText(missing.join(", "))}</p> : null}
  </>
);
