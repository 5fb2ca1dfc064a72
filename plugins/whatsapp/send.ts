import {
  ChannelError,
  createRest,
  renderVerdict,
  sendAfter,
  sentResult,
  vendorChannel,
  type ErrorRules,
  type Rest,
} from "#channel-kit";
import type { Channel, PluginContext, SendResult, OutgoingFile } from "#plugin";
import { toWhatsApp } from "./format.ts";
import { isUserId, type WhatsAppConfig } from "./config.ts";

/** Files that WhatsApp shows as images, or plays as recordings; the sizes are the vendor's. */
const IMAGES = new Set(["image/jpeg", "image/png"]);
const MAX_IMAGE = 5_000_000;
const AUDIO = new Set(["audio/mpeg", "audio/mp4", "audio/aac", "audio/amr"]);
const MAX_AUDIO = 16_000_000;
const MAX_DOCUMENT = 100_000_000;
/** Other types are refused as documents. */
const DOCUMENT = /^(?:text\/|application\/(?:json|pdf|vnd\.openxmlformats-officedocument\.))/;

/** Returns the type of message and the media type under which WhatsApp takes a file; undefined if it does not. */
function toMedia({
  mediaType,
  data,
}: Pick<OutgoingFile, "mediaType" | "data">): { type: string; mime: string } | undefined {
  if (IMAGES.has(mediaType) && data.length <= MAX_IMAGE) return { type: "image", mime: mediaType };
  if (AUDIO.has(mediaType) && data.length <= MAX_AUDIO) return { type: "audio", mime: mediaType };
  if (!DOCUMENT.test(mediaType) || data.length > MAX_DOCUMENT) return undefined;
  // Of texts only plain ones are known; the name keeps its ending.
  return { type: "document", mime: /^text\/|json$/.test(mediaType) ? "text/plain" : mediaType };
}

/** Uploads a file, and gives the content of the message that shows it. Nobody sees it before. */
async function uploadMedia(
  call: ReturnType<typeof createRest>,
  phoneNumberId: string,
  { name, data }: OutgoingFile,
  { type, mime }: { type: string; mime: string },
  signal: AbortSignal,
): Promise<object> {
  const form = new FormData();
  form.append("messaging_product", "whatsapp");
  form.append("type", mime);
  form.append("file", new Blob([data], { type: mime }), name);
  const id = (await call<{ id?: unknown }>(`${phoneNumberId}/media`, signal, form))?.id;
  if (typeof id !== "string")
    throw new ChannelError({ status: "failed", reason: "WhatsApp gave no id of the file" });
  return { type, [type]: { id, ...(type === "document" && { filename: name }) } };
}

/** The version of the Graph API that this plugin was written for. */
const GRAPH_VERSION = "v25.0";
const AUTH =
  "the access token is not valid: make a new one for the system user and put it into channels.whatsapp.accessToken";
const PERMISSION =
  "the access token may not do this: give the system user whatsapp_business_messaging and the number";
const UNREGISTERED = "the phone number is not registered: register it in the WhatsApp Manager";

function each<T>(codes: readonly number[], verdict: T): Record<string, T> {
  return Object.fromEntries(codes.map((code) => [`error ${code}`, verdict]));
}

export const VENDOR: ErrorRules = {
  name: "WhatsApp",
  shown: (code) => `, ${code}`,
  // Meta's own messages may quote the text or the recipient: they are not repeated.
  errors: {
    ...each([4, 17, 32, 613, 80007, 130429, 131048, 131056], {
      status: "retry",
      advice: "too many messages",
    } as const),
    ...each([1, 2, 131000, 131016, 131057, 133004], { status: "retry" } as const),
    ...each([0, 190], AUTH),
    ...each([3, 10, 131005, ...Array.from({ length: 100 }, (_, index) => 200 + index)], PERMISSION),
    ...each([131045, 133010], UNREGISTERED),
    "error 33": "there is no such phone number id: check channels.whatsapp.phoneNumberId",
    "error 100": "a parameter was refused: check channels.whatsapp.phoneNumberId and the recipient",
    "error 131008": "a parameter is missing",
    "error 131009": "a parameter was refused: check the recipient",
    "error 131021": "the recipient is the sender's own number",
    "error 131026": "the recipient cannot get it: no WhatsApp account, or an old one",
    "error 131030":
      "the recipient is not on the list of the test number: add it in the app's API setup",
    "error 131031": "the account is locked: see the Business Support page",
    "error 131042": "there is a problem with the payment of the account",
    "error 131047":
      "more than 24 hours have passed since the recipient last wrote: they have to write first",
    "error 131051": "this kind of message is not supported",
    401: AUTH,
  },
};

/** WhatsApp shows that the agent is typing for 25 seconds. */
const TYPING_MS = 20_000;
/** The longest text above buttons. */
const MAX_BUTTON_TEXT = 1024;

/** The wait that Meta names in the report on the use of the account, in minutes. */
function getWaitMs(headers: Headers): number {
  const usage = headers.get("x-business-use-case-usage") ?? "";
  const minutes = [...usage.matchAll(/"estimated_time_to_regain_access"\s*:\s*(\d{1,6})/g)].map(
    (match) => Number(match[1]),
  );
  return Math.max(0, ...minutes) * 60_000;
}

const read: NonNullable<Rest["read"]> = (body, { status, headers }) => {
  const { code, is_transient: passing } =
    (body as { error?: { code?: unknown; is_transient?: unknown } }).error ?? {};
  // A 429 is one whatever its code says, and so is a fault that Meta calls passing.
  const may = passing === true || status === 429 ? true : undefined;
  return {
    code: typeof code === "number" ? `error ${code}` : undefined,
    afterMs: getWaitMs(headers),
    passing: may,
  };
};

/** Returns whether WhatsApp refused free text, since the recipient last wrote more than 24 hours ago. */
const isLate = (error: unknown): boolean =>
  error instanceof ChannelError && error.response?.code === "error 131047";

const NO_TEMPLATE =
  "WhatsApp refused free text, and the text does not fit into channels.whatsapp.template: the recipient has to write first";

/** The longest parameter of a template. */
const MAX_PARAMETER = 1024;

/** A text as the parameter of a template, which may have no line breaks and no wide gaps. Undefined for one that is too long. */
function inTemplate(
  { name, language }: NonNullable<WhatsAppConfig["template"]>,
  text: string,
): object | undefined {
  const line = toWhatsApp(text).replace(/\s+/g, " ").trim();
  if (line.length > MAX_PARAMETER) return undefined;
  const components = [{ type: "body", parameters: [{ type: "text", text: line }] }];
  return { type: "template", template: { name, language: { code: language }, components } };
}

/** Calls of the Graph API. */
export function createCall({
  config,
  fetch,
}: Pick<PluginContext<WhatsAppConfig>, "config" | "fetch">): ReturnType<typeof createRest> {
  const { apiUrl, accessToken } = config;
  const headers = { authorization: `Bearer ${accessToken}` };
  return createRest({ ...VENDOR, fetch, base: `${apiUrl}/${GRAPH_VERSION}`, headers, read });
}

/** Creates what posts content of any kind. */
function createPost(call: ReturnType<typeof createCall>, phoneNumberId: string) {
  return async (
    { to, replyTo, idempotencyKey }: { to: string; replyTo?: string; idempotencyKey: string },
    content: object,
    signal: AbortSignal,
  ): Promise<SendResult> => {
    const answer = await call<{ messages?: { id?: unknown }[] }>(
      `${phoneNumberId}/messages`,
      signal,
      {
        messaging_product: "whatsapp",
        recipient_type: "individual",
        // An id in `to` would be taken for a number, and the message be lost.
        ...(isUserId(to) ? { recipient: to } : { to }),
        ...content,
        // The webhook repeats it if the message does not arrive.
        biz_opaque_callback_data: idempotencyKey,
        ...(replyTo !== undefined && { context: { message_id: replyTo } }),
      },
    );
    const ids = (answer?.messages ?? []).map(({ id }) => id).filter((id) => typeof id === "string");
    if (ids.length > 0) return sentResult(...ids);
    return { status: "unknown", reason: "WhatsApp answered without the id of a message" };
  };
}

/** Sends by the Cloud API. */
export function createChannel(context: PluginContext<WhatsAppConfig>): Channel {
  const { config } = context;
  const { phoneNumberId } = config;
  const call = createCall(context);
  const post = createPost(call, phoneNumberId);
  // A preview would make Meta fetch what a model names.
  const inText = (text: string): object => ({
    type: "text",
    text: { preview_url: false, body: toWhatsApp(text) },
  });
  /** Posts free text, or the template with the same text if WhatsApp refuses free text, or has refused it before. */
  const postOrTemplate = async (
    message: Parameters<typeof post>[0] & { refused?: true },
    { free, text }: { free: object; text: string },
    signal: AbortSignal,
  ): Promise<SendResult> => {
    const content = config.template && inTemplate(config.template, text);
    if (message.refused) {
      if (!content) throw new ChannelError({ status: "failed", reason: NO_TEMPLATE });
      return post(message, content, signal);
    }
    return post(message, free, signal).catch((error: unknown) => {
      if (!content || !isLate(error)) throw error;
      return post(message, content, signal);
    });
  };
  return vendorChannel({
    vendor: VENDOR,
    post: (message, _, signal) =>
      postOrTemplate(message, { free: inText(message.text), text: message.text }, signal),
    async postFile(file, _, signal) {
      const media = toMedia(file);
      if (!media)
        return {
          status: "unsupported",
          reason: "WhatsApp does not take files of this type or size",
        };
      return sendAfter(
        VENDOR,
        () => uploadMedia(call, phoneNumberId, file, media, signal),
        (content) => post(file, content, signal),
      );
    },
    async postQuestion(question, _, signal) {
      const { code, text, instruction, verdicts } = question;
      const body = toWhatsApp(text);
      if (body.length > MAX_BUTTON_TEXT) return undefined;
      const buttons = verdicts.map(({ verdict, label }) => ({
        type: "reply",
        reply: { id: renderVerdict(verdict, code), title: label },
      }));
      const asked = {
        type: "interactive",
        interactive: { type: "button", body: { text: body }, action: { buttons } },
      };
      const whole = `${text}\n\n${instruction}`;
      return postOrTemplate(question, { free: asked, text: whole }, signal);
    },
    typing: {
      everyMs: TYPING_MS,
      // The sign belongs to a message, which this marks as read.
      async show({ replyTo }, _, signal) {
        const about = {
          messaging_product: "whatsapp",
          status: "read",
          message_id: replyTo,
          typing_indicator: { type: "text" },
        };
        return replyTo === undefined ? undefined : call(`${phoneNumberId}/messages`, signal, about);
      },
    },
    // The number itself needs the same token.
    check: (signal) => call(`${phoneNumberId}?fields=id`, signal),
  });
}
