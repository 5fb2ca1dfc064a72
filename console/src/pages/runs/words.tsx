import type { RunView, StepView } from "../../../../src/admin/views.ts";
import { Time } from "../../ui/basic.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { WithIds } from "../../ui/with-ids.tsx";

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
export const WaitsFor = ({ wait: { text, until } }: { wait: NonNullable<RunView["waitsFor"]> }) => (
  <>
    <WithIds text={text} />
    {until === null ? null : (
      <>
        , until <Time iso={until} planned />
      </>
    )}
  </>
);

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

/** A model call that gave no answer, and what was done about it. */
export const Attempt = ({ attempt }: { attempt: StepView["failedAttempts"][number] }) => (
  <p class="runs-attempt">
    <span class="bad">✗ </span>
    <Time iso={attempt.at} /> {visibleText(attempt.text)}
  </p>
);
