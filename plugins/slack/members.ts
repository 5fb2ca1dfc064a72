import { classifyError, renderMention, sleep } from "#channel-kit";
import type { ReceivedMessage } from "#plugin";
import { createClient, VENDOR, type SlackContext } from "./send.ts";

/** A message waits so long for what Slack knows of people. An answer that comes later counts for the next message. */
const WAIT_MS = 1_000;
const REQUEST_MS = 5_000;
/** The time for which a person stays known. */
const KNOWN_MS = 6 * 3_600_000;
/** After a failed request none is made; a scope that the app lacks is not there soon. */
const PAUSE_MS = 60_000;
const NO_SCOPE_PAUSE_MS = 3_600_000;
const MAX_KNOWN = 5_000;
/** The people who are mentioned by their ids; so many of them get names. */
const MENTION = /(?<![\w.])@([UW][A-Z0-9]{2,30})\b/g;
const MAX_NAMED = 20;

interface Person {
  language?: string | undefined;
  name?: string | undefined;
}

export type Members = ReturnType<typeof createMembers>;

/** Finds what Slack knows of people, as far as the app may read them (`users:read`). Never fails, and takes a second at most. */
export function createMembers(context: SlackContext) {
  const connect = createClient(context);
  const known = new Map<string, { person: Promise<Person | undefined>; until: number }>();
  let pausedUntil = 0;
  const ask = async (user: string): Promise<Person | undefined> => {
    try {
      const client = await connect(AbortSignal.timeout(REQUEST_MS));
      const found = (await client.users.info({ user, include_locale: true })).user;
      const { display_name: shown, real_name: real } = found?.profile ?? {};
      return { language: found?.locale, name: shown || real || found?.real_name || found?.name };
    } catch (error) {
      const { reason } = classifyError(VENDOR, error);
      // The vendor has answered: it does not show this person.
      if (/ user_\w+$/.test(reason)) return undefined;
      pausedUntil =
        context.clock.now() + (reason.endsWith(" missing_scope") ? NO_SCOPE_PAUSE_MS : PAUSE_MS);
      known.delete(user);
      return undefined;
    }
  };
  const find = async (user: string): Promise<Person | undefined> => {
    const now = context.clock.now();
    let found = known.get(user);
    if (!found || found.until <= now) {
      if (now < pausedUntil) return undefined;
      found = { person: ask(user), until: now + KNOWN_MS };
      known.delete(user);
      known.set(user, found);
      for (const oldest of known.keys()) {
        if (known.size <= MAX_KNOWN) break;
        known.delete(oldest);
      }
    }
    const waiting = new AbortController();
    const late = sleep(WAIT_MS, waiting.signal).then(() => undefined);
    const person = await Promise.race([found.person, late]);
    waiting.abort();
    return person;
  };
  /** Parts of a message, with names in place of the ids of people who are mentioned. */
  const name = async <P extends { text?: string | null | undefined }>(
    parts: readonly P[],
  ): Promise<P[]> => {
    const ids = parts.flatMap(({ text }) =>
      [...(text ?? "").matchAll(MENTION)].map(([, id]) => id),
    );
    const asked = [...new Set(ids)].slice(0, MAX_NAMED);
    const found = await Promise.all(
      asked.map(async (id = "") => [id, (await find(id))?.name] as const),
    );
    const names = new Map(found);
    const rename = (text: string): string =>
      text.replace(MENTION, (_, id: string) => renderMention(names.get(id), id));
    return parts.map((part) => (part.text ? { ...part, text: rename(part.text) } : part));
  };
  return {
    find,
    name,
    /** A message with the language of its author, and with names. */
    async complete(message: ReceivedMessage): Promise<ReceivedMessage> {
      if ("skipped" in message) return message;
      const [author, parts] = await Promise.all([find(message.from), name(message.parts)]);
      return {
        ...message,
        parts,
        ...(author?.language !== undefined && { language: author.language }),
      };
    },
  };
}
