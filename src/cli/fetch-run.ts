import type { EventDetail, RunDetail } from "../admin/views.ts";
import { WITHOUT_MAPPINGS } from "../intake/authenticate.ts";
import type { Freezable, RecordedAgentRun } from "../workbench/freeze.ts";
import { getCutResults, recordRun } from "../workbench/run-record.ts";
import { read, withId, type GatewayConnection } from "./connect.ts";
import { resolveId } from "./ids.ts";

/** The event whose request leads to the run: not if several events do, no mapping decides, or its body is no longer kept. */
async function findEvent(
  to: GatewayConnection,
  { eventId, collected, mapping }: RunDetail,
): Promise<EventDetail | undefined> {
  if (eventId === null || collected !== null || mapping === null) return undefined;
  const { event } = await read(to.api.events[":id"].$get(withId(eventId)));
  const {
    path,
    request: { body },
  } = event;
  return body === null || WITHOUT_MAPPINGS.has(path) ? undefined : event;
}

/**
 * Reads a run that has ended with all that a fixture needs of it.
 * @throws RouseError `not_found`, or `usage` if it has not ended.
 */
export async function fetchRun(
  to: GatewayConnection,
  id: string,
): Promise<Freezable & { recorded: RecordedAgentRun }> {
  const found = withId(await resolveId(to, "runs", id));
  const { runs } = to.api;
  const [{ run }, { steps }] = await Promise.all([
    read(runs[":id"].$get(found)),
    read(runs[":id"].steps.$get(found)),
  ]);
  const results = new Map<string, string>();
  for (const result of getCutResults(steps)) {
    const answer = await read(
      runs[":id"].results[":result"].$get({
        param: { ...found.param, result: encodeURIComponent(result) },
      }),
    );
    results.set(result, answer.result.text);
  }
  const event = await findEvent(to, run);
  const action = event?.actions.findIndex((one) => one.id === run.id);
  const count = event?.actions.length ?? 0;
  const { createdAt, mapping } = run;
  const recording = { run, steps, results };
  const recorded = recordRun(recording, event !== undefined, count > 1 ? action : undefined);
  return { event, recorded: { run: recorded, createdAt, mapping } };
}
