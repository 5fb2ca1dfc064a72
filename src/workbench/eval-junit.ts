import type { CaseReport, EvalReport } from "./eval.ts";
import type { SideName } from "./eval-side.ts";
import { renderJunitSuite, type JunitCase } from "./junit.ts";

function toJunitCase(
  { evalCase: { name, request, run }, sides }: CaseReport,
  side: SideName,
): JunitCase {
  const { runs = [], passed = 0 } = sides[side] ?? {};
  const failed = runs.filter((one) => !one.passed);
  const common = {
    group: request?.path ?? `agent ${run.agent ?? "default"}`,
    name,
    ms: runs.reduce((sum, { ms }) => sum + ms, 0),
  };
  if (runs.length === 0) return { ...common, skipped: "the evaluation ended before this case" };
  if (failed.length === 0) return common;
  const misses = failed.flatMap((one) => one.misses);
  const message = `${[...new Set(misses.map(({ field }) => field))].join(", ")} (${passed} of ${runs.length} passed)`;
  const text = failed
    .map((one) =>
      [
        ...one.misses.map(({ field, reason }) => `${field}: ${reason}`),
        `reply: ${one.reply ?? "none"}`,
      ].join("\n"),
    )
    .join("\n\n");
  return { ...common, failure: { type: "reply", message, text } };
}

/** The results of a side in the form that CI systems read as JUnit's. A case that passes in some repetitions alone has failed. */
export const renderEvalJunit = ({ cases }: EvalReport, side: SideName): string =>
  renderJunitSuite(
    "rouse eval",
    cases.map((one) => toJunitCase(one, side)),
  );
