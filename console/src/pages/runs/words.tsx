import type { RunDetail, RunView, StepView } from "../../../../src/admin/views.ts";
import { href } from "../../router.ts";
import { Id, Time } from "../../ui/basic.tsx";
import { duration, number, visibleText } from "../../ui/format.ts";

const USD = new Intl.NumberFormat("en", { style: "currency", currency: "USD" });
/** A run costs a fraction of a cent. All amounts have as many digits, so that they stand one under another. */
const FRACTION = new Intl.NumberFormat("en", {
  style: "currency",
  currency: "USD",
  minimumFractionDigits: 5,
  maximumFractionDigits: 5,
});

/** An amount of US dollars; `unknown` if the price of a model is not known. */
export const usd = (amount: number | undefined): string =>
  amount === undefined ? "unknown" : (amount < 1 ? FRACTION : USD).format(amount);

/** What a run waits for, and until when. */
export function WaitsFor({ run }: { run: Pick<RunView, "waitsFor" | "status"> }) {
  const reason = run.waitsFor;
  switch (reason?.kind) {
    case undefined:
      return null;
    case "session":
      return (
        <>
          the run of its session that goes first:{" "}
          <Id id={reason.head} to={href("runs", reason.head)} />
        </>
      );
    case "limit":
      return (
        <>
          limits.{reason.limit} of {reason.scope}
          {reason.until === null ? null : (
            <>
              , until <Time iso={reason.until} />
            </>
          )}
        </>
      );
    case "breaker":
      return (
        <>
          the model {reason.of}, which is tried again <Time iso={reason.until} />
        </>
      );
    case "delay":
      return (
        <>
          {run.status === "collecting" ? "further events of its batch" : "its next try"}:{" "}
          <Time iso={reason.until} planned />
        </>
      );
    case "approval":
      return (
        <>
          a person, until <Time iso={reason.until} />:{" "}
          {reason.approvalIds.map((id) => (
            <Id key={id} id={id} to={href("approvals", id)} />
          ))}
        </>
      );
    case "worker":
      return <>a free worker: all are busy, or no gateway has workers</>;
  }
}

/** What a run has waited for. */
export function WaitedFor({ wait }: { wait: RunDetail["waits"][number] }) {
  switch (wait.kind) {
    case "limit":
      return (
        <>
          limits.{wait.limit} of {wait.scope}
        </>
      );
    case "model":
      return <>the model {wait.of}</>;
    case "delay":
      return <>its next try</>;
    case "batch":
      return <>further events of its batch</>;
    case "approval":
      return (
        <>
          a person:{" "}
          {wait.approvalIds.map((id) => (
            <Id key={id} id={id} to={href("approvals", id)} />
          ))}
        </>
      );
    case "queue":
      return <>a free worker, or a run of its session that went first</>;
  }
}

type Usage = StepView["usage"];

const COUNTS: readonly (readonly [keyof Usage, string])[] = [
  ["inputTokens", "in"],
  ["cachedInputTokens", "of them cached"],
  ["cacheWriteTokens", "of them written to the cache"],
  ["outputTokens", "out"],
  ["reasoningTokens", "of them reasoning"],
];

/** `1,200 in, 800 of them cached, 30 out, 10 of them reasoning`. */
export const tokensOf = (usage: Usage): string =>
  COUNTS.flatMap(([name, what]) =>
    usage[name] === undefined ? [] : [`${number(usage[name])} ${what}`],
  ).join(", ");

/** What a provider said with its error: status, code and message. */
export const vendorOf = ({ vendor }: NonNullable<RunView["error"]>): string =>
  [vendor?.status, vendor?.code, vendor?.message]
    .filter((part) => part !== undefined && part !== "")
    .join(" ");

/** A model call that gave no answer, and what was done about it. */
export function Attempt({ attempt }: { attempt: StepView["failedAttempts"][number] }) {
  const { at, model, error, waitedMs } = attempt;
  const said = vendorOf(error);
  return (
    <p class="runs-attempt">
      <span class="bad">✗ </span>
      <Time iso={at} /> {model}: {error.code}: {visibleText(error.message)}
      {said === "" ? "" : ` (${visibleText(said)})`}
      {waitedMs === null ? "" : `; tried again after ${duration(waitedMs)}`}
    </p>
  );
}
