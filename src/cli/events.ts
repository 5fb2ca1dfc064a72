import type { EventDetail, BookmarkView } from "../operate/records/views.ts";
import { read, withId, type GatewayConnection } from "./connect.ts";
import { resolveId } from "./ids.ts";

/** Returns a recorded event. `id` may be the beginning of an id, or `latest`. */
export async function fetchEvent(
  to: GatewayConnection,
  id: string,
): Promise<{ event: EventDetail; bookmark: BookmarkView | null }> {
  return read(to.api.events[":id"].$get(withId(await resolveId(to, "events", id))));
}
