import type { Snapshot } from "../../intake/types.ts";
import { findLostRequests } from "./lost-requests.ts";
import type { AdminDeps } from "../types.ts";
import { showParked, type ParkedFor } from "./activity.ts";
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

/** Checks for requests that were refused and that their sender does not send again. */
export const checkLost: Check = (deps, snapshot) => {
  const since = deps.clock.now() - DAY_MS;
  const lost = findLostRequests(deps.denials.list(), snapshot, since);
  return lost.length === 0
    ? "no request was refused that does not come again"
    : warn(lost.map(({ message }) => message).join("; "));
};
