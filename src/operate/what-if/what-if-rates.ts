import type { Budget } from "../../queue/types.ts";
import type { Store } from "../../store/types.ts";
import type { EffectAction } from "./effect.ts";

const HOUR_MS = 3_600_000;

/** The most runs within an hour, of times that come newest first. */
class BusiestHour {
  readonly #times: number[] = [];
  #from = 0;
  most = 0;

  add(at: number): void {
    this.#times.push(at);
    while ((this.#times[this.#from] ?? at) - at >= HOUR_MS) this.#from++;
    this.most = Math.max(this.most, this.#times.length - this.#from);
    // What has left the window is not kept.
    if (this.#from < 1000) return;
    this.#times.splice(0, this.#from);
    this.#from = 0;
  }
}

/** The budgets that a run of a mapping spends from. */
export type FindBudgets = (mapping: string | undefined) => readonly Budget[];

/** Counts the runs of each budget on one side. */
class RunRates {
  readonly scopes = new Map<
    string,
    { budget: Budget; runs: number; hour: BusiestHour; mappings: Set<string> }
  >();
  readonly #find: FindBudgets;

  constructor(find: FindBudgets) {
    this.#find = find;
  }

  add(actions: readonly EffectAction[], at: number): void {
    for (const { action } of actions) {
      if (action.kind !== "run") continue;
      for (const budget of this.#find(action.mapping)) {
        const known = this.scopes.get(budget.scope) ?? {
          budget,
          runs: 0,
          hour: new BusiestHour(),
          mappings: new Set(),
        };
        this.scopes.set(budget.scope, known);
        known.runs++;
        known.hour.add(at);
        if (action.mapping !== undefined) known.mappings.add(action.mapping);
      }
    }
  }
}

/** The runs before and after a change, by the budgets that they spend from after it. */
export class Rates {
  readonly #before: RunRates;
  readonly #after: RunRates;

  /** @param find the budgets after the change. */
  constructor(find: FindBudgets) {
    this.#before = new RunRates(find);
    this.#after = new RunRates(find);
  }

  add(before: readonly EffectAction[], after: readonly EffectAction[], at: number): void {
    this.#before.add(before, at);
    this.#after.add(after, at);
  }

  /** Mappings that runs of a budget with `tokensPerDay` belong to, if more runs would start. */
  mappings(): string[] {
    return [...this.#after.scopes.values()].flatMap(({ budget, mappings }) =>
      budget.limits.tokensPerDay === undefined ? [] : [...mappings],
    );
  }

  /** Warns of each limit that the runs would pass and do not pass, or pass less, without the change. */
  warnings(days: number, tokens: (mapping: string) => number | undefined): string[] {
    return [...this.#after.scopes].flatMap(([scope, { budget, runs, hour, mappings }]) => {
      const { runsPerHour, tokensPerDay } = budget.limits;
      const before = this.#before.scopes.get(scope);
      const found: string[] = [];
      if (
        runsPerHour !== undefined &&
        hour.most > runsPerHour &&
        hour.most > (before?.hour.most ?? 0)
      )
        found.push(
          `${scope}: up to ${hour.most} runs would start within an hour; limits.runsPerHour is ${runsPerHour}, so further runs would wait`,
        );
      const used =
        Math.max(0, ...[...mappings].map((mapping) => tokens(mapping) ?? 0)) * (runs / days);
      if (
        tokensPerDay !== undefined &&
        days >= 1 &&
        used > tokensPerDay &&
        runs > (before?.runs ?? 0)
      )
        found.push(
          `${scope}: about ${Math.round(used)} tokens a day would be used; limits.tokensPerDay is ${tokensPerDay}, so further runs would wait`,
        );
      return found;
    });
  }
}

const RUNS_PAGE = 500;
const RUNS_PAGES = 6;
const ENOUGH = 100;

const median = (values: readonly number[]): number | undefined =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

export interface TokenMedians {
  /** By mapping: the median of its recorded runs. */
  of: ReadonlyMap<string, number>;
  /** The median of the recorded runs of all hooks; undefined if there are none. */
  all: number | undefined;
}

/** Reads the tokens of recorded runs, newest first, until each of the mappings has enough of them or 3,000 runs were read. */
export async function readTokenMedians(
  store: Pick<Store, "list">,
  mappings: readonly string[],
): Promise<TokenMedians> {
  const used = new Map<string, number[]>();
  const all: number[] = [];
  let before: string | undefined;
  for (let page = 0; page < RUNS_PAGES; page++) {
    const runs = await store.list("runs", {
      limit: RUNS_PAGE,
      ...(before !== undefined && { before }),
    });
    for (const { mapping, usage, kind } of runs) {
      const tokens = usage?.totalTokens ?? (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
      if (kind !== "hook" || tokens === 0) continue;
      all.push(tokens);
      if (mapping === undefined) continue;
      const list = used.get(mapping) ?? [];
      used.set(mapping, list);
      list.push(tokens);
    }
    before = runs.at(-1)?.id;
    if (
      runs.length < RUNS_PAGE ||
      mappings.every((mapping) => (used.get(mapping)?.length ?? 0) >= ENOUGH)
    )
      break;
  }
  return {
    of: new Map([...used].map(([mapping, values]) => [mapping, median(values) ?? 0])),
    all: median(all),
  };
}
