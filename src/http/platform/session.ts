import type { Context } from "hono";
import type { ApiKey } from "../../chat/api-keys.ts";
import { badRequest, type Result } from "./problems.ts";

interface SessionFields {
  session_id?: string | number | null | undefined;
  conversation_id?: string | number | null | undefined;
  metadata?: Record<string, unknown> | null | undefined;
  user?: string | null | undefined;
}

const MAX_NAME = 200;
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

const named = (value: unknown): string | undefined =>
  (typeof value === "string" && value !== "") || typeof value === "number" ? String(value) : undefined;

/** The session that a request names, by the first field that does. */
export function getSessionName(c: Context, body: SessionFields, key: ApiKey): Result<string | undefined> {
  const { metadata } = body;
  const candidates: [string, unknown][] = [
    ["x-session-id", c.req.header("x-session-id")],
    ["session_id", body.session_id],
    ["conversation_id", body.conversation_id],
    ["metadata.session_id", metadata?.["session_id"]],
    ["metadata.conversation_id", metadata?.["conversation_id"]],
    ["x-conversation-id", c.req.header("x-conversation-id")],
    ["x-openwebui-chat-id", c.req.header("x-openwebui-chat-id")],
    // Some front ends put an account's id there: all of its conversations would be one.
    ["user", key.userAsSession ? body.user : undefined],
  ];
  for (const [param, value] of candidates) {
    const name = named(value);
    if (name === undefined) continue;
    if (name.length > MAX_NAME || CONTROL.test(name))
      return { ok: false, problem: badRequest(param, `${param}: use at most ${MAX_NAME} characters, and no control characters`) };
    return { ok: true, value: name };
  }
  return { ok: true, value: undefined };
}

/** A session's name as a header can carry it. */
export function headerText(name: string): string {
  return /^[\x21-\x7e]+$/.test(name) ? name : encodeURIComponent(name);
}
