import { ask } from "../../api.ts";
import { href, place } from "../../router.ts";
import { Status } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import type { ReplayView } from "./types.ts";

/** The result of a replay or of its dry run. */
export function Replayed({ result, dryRun }: { result: ReplayView; dryRun: boolean }) {
  return (
    <div class="events-result" role="status">
      <p>
        {dryRun ? "Now it would be" : "Replayed:"} <Status word={result.outcome} />
        {result.mapping ? ` by ${visibleText(result.mapping)}` : ""}
        {result.reason ? `: ${visibleText(result.reason)}` : ""}
        {result.newEventId ? (
          <>
            {" "}
            <a href={href("events", result.newEventId, place.value.query)}>Open the new event</a>
          </>
        ) : null}
      </p>
      {result.actions.map((action, index) => (
        <p key={index}>
          <b>{action.kind}</b> {visibleText(action.summary)}{" "}
          {action.id && action.kind === "run" ? (
            <a href={href("runs", action.id)}>Open the run</a>
          ) : null}
        </p>
      ))}
    </div>
  );
}

/** Sends an event again, or asks what that would do. `body` is in base64. */
export const replay = async (
  id: string,
  options: { dryRun: boolean; body?: string },
): Promise<ReplayView> =>
  (
    await ask<{ result: ReplayView }>(`/events/${encodeURIComponent(id)}/replay`, {
      method: "POST",
      body: options,
    })
  ).result;
