import type { Sender } from "../config/schema/signature.ts";
import { percent } from "../signatures/sender.ts";
import { fail, passedCheck, warningCheck, type Found } from "./doctor-check.ts";
import { newestFirst } from "./bulk-replay.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "./types.ts";

type Rule = NonNullable<Sender["disablesAfter"]>;

/** What a path's sender was answered. */
interface Answer {
  at: number;
  isError: boolean;
}

/** Events hold their bodies: pages are small. */
const PAGE = 20;
/** Answers that are read at most. */
const MAX_ANSWERS = 1000;
const MINUTE_MS = 60_000;
const RANK = { ok: 0, warn: 1, fail: 2 } as const;

/** Yields the answers that the sender of a path got, newest first: recorded events, and refusals of authenticated requests. */
async function* answersTo(path: string, deps: AdminDeps, since: number | undefined): AsyncGenerator<Answer> {
  const refused = deps
    .refusals()
    .filter((refusal) => refusal.authenticated && refusal.path === path && refusal.at >= (since ?? 0))
    .map(({ at }): Answer => ({ at, isError: true }));
  const query = since === undefined ? { path } : { path, since };
  for await (const { receivedAt: at, status, replayOf } of newestFirst(deps.store, query, PAGE)) {
    // A replay answers the operator.
    if (replayOf !== undefined) continue;
    while ((refused.at(-1)?.at ?? -1) >= at) yield refused.pop() as Answer;
    yield { at, isError: status !== undefined };
  }
  yield* refused.toReversed();
}

/** Counts the newest answers that are errors, up to the last success. */
async function countErrors(answers: AsyncIterable<Answer>): Promise<{ errors: number; since: number }> {
  let errors = 0;
  let since = 0;
  for await (const { at, isError } of answers) {
    if (!isError) break;
    since = at;
    if (++errors === MAX_ANSWERS) break;
  }
  return { errors, since };
}

const lastAnswers = (errors: number): string => (errors === 1 ? "the last answer was an error" : `the last ${errors} answers were errors`);

/** Compares the answers of a path with its sender's rule. Undefined: too few errors to report. */
async function examineAnswers(
  path: string,
  rule: Rule,
  deps: AdminDeps,
): Promise<{ errors: string; limit: string; reached: boolean } | undefined> {
  const now = deps.clock.now();
  if ("failedShare" in rule) {
    const { failedShare, withinMinutes } = rule;
    let errors = 0;
    let total = 0;
    for await (const { isError } of answersTo(path, deps, now - withinMinutes * MINUTE_MS)) {
      if (isError) errors++;
      if (++total === MAX_ANSWERS) break;
    }
    if (total === 0 || errors / total < failedShare / 2) return undefined;
    const counted = `${errors} of ${total} answers of the last ${withinMinutes} minutes were errors`;
    return { errors: counted, limit: `above ${percent(failedShare)}`, reached: errors / total > failedShare };
  }
  const { errors, since } = await countErrors(answersTo(path, deps, undefined));
  if (errors === 0) return undefined;
  if ("failures" in rule) return { errors: lastAnswers(errors), limit: `after ${rule.failures}`, reached: errors >= rule.failures };
  const { failingHours } = rule;
  return {
    errors: `every answer since ${new Date(since).toISOString()} was an error`,
    limit: `after ${failingHours} hours of errors`,
    reached: now - since >= failingHours * 60 * MINUTE_MS,
  };
}

/** Checks whether a sender that disables hooks has reason to disable one of this gateway's. */
export async function checkSenders(deps: AdminDeps, { verifiers }: Snapshot): Promise<Found> {
  const found: Found[] = [];
  for (const [path, { sender }] of verifiers) {
    const problem = sender?.disablesAfter && (await examineAnswers(path, sender.disablesAfter, deps));
    if (!problem) continue;
    const then = problem.reached ? ": check there whether it did, and enable it again" : "";
    const message = `${path}: ${problem.errors}; ${sender.name} disables this hook ${problem.limit}${then} (\`rouse events list --path ${path}\`)`;
    found.push((problem.reached ? fail : warningCheck)(message));
  }
  const [worst] = found.toSorted((a, b) => RANK[b.status] - RANK[a.status]);
  if (!worst) return passedCheck("no sender is about to disable a hook for its errors");
  return { status: worst.status, message: found.map(({ message }) => message).join("; ") };
}
