import type { EventDetail, RunDetail } from "../admin/views.ts";
import { WITHOUT_MAPPINGS } from "../intake/authenticate.ts";
import type { WrittenRun } from "../workbench/recorded-run.ts";
import { getCutResults, recordRun } from "../workbench/run-record.ts";
import { read, withId, type GatewayConnection } from "./connect.ts";
import { resolveId } from "./ids.ts";

/** A recorded run, and the event whose request asks for it; undefined if the run's prompt has to. */
export interface FetchedRun {
  run: WrittenRun;
  createdAt: string;
  mapping: string | null;
  event: EventDetail | undefined;
}

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
 * Reads a run that has ended with all that a case needs of it.
 * @throws RouseError `not_found`, or `usage` if it has not ended.
 */
export async function fetchRun(to: GatewayConnection, id: string): Promise<FetchedRun> {
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
  return {
    run: recordRun({ run, steps, results }, event !== undefined, count > 1 ? action : undefined),
    createdAt: run.createdAt,
    mapping: run.mapping,
    event,
  };
}
