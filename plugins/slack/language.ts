import { classifyError, sleep } from "#channel-kit";
import type { ReceivedMessage } from "#plugin";
import { createClient, VENDOR, type SlackContext } from "./send.ts";

/** A message waits so long for the language of its author. An answer that comes later counts for the next message. */
const WAIT_MS = 1_000;
const REQUEST_MS = 5_000;
/** How long a person's language stays known. */
const KNOWN_MS = 6 * 3_600_000;
/** After a failed request no language is asked for; a scope that the app lacks is not there soon. */
const PAUSE_MS = 60_000;
const NO_SCOPE_PAUSE_MS = 3_600_000;
const MAX_KNOWN = 5_000;

/** Finds the languages of people, as far as the app may read them (`users:read`). Never fails, and takes a second at most. */
export interface Languages {
  find(user: string): Promise<string | undefined>;
  /** A message with the language of its author. */
  add(message: ReceivedMessage): Promise<ReceivedMessage>;
}

/** Creates the languages of the people in a workspace. */
export function createLanguages(context: SlackContext): Languages {
  const connect = createClient(context);
  const known = new Map<string, { language: Promise<string | undefined>; until: number }>();
  let pausedUntil = 0;
  const ask = async (user: string): Promise<string | undefined> => {
    try {
      const client = await connect(AbortSignal.timeout(REQUEST_MS));
      return (await client.users.info({ user, include_locale: true })).user?.locale;
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
  const find = async (user: string): Promise<string | undefined> => {
    const now = context.clock.now();
    let found = known.get(user);
    if (!found || found.until <= now) {
      if (now < pausedUntil) return undefined;
      found = { language: ask(user), until: now + KNOWN_MS };
      known.delete(user);
      known.set(user, found);
      for (const oldest of known.keys()) {
        if (known.size <= MAX_KNOWN) break;
        known.delete(oldest);
      }
    }
    const waiting = new AbortController();
    const late = sleep(WAIT_MS, waiting.signal).then(() => undefined);
    const language = await Promise.race([found.language, late]);
    waiting.abort();
    return language;
  };
  return {
    find,
    async add(message) {
      if ("skipped" in message) return message;
      const language = await find(message.from);
      return language === undefined ? message : { ...message, language };
    },
  };
}
