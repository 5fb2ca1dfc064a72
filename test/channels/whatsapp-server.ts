import { createHmac } from "node:crypto";
import { bytesAnswer, createShelf } from "./shelf.ts";
import type { Fault } from "../../src/testing/channel.ts";
import { createFaults, failing, json, serve, type Answer, type Call } from "./wire.ts";
import { createTypingLog, keepSign } from "./typing-log.ts";

export const PHONE_NUMBER_ID = "106540352242922";
export const ACCESS_TOKEN = "EAAtest-token-4711";
export const APP_SECRET = "app-secret-0815";
export const VERIFY_TOKEN = "verify-token-42";

/** A message as it arrived at the Cloud API. */
export interface Arrived {
  to: string;
  text: string;
  replyTo: string | undefined;
  buttons: { id: string; title: string }[];
}

export interface Failure {
  status: number;
  code: number;
  headers?: Record<string, string>;
  transient?: boolean;
}

const FAILURES: Partial<Record<Fault, Failure>> = {
  "rate-limited": { status: 429, code: 130429, headers: { "retry-after": "2" } },
  "bad-credential": { status: 401, code: 190 },
  "no-such-recipient": { status: 400, code: 131026 },
};

export type WhatsAppServer = Awaited<ReturnType<typeof whatsappServer>>;

/** An error of the Graph API. Its message quotes the request, as Meta's may. */
function refuse({ status, code, headers, transient }: Failure, quoted = ""): Answer {
  const error = {
    message: `(#${code}) refused: ${quoted}`,
    type: "OAuthException",
    code,
    error_data: { messaging_product: "whatsapp", details: `about ${quoted}` },
    fbtrace_id: "Az8or2yhqkZfEZ",
    ...(transient !== undefined && { is_transient: transient }),
  };
  return json(status, { error }, headers);
}

interface Interactive {
  type?: string;
  body?: { text?: string };
  action?: { buttons?: { type: string; reply: { id: string; title: string } }[] };
}

/** The error of a message with buttons, by the vendor's codes; undefined if it is valid. */
function problemOfButtons({ type, body, action }: Interactive = {}): Failure | undefined {
  const buttons = action?.buttons ?? [];
  const fits = buttons.every(
    ({ type: kind, reply: { id, title } }) =>
      kind === "reply" && id.length <= 256 && title.length <= 20,
  );
  const apart = new Set(buttons.map(({ reply }) => reply.title)).size === buttons.length;
  if (type !== "button" || buttons.length < 1 || buttons.length > 3 || !fits || !apart)
    return { status: 400, code: 131009 };
  return body?.text && body.text.length <= 1024 ? undefined : { status: 400, code: 131009 };
}

interface Template {
  name?: string;
  language?: { code?: string };
  components?: { type: string; parameters: { type: string; text: string }[] }[];
}

/** The error of a template with one parameter; undefined if it is valid. */
function problemOfTemplate({ name, language, components = [] }: Template): Failure | undefined {
  if (name !== "news" || language?.code !== "en_US") return { status: 404, code: 132001 };
  const parameters = components[0]?.parameters ?? [];
  if (parameters.length !== 1) return { status: 400, code: 132000 };
  return /[\n\t]| {5}/.test(parameters[0]?.text ?? "\n")
    ? { status: 400, code: 132018 }
    : undefined;
}

/** The error of a message, by the vendor's codes; undefined if it is valid. */
function problemOf(body: Record<string, unknown>): Failure | undefined {
  const text = body["text"] as { body?: unknown } | undefined;
  // `recipient` has a user id, `to` a number.
  const { to, recipient } = body as { to?: string; recipient?: string };
  if (body["messaging_product"] !== "whatsapp" || (to === undefined) === (recipient === undefined))
    return { status: 400, code: 100 };
  if (recipient !== undefined && !/^[A-Z]{2}\.[A-Za-z0-9]{1,128}$/.test(recipient))
    return { status: 400, code: 131009 };
  if (body["type"] === "template") return problemOfTemplate(body["template"] as Template);
  if (body["type"] === "interactive") return problemOfButtons(body["interactive"] as Interactive);
  if (body["type"] !== "text") return { status: 400, code: 131051 };
  if (typeof text?.body !== "string" || text.body.trim() === "")
    return { status: 400, code: 131008 };
  if (text.body.length > 4096) return { status: 400, code: 100 };
  return to === undefined || /^\+?[1-9]\d{6,14}$/.test(to)
    ? undefined
    : { status: 400, code: 131009 };
}

function toArrived(body: Record<string, unknown>): Arrived {
  const { to, recipient, text, interactive, template, context } = body as {
    to?: string;
    recipient?: string;
    template?: Template;
    text?: { body: string };
    interactive?: Interactive;
    context?: { message_id: string };
  };
  const buttons = interactive?.action?.buttons?.map(({ reply }) => reply) ?? [];
  const parameter = template?.components?.[0]?.parameters[0]?.text;
  return {
    to: to ?? recipient ?? "",
    text: text?.body ?? interactive?.body?.text ?? parameter ?? "",
    replyTo: context?.message_id,
    buttons,
  };
}

/** Starts a local Cloud API: it accepts messages, rejects those that the real one rejects, and fails on request. */
export async function whatsappServer() {
  const arrived: Arrived[] = [];
  const shelf = createShelf();
  const bodies: Record<string, unknown>[] = [];
  const faults = createFaults<Fault | Failure | "cut-after-taking">();

  const giveMedia = (call: Call): Answer => {
    const file = /^\/whatsapp_business\/attachments\/(\w+)$/.exec(call.path)?.[1];
    if (file !== undefined) return bytesAnswer(shelf, file, call);
    const id = /^\/v25\.0\/(F0FILE\d+)$/.exec(call.path)?.[1];
    if (id === undefined) return refuse({ status: 400, code: 100 });
    const url = `http://${call.headers.host}/whatsapp_business/attachments/${id}?ext=1&hash=a`;
    return json(200, { messaging_product: "whatsapp", url, id });
  };

  const typing = createTypingLog();
  const showTyping = (body: Call["body"]): Answer => {
    const { messaging_product, status, message_id, typing_indicator: indicator } = body;
    const isRight =
      messaging_product === "whatsapp" &&
      status === "read" &&
      JSON.stringify(indicator) === '{"type":"text"}';
    if (!isRight || typeof message_id !== "string" || !message_id.startsWith("wamid."))
      return refuse({ status: 400, code: 100 });
    return keepSign(typing, "", undefined, message_id) ?? json(200, { success: true });
  };

  const answer = (call: Call): Answer => {
    const { method, path, headers, body } = call;
    if (headers.authorization !== `Bearer ${ACCESS_TOKEN}`)
      return refuse({ status: 401, code: 190 });
    if (method === "GET" && path === `/v25.0/${PHONE_NUMBER_ID}`)
      return json(200, { id: PHONE_NUMBER_ID });
    if (method === "GET") return giveMedia(call);
    if (method !== "POST" || path !== `/v25.0/${PHONE_NUMBER_ID}/messages`)
      return refuse({ status: 400, code: 100 });
    if (body["typing_indicator"] !== undefined) return showTyping(body);
    const problem = problemOf(body);
    if (problem) return refuse(problem, call.bytes.toString());
    arrived.push(toArrived(body));
    const { to = "", recipient } = body as { to?: string; recipient?: string };
    bodies.push(body);
    const contacts = [
      recipient === undefined
        ? { input: to, wa_id: to.replace("+", "") }
        : { input: recipient, user_id: recipient },
    ];
    return json(200, {
      messaging_product: "whatsapp",
      contacts,
      messages: [{ id: `wamid.${String(arrived.length).padStart(8, "0")}` }],
    });
  };
  const { url, close } = await serve((call): Answer | Promise<Answer> => {
    const fault = faults.take();
    const failure = typeof fault === "object" ? fault : FAILURES[fault as Fault];
    return failing(fault, () => (failure ? refuse(failure, call.bytes.toString()) : answer(call)));
  });
  return {
    url,
    arrived,
    /** Files that people have sent. */
    shelf,
    typing,
    /** The bodies as they came, for what `arrived` leaves out. */
    bodies,
    /** The next `times` requests fail; a number of the API or one of the ways that all channels share. */
    fail: faults.fail,
    close,
  };
}

/** A text message as a notification carries it. */
export function textMessage(
  id: string,
  body: string,
  from = "15557654321",
): Record<string, unknown> {
  return { from, id, timestamp: "1760000000", type: "text", text: { body } };
}

/** The `value` of a change. */
export function valueOf(
  messages: unknown[],
  statuses: unknown[] = [],
  phoneNumberId = PHONE_NUMBER_ID,
): Record<string, unknown> {
  return {
    messaging_product: "whatsapp",
    metadata: { display_phone_number: "15550001111", phone_number_id: phoneNumberId },
    contacts: [{ profile: { name: "Ada" }, wa_id: "15557654321" }],
    ...(messages.length > 0 && { messages }),
    ...(statuses.length > 0 && { statuses }),
  };
}

/** A notification with one entry for each list of values, signed as Meta signs it. */
export function notification(
  entries: Record<string, unknown>[][],
  { secret = APP_SECRET, field = "messages", object = "whatsapp_business_account" } = {},
): Request {
  const entry = entries.map((values, index) => ({
    id: `10229012628${index}`,
    changes: values.map((value) => ({ field, value })),
  }));
  const body = JSON.stringify({ object, entry });
  return signedRequest(body, `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`);
}

/** A request to the webhook with any body and signature. */
export function signedRequest(body: string, signature: string | undefined): Request {
  const headers = {
    "content-type": "application/json",
    ...(signature !== undefined && { "x-hub-signature-256": signature }),
  };
  return new Request("http://gateway.example/channels/whatsapp/webhook", {
    method: "POST",
    headers,
    body,
  });
}
