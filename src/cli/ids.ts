import { RouseError } from "../core/errors.ts";
import type { EventDetail } from "../operate/records/views.ts";
import { unknownId } from "../vocabulary/unknown-id.ts";
import { read, withId, type AdminClient, type GatewayConnection } from "./gateway/connect.ts";
import { noSuch, usage } from "./failure.ts";
import { shortTime } from "./text.ts";

/** A record with what tells it from others. */
interface Row {
  id: string;
  at: string;
  about: string;
}

type List = (api: AdminClient, query: { limit: string; idPrefix?: string }) => Promise<Row[]>;

const listEvents: List = async ({ events }, query) =>
  (await read(events.$get({ query }))).events.map(({ id, receivedAt: at, path: about }) => ({
    id,
    at,
    about,
  }));
const listRuns: List = async ({ runs }, query) =>
  (await read(runs.$get({ query }))).runs.map(({ id, createdAt: at, name: about }) => ({
    id,
    at,
    about,
  }));
const listDeliveries: List = async ({ deliveries }, query) =>
  (await read(deliveries.$get({ query }))).deliveries.map(
    ({ id, createdAt: at, channel: about }) => ({ id, at, about }),
  );

/** The kinds of records: what their ids begin with, the word for one, and the list of the newest. */
const KINDS = {
  events: { type: "evt", name: "event", list: listEvents },
  runs: { type: "run", name: "run", list: listRuns },
  deliveries: { type: "dlv", name: "delivery", list: listDeliveries },
} as const;

/** Characters of a whole id after its type. */
const LENGTH = 35;
const MIN_PREFIX = 4;
const MAX_SHOWN = 5;

/**
 * Returns the id that is meant: a whole one, the beginning of one alone, or `latest`.
 * @throws RouseError `not_found`, or `usage` with the candidates if several begin so.
 */
export async function resolveId(
  { api }: GatewayConnection,
  kind: keyof typeof KINDS,
  text: string,
): Promise<string> {
  const { type, name, list } = KINDS[kind];
  if (text === "latest") {
    const [found] = await list(api, { limit: "1" });
    if (!found) throw noSuch(`there is no ${name} yet`);
    return found.id;
  }
  // Around a whole id may stand what it was pasted with: quotes, a comma, the address of a receipt.
  const [whole] = new RegExp(`\\b${type}_[0-9a-v]{${LENGTH}}\\b`).exec(text) ?? [];
  if (whole !== undefined) return whole;
  const [, given, rest = ""] = /^(?:([a-z]{3})_)?(.*)$/s.exec(text) ?? [];
  if (given !== undefined && given !== type)
    throw usage(
      `"${text}" is no id of ${name === "event" ? "an" : "a"} ${name}: these begin with ${type}_`,
    );
  // Ids from elsewhere may have any form: the gateway says whether it has them.
  if (rest.length >= LENGTH) return text;
  if (rest.length < MIN_PREFIX || !/^[0-9a-v]+$/.test(rest))
    throw new RouseError(unknownId(name, text));
  const query = { idPrefix: `${type}_${rest}`, limit: String(MAX_SHOWN + 1) };
  const found = await list(api, query);
  if (!found[0]) throw new RouseError(unknownId(name, text));
  if (found.length === 1) return found[0].id;
  const candidates = found
    .slice(0, MAX_SHOWN)
    .map(({ id, at, about }) => `\n  ${id}  ${shortTime(at, Date.now())}  ${about}`);
  const more = found.length > MAX_SHOWN ? "\n  …" : "";
  throw usage(
    `several ${kind} begin with ${type}_${rest}; write more of the id:${candidates.join("")}${more}`,
  );
}

/** Returns a recorded event. `id` may be the beginning of an id, or `latest`. */
export async function fetchEvent(
  to: GatewayConnection,
  id: string,
): Promise<{ event: EventDetail }> {
  return read(to.api.events[":id"].$get(withId(await resolveId(to, "events", id))));
}
