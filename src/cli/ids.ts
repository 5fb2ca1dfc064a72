import type { BookmarkView, EventDetail } from "../operate/records/views.ts";
import { RouseError } from "../core/errors.ts";
import { read, withId, type AdminClient, type GatewayConnection } from "./gateway/connect.ts";
import { usage } from "./failure.ts";
import { shortTime } from "./text.ts";

/** What ids of records begin with. */
const TYPES = { events: "evt", runs: "run", deliveries: "dlv" } as const;
const NAMES = { events: "event", runs: "run", deliveries: "delivery" } as const;

/** The newest rows of a kind, each with what tells it from the other rows. */
async function listNewest(
  api: AdminClient,
  kind: keyof typeof TYPES,
  query: { limit: string; idPrefix?: string },
): Promise<{ id: string; at: string; about: string }[]> {
  if (kind === "events")
    return (await read(api.events.$get({ query }))).events.map(({ id, receivedAt, path }) => ({
      id,
      at: receivedAt,
      about: path,
    }));
  const rows =
    kind === "runs"
      ? (await read(api.runs.$get({ query }))).runs
      : (await read(api.deliveries.$get({ query }))).deliveries;
  return rows.map((row) => ({
    id: row.id,
    at: row.createdAt,
    about: "channel" in row ? row.channel : row.name,
  }));
}

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
  kind: keyof typeof TYPES,
  text: string,
): Promise<string> {
  const [type, name] = [TYPES[kind], NAMES[kind]];
  const missing = (what = "yet"): RouseError =>
    new RouseError({ code: "not_found", message: `there is no ${name} ${what}` });
  if (text === "latest") {
    const [found] = await listNewest(api, kind, { limit: "1" });
    if (!found) throw missing();
    return found.id;
  }
  const [, given, rest = ""] = /^(?:([a-z]{3})_)?(.*)$/s.exec(text) ?? [];
  if (given !== undefined && given !== type)
    throw usage(
      `"${text}" is no id of ${name === "event" ? "an" : "a"} ${name}: these begin with ${type}_`,
    );
  // Ids from elsewhere may have any form: the gateway says whether it has them.
  if (rest.length >= LENGTH) return text;
  if (rest.length < MIN_PREFIX || !/^[0-9a-v]+$/.test(rest))
    throw missing(`"${text}"; \`rouse ${kind}\` lists them`);
  const query = { idPrefix: `${type}_${rest}`, limit: String(MAX_SHOWN + 1) };
  const found = await listNewest(api, kind, query);
  if (!found[0]) throw missing(`"${text}"; \`rouse ${kind}\` lists them`);
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
): Promise<{ event: EventDetail; bookmark: BookmarkView | null }> {
  return read(to.api.events[":id"].$get(withId(await resolveId(to, "events", id))));
}
