import { renderSpan, plural } from "../../core/text.ts";
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

/** Says in sentences what a sender does about errors; only what its documentation says. */
export function renderSender(sender: Sender): string[] {
  const { name, timeoutSeconds, retries, retryWindow, maxBodyBytes } = sender;
  const { disablesAfter, redelivery, docs } = sender;
  const again = {
    manual: "a failed delivery can be sent again by hand",
    api: "a failed delivery can be sent again by its API",
    automatic: "it sends a failed delivery again by itself",
  };
  return [
    timeoutSeconds === undefined
      ? []
      : `${name} waits ${plural(timeoutSeconds, "second")} for an answer.`,
    retries === undefined
      ? []
      : retries === 0
        ? `${name} does not retry.`
        : `${name} retries ${plural(retries, "time")}.`,
    retryWindow === undefined
      ? []
      : `The last retry comes at most ${renderSpan(retryWindow / 1000)} after the event.`,
    maxBodyBytes === undefined
      ? []
      : `${name} sends bodies of up to ${maxBodyBytes} bytes, which the path takes.`,
    redelivery === undefined ? [] : `At ${name}, ${again[redelivery]}.`,
    disablesAfter === undefined
      ? []
      : `${name} disables a hook after ${renderDisablesAfter(disablesAfter)}, so an event whose mapping fails is answered 200 and kept.`,
    docs === undefined ? [] : docs,
  ].flat();
}
