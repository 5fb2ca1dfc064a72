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

const VERDICTS: Record<Trace["verdict"], readonly [words: string, tone: string]> = {
  first: ["took it", "good"],
  also: ["also matched", "good"],
  hidden: ["would have matched", "warn"],
  no: ["does not match", "quiet"],
  unknown: ["a condition is unknown", "warn"],
  failed: ["match.when failed", "bad"],
  disabled: ["is not enabled", "quiet"],
  shadow: ["matches, in shadow", "quiet"],
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
  const [words, tone] = VERDICTS[trace.verdict];
  const by = trace.by === undefined ? "" : `; ${trace.by} took it before`;
  return (
    <details class="events-trace" open={trace.verdict !== "disabled" && trace.verdict !== "hidden"}>
      <summary>
        <a href={href("mappings", trace.mapping, { event })}>{visibleText(trace.mapping)}</a>
        <span class={`events-verdict ${tone}`}>
          {words}
          {by}
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

function ActionPart({ action }: { action: ActionView }) {
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

/** What the mappings make of an event: its actions with outside text marked, or why there are none. */
export function Result({ evaluation }: { evaluation: Evaluation }) {
  const { outcome, actions, mapping, reason, nearest, failure, missing } = evaluation;
  if (outcome === "actions")
    return (
      <>
        {actions.map((action, index) => (
          <ActionPart key={index} action={action} />
        ))}
      </>
    );
  if (outcome === "unmatched")
    return (
      <p>
        No mapping matches.
        {nearest
          ? ` The closest one is ${nearest.mapping}, whose ${nearest.condition} does not hold.`
          : ""}
      </p>
    );
  if (outcome === "skipped")
    return <p>{visibleText(`Skipped by ${mapping ?? "a mapping"}: ${reason ?? ""}`)}</p>;
  return (
    <>
      <p>
        {outcome} by {mapping}
      </p>
      {failure ? <FailureText failure={failure} /> : null}
      {missing.length > 0 ? <p class="warn">Missing: {visibleText(missing.join(", "))}</p> : null}
    </>
  );
}
