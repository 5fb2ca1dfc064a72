import { neverConnected, type OutgoingMessage, type PluginContext, type SendResult } from "#plugin";
import { toWhatsApp } from "./format.ts";
import type { WhatsAppConfig } from "./index.ts";

/** The version of the Graph API that this plugin was written for. */
export const GRAPH_VERSION = "v25.0";

const RATE_LIMITED = new Set([4, 17, 32, 613, 80007, 130429, 131048, 131056]);
const PASSING = new Set([1, 2, 131000, 131016, 131057, 133004]);
const AUTH = "the access token is not valid: make a new one for the system user and put it into channels.whatsapp.accessToken";
const PERMISSION = "the access token may not do this: give the system user whatsapp_business_messaging and the number";
/** What to do about the errors that a sender can do something about. */
const FINAL: Record<number, string> = {
  0: AUTH,
  190: AUTH,
  3: PERMISSION,
  10: PERMISSION,
  131005: PERMISSION,
  100: "a parameter was refused: check channels.whatsapp.phoneNumberId and the recipient",
  33: "there is no such phone number id: check channels.whatsapp.phoneNumberId",
  131008: "a parameter is missing",
  131009: "a parameter was refused: check the recipient",
  131021: "the recipient is the sender's own number",
  131026: "the recipient cannot get it: no WhatsApp account, or an old one",
  131030: "the recipient is not on the list of the test number: add it in the app's API setup",
  131031: "the account is locked: see the Business Support page",
  131042: "there is a problem with the payment of the account",
  131045: "the phone number is not registered: register it in the WhatsApp Manager",
  131047: "more than 24 hours have passed since the recipient last wrote: they have to write first",
  131051: "this kind of message is not supported",
  133010: "the phone number is not registered: register it in the WhatsApp Manager",
};

type Answer = { messages?: { id?: unknown }[]; error?: { code?: unknown; is_transient?: unknown } } | undefined;

/** Sends one piece by the Cloud API. */
export async function sendText(
  { config, fetch }: PluginContext<WhatsAppConfig>,
  { to, text, replyTo }: OutgoingMessage,
  signal: AbortSignal,
): Promise<SendResult> {
  if (signal.aborted) return { status: "retry", reason: "there was no time left to send" };
  const body = {
    messaging_product: "whatsapp",
    recipient_type: "individual",
    to,
    type: "text",
    // A preview would make Meta fetch what a model names.
    text: { preview_url: false, body: toWhatsApp(text) },
    ...(replyTo !== undefined && { context: { message_id: replyTo } }),
  };
  let response: Response;
  try {
    response = await fetch(`${config.apiUrl}/${GRAPH_VERSION}/${config.phoneNumberId}/messages`, {
      method: "POST",
      headers: { authorization: `Bearer ${config.accessToken}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      redirect: "manual",
      signal,
    });
  } catch (error) {
    return unanswered(error);
  }
  const answer = await readAnswer(response);
  if (!response.ok) return refused(response, answer);
  const ids = (answer?.messages ?? []).map(({ id }) => id).filter((id) => typeof id === "string");
  return ids.length > 0
    ? { status: "sent", messageIds: ids }
    : { status: "unknown", reason: `WhatsApp answered ${response.status} without the id of a message` };
}

/** Asks for the phone number itself, which needs the same token. */
export async function probe(
  { config, fetch }: PluginContext<WhatsAppConfig>,
  signal: AbortSignal,
): Promise<{ ok: true } | { ok: false; message: string }> {
  try {
    const url = `${config.apiUrl}/${GRAPH_VERSION}/${config.phoneNumberId}?fields=id`;
    const response = await fetch(url, { headers: { authorization: `Bearer ${config.accessToken}` }, redirect: "manual", signal });
    const answer = await readAnswer(response);
    if (response.ok) return { ok: true };
    const result = refused(response, answer);
    return { ok: false, message: result.status === "sent" ? "" : result.reason };
  } catch (error) {
    return { ok: false, message: `WhatsApp cannot be reached (${codeOf(error)})` };
  }
}

async function readAnswer(response: Response): Promise<Answer> {
  try {
    return (await response.json()) as Answer;
  } catch {
    return undefined;
  }
}

function unanswered(error: unknown): SendResult {
  const code = codeOf(error);
  if (neverConnected(code)) return { status: "retry", reason: `WhatsApp cannot be reached (${code})` };
  return { status: "unknown", reason: `the connection to WhatsApp ended before it answered (${code})` };
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "error";
  const { code } = (error.cause ?? error) as { code?: unknown };
  return typeof code === "string" ? code : error.name;
}

/** What an error means. Meta's own message may quote the text or the recipient: it is not repeated. */
function refused(response: Response, answer: Answer): SendResult {
  const code = typeof answer?.error?.code === "number" ? answer.error.code : undefined;
  const reason = `WhatsApp answered ${response.status}${code === undefined ? "" : `, error ${code}`}`;
  if ((code !== undefined && RATE_LIMITED.has(code)) || response.status === 429) {
    const afterMs = waitOf(response.headers);
    return { status: "retry", reason: `${reason}: too many messages`, ...(afterMs !== undefined && { afterMs }) };
  }
  const known = code === undefined ? undefined : (FINAL[code] ?? (code >= 200 && code <= 299 ? PERMISSION : undefined));
  if (known !== undefined && answer?.error?.is_transient !== true) return { status: "failed", reason: `${reason}: ${known}` };
  if (answer?.error?.is_transient === true || (code !== undefined && PASSING.has(code)) || response.status >= 500)
    return { status: "retry", reason };
  if (response.status === 401) return { status: "failed", reason: `${reason}: ${AUTH}` };
  return { status: "failed", reason };
}

/** The wait that Meta names: seconds, or minutes in the report on the use of the account. */
function waitOf(headers: Headers): number | undefined {
  const seconds = headers.get("retry-after") ?? "";
  if (/^\d{1,6}$/.test(seconds)) return Number(seconds) * 1000;
  const minutes = [...(headers.get("x-business-use-case-usage") ?? "").matchAll(/"estimated_time_to_regain_access"\s*:\s*(\d{1,6})/g)];
  const longest = Math.max(0, ...minutes.map((match) => Number(match[1])));
  return longest > 0 ? longest * 60_000 : undefined;
}
