import { renderSpan } from "../../core/text.ts";
import type { Logger } from "../../core/log.ts";
import { createReporter } from "../../gateway/library.ts";
import type { ResourceOptions } from "../../gateway/resources.ts";
import { renderAnswer } from "../../http/hooks.ts";

const took = (from: string | null, to: string | null): string =>
  from === null || to === null ? "" : ` ${renderSpan((Date.parse(to) - Date.parse(from)) / 1000)}`;

/** Logs what became of each hook, run and delivery in a line for people. */
export function showWork(log: Logger): Pick<ResourceOptions, "reporter" | "recorded"> {
  const reporter = createReporter((event, err) => log.warn({ event, err }, "a line was lost"));
  const write = (isGood: boolean, text: string): void => log[isGood ? "info" : "warn"](text);
  reporter.on("run.ended", ({ id, kind, status, error, startedAt, endedAt }) => {
    const what = kind === "hook" ? "" : `${kind} `;
    const why = error ? `: ${error.code}: ${error.message}` : "";
    write(status === "succeeded", `${id} ${what}${status}${took(startedAt, endedAt)}${why}`);
  });
  reporter.on("delivery.ended", ({ runId, channel, status, error, createdAt, endedAt }) => {
    const isDone = status === "delivered";
    const why = error ? `: ${error.message}` : "";
    const end = `${isDone ? "" : ` ${status}`}${took(createdAt, endedAt)}`;
    write(isDone, `${runId} → ${channel}${end}${why}`);
  });
  const recorded: ResourceOptions["recorded"] = ({ path, origin, input }, receipt) => {
    const { outcome, mapping, actions, eventId, repeats, error } = receipt;
    const { status } = renderAnswer(receipt);
    // A request that was rejected has its own line.
    if (status >= 400 && outcome !== "failed") return;
    const ids = actions.map((one) => (one.ok ? (one.runId ?? one.systemEventId) : one.error.code));
    const head = origin.kind === "http" ? [input.method, path, status] : [path];
    const why = error
      ? `${error.code}: ${error.message}`
      : repeats
        ? `duplicate of ${repeats.eventId}`
        : outcome;
    const end = ids.length > 0 ? `→ ${ids.join(", ")}` : `${why} (${eventId})`;
    write(!error, [...head, mapping ?? [], end].flat().join(" "));
  };
  return { reporter, recorded };
}
