import type { Context } from "hono";
import type { ApiKey } from "../../chat/api-keys.ts";
import { badRequest } from "./problems.ts";

interface SessionFields {
  session_id?: string | number | null | undefined;
  conversation_id?: string | number | null | undefined;
  metadata?: Record<string, unknown> | null | undefined;
  user?: string | null | undefined;
}

/** The name of a session, as a request gave it. */
export interface NamedSession {
  id: string;
  /** The field that it came in, if a newer one has taken its place. */
  deprecated?: string;
}

const MAX_NAME = 200;
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

const toName = (value: unknown): string | undefined =>
  (typeof value === "string" && value !== "") || typeof value === "number"
    ? String(value)
    : undefined;

/**
 * Returns the session that a request names, by the first field that does. Headers that front ends add to all of their
 * requests name none: a request for a title would join the conversation.
 * @throws ProblemError if the name is too long, or has control characters.
 */
export function getSessionName(
  c: Context,
  body: SessionFields,
  key: ApiKey,
): NamedSession | undefined {
  const { metadata } = body;
  const candidates: [field: string, value: unknown, isDeprecated?: true][] = [
    ["x-session-id", c.req.header("x-session-id")],
    ["session_id", body.session_id],
    ["conversation_id", body.conversation_id, true],
    ["metadata.session_id", metadata?.["session_id"]],
    ["metadata.conversation_id", metadata?.["conversation_id"], true],
    // Some front ends put an account's id there: all of its conversations would be one.
    ["user", key.userAsSession ? body.user : undefined],
  ];
  for (const [field, value, isDeprecated] of candidates) {
    const id = toName(value);
    if (id === undefined) continue;
    if (id.length > MAX_NAME || CONTROL.test(id))
      throw badRequest(
        field,
        `${field}: use at most ${MAX_NAME} characters, and no control characters`,
      );
    return isDeprecated ? { id, deprecated: field } : { id };
  }
  return undefined;
}

/** Returns the warning of a run whose session was named by a deprecated field. */
export function toSessionWarnings(session: NamedSession | undefined): string[] {
  const { deprecated } = session ?? {};
  if (deprecated === undefined) return [];
  const named = deprecated.replace("conversation_id", "session_id");
  return [`the field ${deprecated} names the session and is deprecated: send ${named}`];
}

/** A session's name as a header can carry it. */
export function toHeaderText(name: string): string {
  return /^[\x21-\x7e]+$/.test(name) ? name : encodeURIComponent(name);
}

/** Headers by which front ends name their chats and messages. */
const CORRELATION_HEADERS = ["x-openwebui-chat-id", "x-openwebui-message-id", "x-conversation-id"];

/** Returns the ids that a front end gave its chat and message, for the run's record and its trace. */
export function getCorrelation(c: Context): Record<string, string> | undefined {
  const found = CORRELATION_HEADERS.flatMap((name) => {
    const value = c.req.header(name);
    return value === undefined || value === "" || value.length > MAX_NAME || CONTROL.test(value)
      ? []
      : [[name, value] as const];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}
