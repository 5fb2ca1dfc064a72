import { RouseError } from "../core/errors.ts";
import type { Connection } from "./connect.ts";
import { usage } from "./failure.ts";
import { shortTime } from "./text.ts";

type Kind = "events" | "runs" | "deliveries";

const KINDS: Record<Kind, { type: string; one: string }> = {
  events: { type: "evt", one: "event" },
  runs: { type: "run", one: "run" },
  deliveries: { type: "dlv", one: "delivery" },
};
/** Characters of a whole id after its type. */
const LENGTH = 35;
const MIN_PREFIX = 4;
const MAX_SHOWN = 5;

/** The newest rows of a kind whose ids begin so, each with what tells it from the others. */
async function newest(to: Connection, kind: Kind, parameters: string): Promise<{ id: string; about: string }[]> {
  const about = (at: string, what: string): string => `${shortTime(at, Date.now())}  ${what}`;
  switch (kind) {
    case "events": {
      const { events } = await to.request("events", "GET", `events?${parameters}`);
      return events.map(({ id, receivedAt, path }) => ({ id, about: about(receivedAt, path) }));
    }
    case "runs": {
      const { runs } = await to.request("runs", "GET", `runs?${parameters}`);
      return runs.map(({ id, createdAt, name }) => ({ id, about: about(createdAt, name) }));
    }
    case "deliveries": {
      const { deliveries } = await to.request("deliveries", "GET", `deliveries?${parameters}`);
      return deliveries.map(({ id, createdAt, channel }) => ({ id, about: about(createdAt, channel) }));
    }
  }
}

/**
 * Returns the id that is meant: a whole one, the beginning of one alone, or `latest`; fit for a path.
 * @throws RouseError `not_found`, or `usage` with the candidates if several begin so.
 */
export async function resolveId(to: Connection, kind: Kind, text: string): Promise<string> {
  const { type, one } = KINDS[kind];
  const missing = new RouseError({ code: "not_found", message: `there is no ${one} with this id` });
  if (text === "latest") {
    const [found] = await newest(to, kind, "limit=1");
    if (!found) throw new RouseError({ code: "not_found", message: `there is no ${one} yet` });
    return found.id;
  }
  const [, given, rest = ""] = /^(?:([a-z]{3})_)?(.*)$/s.exec(text) ?? [];
  if (given !== undefined && given !== type)
    throw usage(`"${text}" is no id of ${one === "event" ? "an" : "a"} ${one}: these begin with ${type}_`);
  // Ids from elsewhere may have any form: the gateway says whether it has them.
  if (rest.length >= LENGTH) return encodeURIComponent(text);
  if (rest.length < MIN_PREFIX || !/^[0-9a-v]+$/.test(rest)) throw missing;
  const found = await newest(to, kind, `idPrefix=${type}_${rest}&limit=${MAX_SHOWN + 1}`);
  if (!found[0]) throw missing;
  if (found.length === 1) return found[0].id;
  const candidates = found.slice(0, MAX_SHOWN).map(({ id, about }) => `\n  ${id}  ${about}`);
  const more = found.length > MAX_SHOWN ? "\n  …" : "";
  throw usage(`several ${kind} begin with ${type}_${rest}; write more of the id:${candidates.join("")}${more}`);
}
