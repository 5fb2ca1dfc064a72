import { RouseError } from "../core/errors.ts";
import { read, type AdminClient, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { shortTime } from "./text.ts";

/** A row of a list, with what tells it from the other rows. */
interface Row {
  id: string;
  at: string;
  about: string;
}

interface Kind {
  /** What its ids begin with. */
  type: string;
  one: string;
  /** Lists the newest rows of the kind. */
  newest(api: AdminClient, query: { limit: string; idPrefix?: string | undefined }): Promise<Row[]>;
}

const KINDS = {
  events: {
    type: "evt",
    one: "event",
    newest: async (api, query) =>
      (await read(api.events.$get({ query }))).events.map(({ id, receivedAt, path }) => ({
        id,
        at: receivedAt,
        about: path,
      })),
  },
  runs: {
    type: "run",
    one: "run",
    newest: async (api, query) =>
      (await read(api.runs.$get({ query }))).runs.map(({ id, createdAt, name }) => ({
        id,
        at: createdAt,
        about: name,
      })),
  },
  deliveries: {
    type: "dlv",
    one: "delivery",
    newest: async (api, query) =>
      (await read(api.deliveries.$get({ query }))).deliveries.map(({ id, createdAt, channel }) => ({
        id,
        at: createdAt,
        about: channel,
      })),
  },
} as const satisfies Record<string, Kind>;

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
  const { type, one, newest }: Kind = KINDS[kind];
  const missing = new RouseError({ code: "not_found", message: `there is no ${one} with this id` });
  if (text === "latest") {
    const [found] = await newest(api, { limit: "1" });
    if (!found) throw new RouseError({ code: "not_found", message: `there is no ${one} yet` });
    return found.id;
  }
  const [, given, rest = ""] = /^(?:([a-z]{3})_)?(.*)$/s.exec(text) ?? [];
  if (given !== undefined && given !== type)
    throw usage(
      `"${text}" is no id of ${one === "event" ? "an" : "a"} ${one}: these begin with ${type}_`,
    );
  // Ids from elsewhere may have any form: the gateway says whether it has them.
  if (rest.length >= LENGTH) return text;
  if (rest.length < MIN_PREFIX || !/^[0-9a-v]+$/.test(rest)) throw missing;
  const found = await newest(api, { idPrefix: `${type}_${rest}`, limit: String(MAX_SHOWN + 1) });
  if (!found[0]) throw missing;
  if (found.length === 1) return found[0].id;
  const candidates = found
    .slice(0, MAX_SHOWN)
    .map(({ id, at, about }) => `\n  ${id}  ${shortTime(at, Date.now())}  ${about}`);
  const more = found.length > MAX_SHOWN ? "\n  …" : "";
  throw usage(
    `several ${kind} begin with ${type}_${rest}; write more of the id:${candidates.join("")}${more}`,
  );
}
