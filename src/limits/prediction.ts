import { safeError } from "../core/errors.ts";
import type { Ms, ParkedByLimit } from "../store/types.ts";
import type { Loans } from "./loans.ts";
import { decide } from "./policy.ts";
import type { AdmissionDeps, Budget } from "./types.ts";

/** What is known of other gateways' use is that old at most, if it only predicts: `limits.queue`, and the answer's status. */
const FRESH_MS = 1000;

/** Predicts what will hold a run back; it is decided when the run is about to start. */
export class Prediction {
  readonly #deps: Pick<AdmissionDeps, "clock" | "log" | "context">;
  readonly #loans: Loans;
  #readAt: Ms = -Infinity;
  #reading: Promise<unknown> | undefined;

  constructor(deps: Pick<AdmissionDeps, "clock" | "log" | "context">, loans: Loans) {
    this.#deps = deps;
    this.#loans = loans;
  }

  of(budgets: readonly Budget[], now: Ms): ParkedByLimit | undefined {
    const decision = decide(
      new Map(this.#loans.of(budgets).map((account) => [account.scope, account.predict(now)])),
      budgets,
      now,
    );
    return decision.start ? undefined : decision.reason;
  }

  /** What other gateways have done was read at this moment. */
  markFresh(): void {
    this.#readAt = this.#deps.clock.now();
  }

  /** Reads what other gateways have done. Waits only if nothing is known yet. */
  async refresh(): Promise<void> {
    const { clock, log, context } = this.#deps;
    if (Math.abs(clock.now() - this.#readAt) < FRESH_MS) return;
    const isKnown = this.#readAt !== -Infinity;
    this.#reading ??= this.#loans
      .read(context().budgets.all.map(({ scope }) => scope))
      .then(() => this.markFresh())
      .finally(() => (this.#reading = undefined));
    if (!isKnown) await this.#reading;
    else
      this.#reading.catch((error: unknown) =>
        log.warn(
          { err: safeError(error) },
          "what limits have left could not be read; what is known stays in use",
        ),
      );
  }
}
