import type { Snapshot } from "../../intake/types.ts";
import { getMaxBodyBytes } from "../../intake/body.ts";
import { getStatus } from "../../core/errors.ts";
import { findLostRequests } from "./lost-requests.ts";
import type { AdminDeps } from "../types.ts";
import { showParked, type ParkedFor } from "./activity.ts";
import type { PathRules } from "../../mapping/types.ts";
import type { EventRecord } from "../../store/types.ts";
import type { Sender } from "../../config/schema/signature.ts";
import { percent } from "../../intake/signatures/sender.ts";
import { readAll } from "../records/operation.ts";
import { iso } from "../records/views.ts";
import { plural } from "../../core/text.ts";

const DAY_MS = 86_400_000;

/** The result of a check. */
export interface Found {
  status: "ok" | "warn" | "fail";
  /** The finding, and the thing to change if it is not well. */
  message: string;
}

export type CheckView = Found & { id: string };

/** The context of a check, beside the snapshot. */
interface CheckDeps extends AdminDeps {
  /** The number of records of each kind and state. */
  counts: ReturnType<AdminDeps["store"]["counts"]>;
}

/** One check of `rouse doctor`. Gives a text if all is well. */
export type Check = (
  deps: CheckDeps,
  snapshot: Snapshot,
) => Found | string | Promise<Found | string>;

/** Checks by their ids, in the order in which they are shown. */
export type Checks = Readonly<Record<string, Check>>;

export const warn = (message: string): Found => ({ status: "warn", message });
export const fail = (message: string): Found => ({ status: "fail", message });

/** Things that a config allows and an operator may want to forbid: never an error. */
export const ADVICE: Checks = {
  "hook-token": (_deps, { config }) => {
    const { enabled, path, allowRequestSessionKey, allowRequestRecipient } = config.hooks;
    if (!enabled || !allowRequestSessionKey || !allowRequestRecipient)
      return "a holder of hooks.token cannot name both a session and a recipient";
    return warn(
      `every holder of hooks.token can continue any session of ${path}/agent (\`sessionKey\`) and choose who gets the reply (\`to\`, \`channel\`): set hooks.allowRequestSessionKey or hooks.allowRequestRecipient to false, or give each sender a path with a credential of its own`,
    );
  },
  "unsafe-content": (_deps, { mappings }) => {
    const unsafe = mappings.mappings
      .filter((mapping) => mapping.enabled && mapping.unsafe)
      .map(({ id }) => `"${id}"`);
    if (unsafe.length === 0) return "no mapping takes the boundary away from outside text";
    return warn(
      `${unsafe.join(", ")}: allowUnsafeExternalContent lets a model read what senders write as if you had written it: take it out, and put what the agent should do into \`instructions\``,
    );
  },
  "token-accounts": (_deps, { verifiers }) => {
    const open = [...verifiers]
      .filter(([, verifier]) => verifier.anyAccount)
      .map(([path]) => `"${path}"`);
    if (open.length === 0) return "no path accepts the tokens of any account of an issuer";
    return warn(
      `${open.join(", ")}: every account that the issuer signs tokens for may call (oidc.privateIssuer): set \`auth.email\` to the account of the sender`,
    );
  },
};

/** The config path of a scope's limits. */
function getLimitsPath(scope: string, mappings: readonly { id: string; at: string }[]): string {
  const [kind, ...rest] = scope.split(":");
  if (kind === "hooks") return "hooks.limits";
  const name = rest.join(":");
  const at = kind === "mapping" ? mappings.find(({ id }) => id === name)?.at : undefined;
  return at === undefined ? `hooks.presets (${name}).limits` : `${at}.limits`;
}

/** Names the limits that park runs: how many runs each, when the next may start, and which key of the config to change. */
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

/** Checks for runs that limits hold back, and says how much of each limit is used. */
export const checkLimits: Check = async (deps, snapshot) => {
  const used = await usage(deps);
  if (used.length === 0)
    return warn(
      "no hook has a limit: a sender can start as many runs as it likes, and each costs tokens; set hooks.limits, or `limits` of a mapping",
    );
  const { count, by } = await showParked(deps);
  const parked = renderParked(by, snapshot);
  if (parked.length === 0) return used.join("; ");
  const held = `${plural(count, "run is", "runs are")} parked: ${parked.join("; ")} (\`rouse runs --status parked\`)`;
  return warn([held, ...used].join("; "));
};

type Rule = NonNullable<Sender["disablesAfter"]>;

/** An answer to a path's sender. */
interface Answer {
  at: number;
  isError: boolean;
}

/** Events hold their bodies: pages are small. */
const PAGE = 20;
/** Answers that are read at most. */
const MAX_ANSWERS = 1000;
const MINUTE_MS = 60_000;

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

/** Compares the answers of a path with its sender's rule. Undefined: too few errors to report. */
async function examineAnswers(
  path: string,
  rule: Rule,
  deps: AdminDeps,
): Promise<{ errors: string; limit: string; reached: boolean } | undefined> {
  const now = deps.clock.now();
  const isShare = "failedShare" in rule;
  const from = isShare ? now - rule.withinMinutes * MINUTE_MS : undefined;
  let [errors, total, since] = [0, 0, now];
  for await (const { at, isError } of answersTo(path, deps, from)) {
    // Other rules count the errors since the last success.
    if (!isError && !isShare) break;
    if (isError) [errors, since] = [errors + 1, at];
    if (++total === MAX_ANSWERS) break;
  }
  if (errors === 0) return undefined;
  if (isShare) {
    const { failedShare, withinMinutes } = rule;
    if (errors / total < failedShare / 2) return undefined;
    return {
      errors: `${errors} of ${total} answers of the last ${plural(withinMinutes, "minute")} were errors`,
      limit: `above ${percent(failedShare)}`,
      reached: errors / total > failedShare,
    };
  }
  if ("failures" in rule)
    return {
      errors:
        errors === 1 ? "the last answer was an error" : `the last ${errors} answers were errors`,
      limit: `after ${rule.failures}`,
      reached: errors >= rule.failures,
    };
  return {
    errors: `every answer since ${iso(since)} was an error`,
    limit: `after ${plural(rule.failingHours, "hour")} of errors`,
    reached: now - since >= rule.failingHours * 60 * MINUTE_MS,
  };
}

/** Checks that no sender that disables hooks has reason to disable one of this gateway's. */
const checkSenders: Check = async (deps, { verifiers }) => {
  const found: Found[] = [];
  for (const [path, { sender }] of verifiers) {
    const problem =
      sender?.disablesAfter && (await examineAnswers(path, sender.disablesAfter, deps));
    if (!problem) continue;
    const then = problem.reached ? ": check there whether it did, and enable it again" : "";
    const message = `${path}: ${problem.errors}; ${sender.name} disables this hook ${problem.limit}${then} (\`rouse events --path ${path}\`)`;
    found.push((problem.reached ? fail : warn)(message));
  }
  if (found.length === 0) return "no sender is about to disable a hook for its errors";
  const message = found.map((one) => one.message).join("; ");
  return { status: found.some(({ status }) => status === "fail") ? "fail" : "warn", message };
};

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

/** Checks that no path takes most of its requests for repeats: senders repeat few. */
const checkRepeats: Check = async ({ store }, { mappings }) => {
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
  if (found.length === 0) return "no path takes most of its requests for repeats";
  return warn(`most requests are taken for repeats: ${found.join("; ")}`);
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

/** Requests that were refused and that their sender does not send again. */
const checkLost: Check = async (deps, snapshot) => {
  const since = deps.clock.now() - DAY_MS;
  const lost = findLostRequests(deps.denials.list(), snapshot, since).map(({ message }) => message);
  const found = [...lost, ...(await findTooLarge(deps, snapshot))];
  return found.length === 0
    ? "no request was refused that does not come again"
    : warn(found.join("; "));
};

/** The answers to senders. */
export const SENDER_CHECKS: Checks = {
  senders: checkSenders,
  repeats: checkRepeats,
  lost: checkLost,
};
