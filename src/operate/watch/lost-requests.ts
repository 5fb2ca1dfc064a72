import { getMaxBodyBytes, getRulesAt } from "../../intake/body.ts";
import { isLost } from "../../intake/callers.ts";
import type { Denial, Snapshot } from "../../intake/types.ts";
import type { Ms } from "../../store/types.ts";

/** Requests of one path that were refused for one reason, and that their sender does not send again. */
export type LostRequests = ReturnType<typeof findLostRequests>[number];

const REDELIVERY = {
  manual: "then send them again by hand there",
  api: "then send them again by its API",
  automatic: "",
};

/** Says which setting of a path to change so that such requests are accepted. */
function renderRemedy(path: string, reason: string, snapshot: Snapshot): string {
  const rules = snapshot.mappings.rules.get(path);
  const at = rules ? getRulesAt(rules) : path;
  if (reason === "body_too_large")
    return `the body has more than ${getMaxBodyBytes(path, snapshot)} bytes: raise ${at}.maxBodyBytes`;
  if (reason === "overloaded") return "too many large bodies were on their way at the same time";
  if (reason.endsWith("_timestamp"))
    return "the signed time is not this machine's: set the clock of this machine by NTP";
  const secret = rules?.authAt?.endsWith(".auth") ? `${rules.authAt}.secret` : `${at}.secret`;
  if (reason === "signature_not_signed")
    return `the sender does not sign them: give it the secret of ${secret}`;
  return `the signature does not fit: compare ${secret} with the sender's secret`;
}

/**
 * Finds the requests since a time that were refused and that their sender does not send again. `message` says what happened, why,
 * and which setting to change.
 */
export function findLostRequests(denials: readonly Denial[], snapshot: Snapshot, since: Ms) {
  const lost = denials.filter(
    ({ at, path, reason }) => at >= since && isLost(reason, snapshot.verifiers.get(path)),
  );
  const groups = Map.groupBy(lost, ({ path, reason }) => `${path} ${reason}`);
  return [...groups.values()].flatMap((those) => {
    const newest = those.at(-1);
    if (!newest) return [];
    const { path, reason, at: last } = newest;
    const { name = "the sender", redelivery, retries } = snapshot.verifiers.get(path)?.sender ?? {};
    const fate =
      retries === 0
        ? "they do not come again by themselves"
        : "no retry of them is accepted either";
    const again = redelivery ? REDELIVERY[redelivery] : "";
    const message = `"${path}": requests of ${name} that were refused: ${those.length}, the last at ${new Date(last).toISOString()}; ${fate}; ${[renderRemedy(path, reason, snapshot), again].filter(Boolean).join(", ")}`;
    return [{ path, reason, count: those.length, last, message }];
  });
}
