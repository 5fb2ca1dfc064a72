import type { Snapshot } from "../../intake/types.ts";
import { getMaxBodyBytes } from "../../intake/body.ts";
import { getStatus } from "../../core/errors.ts";
import { findLostRequests } from "./lost-requests.ts";
import type { AdminDeps } from "../types.ts";
import { showParked } from "./activity.ts";
import type { ParkedFor } from "./watch-views.ts";
import type { PathRules } from "../../mapping/types.ts";
import type { EventRecord } from "../../store/types.ts";
import type { Sender } from "../../config/schema/signature.ts";
import { percent } from "../../intake/signatures/sender.ts";
import { readAll } from "../records/operation.ts";
import { getBodiesOverdue } from "../../store/sweeper.ts";
import { plural } from "../../core/text.ts";

const DAY_MS = 86_400_000;

/** What a check has found. */
export interface Found {
  status: "ok" | "warn" | "fail";
  /** What was found, and what to change if it is not well. */
  message: string;
}

export type CheckView = Found & { id: string };

/** One check of `rouse doctor`. */
export type Check = (deps: AdminDeps, snapshot: Snapshot) => Found | Promise<Found>;

export const passedCheck = (message: string): Found => ({ status: "ok", message });
export const warningCheck = (message: string): Found => ({ status: "warn", message });
export const fail = (message: string): Found => ({ status: "fail", message });

const hookToken: Check = (_deps, { config }) => {
  const { enabled, path, allowRequestSessionKey, allowRequestRecipient } = config.hooks;
  if (!enabled || !allowRequestSessionKey || !allowRequestRecipient)
    return passedCheck("a holder of hooks.token cannot name both a session and a recipient");
  return warningCheck(
    `every holder of hooks.token can continue any session of ${path}/agent (\`sessionKey\`) and choose who gets the reply (\`to\`, \`channel\`): set hooks.allowRequestSessionKey or hooks.allowRequestRecipient to false, or give each sender a path with a credential of its own`,
  );
};

const unsafeContent: Check = (_deps, { mappings }) => {
  const unsafe = mappings.mappings
    .filter((mapping) => mapping.enabled && mapping.unsafe)
    .map(({ id }) => `"${id}"`);
  if (unsafe.length === 0)
    return passedCheck("no mapping takes the boundary away from outside text");
  return warningCheck(
    `${unsafe.join(", ")}: allowUnsafeExternalContent lets a model read what senders write as if you had written it: take it out, and put what the agent should do into \`instructions\``,
  );
};

const tokenAccounts: Check = (_deps, { verifiers }) => {
  const open = [...verifiers]
    .filter(([, verifier]) => verifier.anyAccount)
    .map(([path]) => `"${path}"`);
  if (open.length === 0)
    return passedCheck("no path accepts the tokens of any account of an issuer");
  return warningCheck(
    `${open.join(", ")}: every account that the issuer signs tokens for may call (oidc.privateIssuer): set \`auth.email\` to the account of the sender`,
  );
};

/** What a config allows and an operator may want to forbid: never an error. */
export const ADVICE: Readonly<Record<string, Check>> = {
  "hook-token": hookToken,
  "unsafe-content": unsafeContent,
  "token-accounts": tokenAccounts,
};

/** The config path of a scope's limits. */
function getLimitsPath(scope: string, mappings: readonly { id: string; at: string }[]): string {
  const [kind, ...rest] = scope.split(":");
  if (kind === "hooks") return "hooks.limits";
  const name = rest.join(":");
  const at = kind === "mapping" ? mappings.find(({ id }) => id === name)?.at : undefined;
  return at === undefined ? `hooks.presets (${name}).limits` : `${at}.limits`;
}

/** Which limits park runs: how many runs each, when the next may start, and which key of the config to change. */
function renderParked(by: readonly ParkedFor[], { mappings }: Snapshot): string[] {
  return by.flatMap(({ of, limit, count, until }) => {
    if (limit === null) return [];
    const next = until === null ? "when one ends" : `at ${until}`;
    const path = `${getLimitsPath(of, mappings.mappings)}.${limit}`;
    return `${count} by ${path}, the next may start ${next}: wait, or raise that limit`;
  });
}

async function usage(deps: AdminDeps): Promise<string[]> {
  return (await deps.admission.usage()).map(
    ({ scope, limits: { runsPerHour, concurrent, tokensPerDay, budget }, usage: used }) => {
      const parts = [
        runsPerHour === undefined ? [] : `${used.startedLastHour} of ${runsPerHour} runs this hour`,
        concurrent === undefined ? [] : `${used.running} of ${concurrent} at the same time`,
        tokensPerDay === undefined
          ? []
          : `${used.tokensLastDay} of ${tokensPerDay} tokens in a day`,
        budget === undefined
          ? []
          : `${used.costLastDay.toFixed(2)} of ${budget.perDay} USD in a day`,
      ].flat();
      return `${scope}: ${[...parts, `${used.waiting} wait`].join(", ")}`;
    },
  );
}

/** What limits hold back, and how much of each is used. */
export const limits: Check = async (deps, snapshot) => {
  const used = await usage(deps);
  if (used.length === 0)
    return warningCheck(
      "no hook has a limit: a sender can start as many runs as it likes, and each costs tokens; set hooks.limits, or `limits` of a mapping",
    );
  const { count, by } = await showParked(deps);
  const parked = renderParked(by, snapshot);
  const held =
    parked.length === 0
      ? []
      : [
          `${plural(count, "run is", "runs are")} parked: ${parked.join("; ")} (\`rouse runs --status parked\`)`,
        ];
  const text = [...held, ...used].join("; ");
  return held.length === 0 ? passedCheck(text) : warningCheck(text);
};

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
async function* answersTo(
  path: string,
  deps: AdminDeps,
  since: number | undefined,
): AsyncGenerator<Answer> {
  const refused = deps.denials
    .list()
    .filter(
      (refusal) => refusal.authenticated && refusal.path === path && refusal.at >= (since ?? 0),
    )
    .map(({ at }): Answer => ({ at, isError: true }));
  const query = since === undefined ? { path } : { path, since };
  for await (const { receivedAt: at, status, replayOf } of readAll(
    deps.store,
    "events",
    query,
    PAGE,
  )) {
    // A replay answers the operator.
    if (replayOf !== undefined) continue;
    while ((refused.at(-1)?.at ?? -1) >= at) yield refused.pop() as Answer;
    yield { at, isError: status !== undefined };
  }
  yield* refused.toReversed();
}

/** Counts the newest answers that are errors, up to the last success. */
async function countErrors(
  answers: AsyncIterable<Answer>,
): Promise<{ errors: number; since: number }> {
  let errors = 0;
  let since = 0;
  for await (const { at, isError } of answers) {
    if (!isError) break;
    since = at;
    if (++errors === MAX_ANSWERS) break;
  }
  return { errors, since };
}

const lastAnswers = (errors: number): string =>
  errors === 1 ? "the last answer was an error" : `the last ${errors} answers were errors`;

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
    return {
      errors: counted,
      limit: `above ${percent(failedShare)}`,
      reached: errors / total > failedShare,
    };
  }
  const { errors, since } = await countErrors(answersTo(path, deps, undefined));
  if (errors === 0) return undefined;
  if ("failures" in rule)
    return {
      errors: lastAnswers(errors),
      limit: `after ${rule.failures}`,
      reached: errors >= rule.failures,
    };
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
    const problem =
      sender?.disablesAfter && (await examineAnswers(path, sender.disablesAfter, deps));
    if (!problem) continue;
    const then = problem.reached ? ": check there whether it did, and enable it again" : "";
    const message = `${path}: ${problem.errors}; ${sender.name} disables this hook ${problem.limit}${then} (\`rouse events --path ${path}\`)`;
    found.push((problem.reached ? fail : warningCheck)(message));
  }
  const [worst] = found.toSorted((a, b) => RANK[b.status] - RANK[a.status]);
  if (!worst) return passedCheck("no sender is about to disable a hook for its errors");
  return { status: worst.status, message: found.map(({ message }) => message).join("; ") };
}

/** Fewer requests of a path say nothing about it. */
const MIN_REQUESTS = 4;
/** The newest events of an outcome that are looked at. */
const MAX_NEWEST = 100;
const TOO_LARGE = getStatus("body_too_large");

/** Finds the paths of the newest events of an outcome, one for each of those that count. */
async function findPaths(
  store: AdminDeps["store"],
  outcome: EventRecord["outcome"],
  counts: (event: EventRecord) => boolean,
): Promise<string[]> {
  const paths: string[] = [];
  let left = MAX_NEWEST;
  for await (const event of readAll(store, "events", { outcome }, PAGE)) {
    if (counts(event)) paths.push(event.path);
    if (--left === 0) break;
  }
  return paths;
}

/** Says where a path says how repeats are recognised: its own `duplicate`, or the `dedupeKey` of its mapping. */
function findDuplicateSetting(
  { duplicateOf, mapping }: EventRecord,
  { authAt, auth }: Pick<PathRules, "authAt" | "auth">,
): string {
  if (duplicateOf === undefined) return `the \`dedupeKey\` of the mapping "${mapping}"`;
  return auth && "scheme" in auth
    ? `${authAt}.duplicate`
    : "the idempotency key that the sender sends";
}

/** Checks whether most requests of a path are taken for repeats, though senders repeat few. */
export const checkRepeats: Check = async ({ store }, { mappings }) => {
  const found: string[] = [];
  for (const path of new Set(await findPaths(store, "duplicate", () => true))) {
    const rules = mappings.rules.get(path);
    if (!rules) continue;
    const events = await store.events.list({ path, limit: PAGE });
    const requests = events.filter(({ replayOf }) => replayOf === undefined);
    const repeats = requests.filter(({ outcome }) => outcome === "duplicate");
    const [last] = repeats;
    if (!last || requests.length < MIN_REQUESTS || repeats.length * 2 <= requests.length) continue;
    found.push(
      `"${path}": ${repeats.length} of the last ${requests.length} requests, the newest ${last.id} (${last.reason}); if they were events of their own, change ${findDuplicateSetting(last, rules)}`,
    );
  }
  if (found.length === 0) return passedCheck("no path takes most of its requests for repeats");
  return warningCheck(`most requests are taken for repeats: ${found.join("; ")}`);
};

/** Too large bodies of callers that do not sign: they are recorded. */
async function findTooLarge({ store }: AdminDeps, snapshot: Snapshot): Promise<string[]> {
  const large = await findPaths(store, "rejected", ({ status }) => status === TOO_LARGE);
  return [...Map.groupBy(large, (path) => path)].map(([path, { length }]) => {
    const setting = snapshot.mappings.rules.has(path)
      ? "`maxBodyBytes` of its mapping"
      : "hooks.maxBodyBytes";
    return `"${path}": bodies that had more than ${getMaxBodyBytes(path, snapshot)} bytes: ${length}; raise ${setting}`;
  });
}

/** Checks whether requests were refused that their sender does not send again. */
export const checkLost: Check = async (deps, snapshot) => {
  const since = deps.clock.now() - DAY_MS;
  const lost = findLostRequests(deps.denials.list(), snapshot, since).map(({ message }) => message);
  const found = [...lost, ...(await findTooLarge(deps, snapshot))];
  if (found.length === 0) return passedCheck("no request was refused that does not come again");
  return warningCheck(found.join("; "));
};

/** Whether bodies are removed when they should be. */
export const checkBodies: Check = async ({ store, clock: { now } }, { config }) => {
  const overdueMs = await getBodiesOverdue(store, now(), config.hooks.retention);
  if (overdueMs <= DAY_MS) return passedCheck("bodies are removed when hooks.retention says");
  const days = Math.floor(overdueMs / DAY_MS);
  return fail(
    `the oldest body has been kept for ${plural(days, "day")} longer than hooks.retention: old records are not removed; look in the log for "old records could not be removed", and start a gateway with workers if none runs`,
  );
};
