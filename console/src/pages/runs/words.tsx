import type { RunView, StepView } from "../../../../src/operate/records/views.ts";
import { Time } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
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

/** The reason why a run waits, and the end of the wait. */
export const WaitsFor = ({ wait: { text, until } }: { wait: NonNullable<RunView["waitsFor"]> }) => (
  <>
    <WithIds text={text} />
    {until === null ? null : (
      <>
        , due <Time iso={until} />
      </>
    )}
  </>
);

/** A model call that gave no answer, and what was done about it. */
export const Attempt = ({ attempt }: { attempt: StepView["failedAttempts"][number] }) => (
  <p class="runs-attempt">
    <span class="bad">✗ </span>
    <Time iso={attempt.at} /> {visibleText(attempt.text)}
  </p>
);
