import { neverConnected, type OutgoingMessage, type PluginContext, type SendResult } from "#plugin";
import { toTeams } from "./format.ts";
import type { TeamsConfig } from "./index.ts";
import type { References } from "./references.ts";
import { TokenError, waitOf, type Tokens } from "./token.ts";

const PASSING = new Set([412, 429]);
const BLOCKED = "the bot is not in this conversation, or is blocked: install the app there";
const UNKNOWN_CONVERSATION = "there is no such conversation: the id is wrong, or the app was taken out";
/** What to do about the errors that the Connector names. */
const FINAL: Record<string, string> = {
  BotNotInConversationRoster: BLOCKED,
  BotDisabledByAdmin: "an administrator has disabled the bot: allow the app in the Teams admin center",
  ConversationBlockedByUser: "the user has blocked the bot",
  ForbiddenOperationException: BLOCKED,
  NotEnoughPermissions: "the bot may not write here: install the app there, with its permissions",
  ConversationNotFound: UNKNOWN_CONVERSATION,
  MessageSizeTooBig: "the message is too long for Teams",
  BadSyntax: "the recipient's id is malformed",
};

/** How a request ended: its answer, or what `send` says instead. */
type Outcome = { ok: true; id: string | undefined } | { ok: false; result: SendResult };

/** The bytes that a text takes in an activity, once it is in Teams' dialect. */
export function bytesOf(text: string): number {
  return Buffer.byteLength(JSON.stringify(toTeams(text))) - 2;
}

/** Sends pieces by the Bot Connector. */
export function createSender({ config, fetch }: PluginContext<TeamsConfig>, tokens: Tokens, references: References) {
  const post = async (url: string, body: unknown, signal: AbortSignal): Promise<Outcome> => {
    for (let again = false; ; again = true) {
      let token: string;
      try {
        token = await tokens.get(signal);
      } catch (error) {
        return { ok: false, result: withoutToken(error) };
      }
      let response: Response;
      try {
        response = await fetch(url, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          body: JSON.stringify(body),
          // The token would go along to wherever a redirect leads.
          redirect: "manual",
          signal,
        });
      } catch (error) {
        return { ok: false, result: unanswered(error) };
      }
      const answer = (await response.json().catch(() => undefined)) as { id?: unknown; error?: { code?: unknown } } | undefined;
      if (response.ok) return { ok: true, id: typeof answer?.id === "string" ? answer.id : undefined };
      if (response.status !== 401 || again) return { ok: false, result: refused(response, answer?.error?.code) };
      tokens.forget(token);
    }
  };

  /** The conversation that a recipient means; one with a user is asked for, which gives the same each time. */
  const open = async (to: string, signal: AbortSignal): Promise<{ serviceUrl: string; id: string } | SendResult> => {
    const known = await references.find(to);
    if (!to.startsWith("user:")) return { serviceUrl: known?.serviceUrl ?? config.serviceUrl, id: to };
    if (known) return { serviceUrl: known.serviceUrl, id: known.conversation };
    const { serviceUrl, tenantId } = config;
    if (tenantId === "botframework.com")
      return { status: "failed", reason: "this user has not written yet: set channels.msteams.tenantId, so that the bot can begin" };
    const bot = `28:${config.appId}`;
    const user = to.slice("user:".length);
    const created = await post(
      `${base(serviceUrl)}/v3/conversations`,
      { isGroup: false, bot: { id: bot }, members: [{ id: user }], tenantId, channelData: { tenant: { id: tenantId } } },
      signal,
    );
    if (!created.ok) {
      // Opening a conversation says nothing to anybody: it may be done again.
      const { result } = created;
      return result.status === "unknown" ? { ...result, status: "retry" } : result;
    }
    if (created.id === undefined) return { status: "failed", reason: "Teams opened no conversation with this user" };
    await references.keep([to, created.id], { serviceUrl, conversation: created.id, bot, tenant: tenantId, user });
    return { serviceUrl, id: created.id };
  };

  return async ({ to, text, thread, replyTo }: OutgoingMessage, signal: AbortSignal): Promise<SendResult> => {
    const conversation = await open(to, signal);
    if ("status" in conversation) return conversation;
    const id = thread === undefined ? conversation.id : `${conversation.id};messageid=${thread}`;
    const activity = {
      type: "message",
      text: toTeams(text),
      textFormat: "markdown",
      ...(replyTo !== undefined && { replyToId: replyTo }),
    };
    const sent = await post(`${base(conversation.serviceUrl)}/v3/conversations/${encodeURIComponent(id)}/activities`, activity, signal);
    if (!sent.ok) return sent.result;
    return { status: "sent", ...(sent.id !== undefined && { messageIds: [sent.id] }) };
  };
}

function base(serviceUrl: string): string {
  return serviceUrl.replace(/\/+$/, "");
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "error";
  const { code } = (error.cause ?? error) as { code?: unknown };
  return typeof code === "string" ? code : error.name;
}

/** Nothing was sent yet, so it may be tried again. */
function withoutToken(error: unknown): SendResult {
  if (!(error instanceof TokenError)) return { status: "retry", reason: `Microsoft's sign-in cannot be reached (${codeOf(error)})` };
  if (error.final) return { status: "failed", reason: error.message };
  return { status: "retry", reason: error.message, ...(error.afterMs !== undefined && { afterMs: error.afterMs }) };
}

function unanswered(error: unknown): SendResult {
  const code = codeOf(error);
  if (neverConnected(code)) return { status: "retry", reason: `Teams cannot be reached (${code})` };
  return { status: "unknown", reason: `the connection to Teams ended before it answered (${code})` };
}

/** What a refusal means. The Connector's own message may quote what was sent: it is not repeated. */
function refused({ status, headers }: Response, code: unknown): SendResult {
  const name = typeof code === "string" && /^\w{1,60}$/.test(code) ? code : undefined;
  const reason = `Teams answered ${status}${name === undefined ? "" : `, ${name}`}`;
  if (PASSING.has(status) || status >= 500) {
    const afterMs = waitOf(headers);
    return { status: "retry", reason, ...(afterMs !== undefined && { afterMs }) };
  }
  const byStatus: Record<number, string> = {
    401: "it does not accept the bot's token: check channels.msteams.appId and tenantId, and that the bot has the Teams channel",
    403: BLOCKED,
    404: UNKNOWN_CONVERSATION,
    413: "the message is too long for Teams",
  };
  const known = (name === undefined ? undefined : FINAL[name]) ?? byStatus[status];
  return { status: "failed", reason: known === undefined ? reason : `${reason}: ${known}` };
}
