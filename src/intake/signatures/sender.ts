import { plural } from "../../core/text.ts";
import type { Sender } from "../../config/schema/signature.ts";

/** A share as text: `95 %`. */
const percent = (share: number): string => `${Math.round(share * 1000) / 10} %`;

/** Says when a sender disables a hook: `4 failures in a row`. */
export function renderDisablesAfter(rule: NonNullable<Sender["disablesAfter"]>): string {
  if ("failures" in rule) return `${plural(rule.failures, "failure")} in a row`;
  if ("failedShare" in rule)
    return `more than ${percent(rule.failedShare)} failures within ${plural(rule.withinMinutes, "minute")}`;
  return `${plural(rule.failingHours, "hour")} of nothing but failures`;
}
