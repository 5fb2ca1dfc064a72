/** A first mapping file for a sender, from one event that it has sent: to be read and changed, not to be kept as it is. */
export interface PresetDraft {
  id: string;
  version: 1;
  description: string;
  mappings: {
    id: string;
    match: { path: string; payload: Record<string, unknown> };
    /** A draft does nothing and takes no event from the mappings after it. */
    shadow: true;
    continue: true;
    name: string;
    sessionKey?: string;
    messageTemplate: string[];
  }[];
}

interface Field {
  path: string;
  value: string | number | boolean;
}

const MAX_FIELDS = 12;
const MAX_DEPTH = 4;
const PLAIN_KEY = /^[A-Za-z_][\w-]*$/;
/** Fields that tell kinds of events apart, the most telling first. */
const KINDS = ["type", "event", "event_type", "eventType", "action", "kind", "webhookEvent", "status"];
/** Fields that name what the event is about. */
const IDS = /(?:^|\.)(?:id|key|uuid|number|identifier)$/i;

function getFields(value: unknown, prefix: string, depth: number): Field[] {
  if (typeof value !== "object" || value === null || Array.isArray(value) || depth > MAX_DEPTH) return [];
  const entries = Object.entries(value).filter(([key]) => PLAIN_KEY.test(key) && key !== "__proto__");
  const own = entries.flatMap(([key, member]): Field[] =>
    typeof member === "string" || typeof member === "number" || typeof member === "boolean" ? [{ path: prefix + key, value: member }] : [],
  );
  // What is near the root comes first.
  return [...own, ...entries.flatMap(([key, member]) => getFields(member, `${prefix}${key}.`, depth + 1))];
}

/**
 * Drafts a mapping file: a match on the field that tells the kind of event, a session key on the first id, and a message
 * of the shortest fields. `payload` is the event's body.
 */
export function draftPreset(name: string, path: string, payload: unknown): PresetDraft {
  const fields = getFields(payload, "", 0);
  const kind = KINDS.flatMap((wanted) =>
    fields.filter((field) => field.path.split(".").at(-1) === wanted && typeof field.value === "string"),
  )[0];
  const id = fields.find((field) => IDS.test(field.path));
  const told = fields.filter((field) => field !== kind && String(field.value).length <= 2000).slice(0, MAX_FIELDS);
  const lines = told.map((field) => `${field.path}: {{${field.path}}}`);
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  return {
    id: name,
    version: 1,
    description: `Drafted from one recorded event of ${name}. Keep the fields that matter, say in words what happened, then remove shadow and continue.`,
    mappings: [
      {
        id: `${name}.event`,
        match: { path, payload: kind ? { [kind.path]: kind.value } : {} },
        shadow: true,
        continue: true,
        name: kind ? `${title}: {{${kind.path}}}` : title,
        ...(id ? { sessionKey: `hook:${name}:{{${id.path}}}` } : {}),
        messageTemplate: [kind ? `${title} sent {{${kind.path}}}.` : `${title} sent an event.`, ...lines],
      },
    ],
  };
}
