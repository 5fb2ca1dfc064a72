import {
  ChannelError,
  createRest,
  phoneNumber,
  recipients,
  sameRule,
  type ErrorRules,
  type Rest,
} from "#channel-kit";
import type { PluginContext } from "#plugin";

/** A message, or a new chat with its first. */
export interface Message {
  guid?: string;
  text?: string | null;
  /** The line above the text, on devices that show a field for it. */
  subject?: string | null;
  isFromMe?: boolean;
  handle?: { address?: string } | null;
  chats?: { guid?: string; displayName?: string | null }[];
  dateCreated?: number | null;
  dateEdited?: number | null;
  /** 0 is a message; others are changes of a group. */
  itemType?: number | null;
  attachments?:
    | {
        guid?: string;
        mimeType?: string | null;
        transferName?: string | null;
        totalBytes?: number;
      }[]
    | null;
  /** The message that this one answers. */
  threadOriginatorGuid?: string | null;
  /** Set on reactions. */
  associatedMessageGuid?: string | null;
  /** A code of Messages; 0 is well. */
  error?: number;
  messages?: { guid?: string }[];
}

const PASSWORD = "the server does not take the password: check channels.imessage.password";
const URL_WRONG = "check channels.imessage.url";

export const VENDOR: ErrorRules = {
  name: "the server",
  errors: {
    ...sameRule([401, 403], { status: "failed", reason: PASSWORD }),
    ...sameRule([301, 302, 303, 307, 308, 405], URL_WRONG),
    404: `there is no such chat, or ${URL_WRONG}`,
    queued: { status: "unknown", reason: "the server is still at an earlier try of this message" },
    unsure: { status: "unknown", reason: "the server does not know whether Messages sent it" },
    504: { status: "unknown", reason: "the server does not know whether Messages sent it (504)" },
    "private-api": {
      status: "failed",
      reason: "the server's Private API is off: set channels.imessage.privateApi to false",
    },
    "no-chat": { status: "failed", reason: "the server knows no such chat" },
    "Messages error 22": "the recipient has no iMessage",
  },
};

/** Reads the result of a request, in codes of this plugin's own. */
function read(body: unknown): ReturnType<NonNullable<Rest["read"]>> {
  const { error, data } = body as {
    error?: { type?: string; error?: string; message?: string };
    data?: Message | null;
  };
  // The text stands in `error` by the manual, in `message` by the server's source.
  const said = `${error?.error ?? ""} ${error?.message ?? ""}`;
  if (/already queued/i.test(said)) return { code: "queued" };
  if (/private api/i.test(said)) return { code: "private-api" };
  if (/chat.{0,40}(?:does not|doesn.t) exist|can.t get chat/i.test(said))
    return { code: "no-chat" };
  if (data?.error) return { code: `Messages error ${data.error}`, passing: false };
  // The server's own word for errors of Messages, after it was given the text.
  return error?.type === "iMessage Error" ? { code: "unsure" } : {};
}

/** A BlueBubbles server, as both directions reach it. Calls carry the password in the query, so no address is ever told. */
export function createServer(
  { fetch, clock }: Pick<PluginContext<unknown>, "fetch" | "clock">,
  url: string,
  password: string,
) {
  const base = `${url}/api/v1`;
  const secret = `?password=${encodeURIComponent(password)}`;
  const call = createRest({ ...VENDOR, fetch, base, query: secret, read });
  /** Messages of all chats. */
  const query = async (question: object, signal: AbortSignal): Promise<Message[]> => {
    const answer = await call<{ data?: Message[] }>("message/query", signal, {
      ...question,
      with: ["chat", "attachment"],
    });
    if (!Array.isArray(answer?.data))
      throw new ChannelError("the answer was not that of a BlueBubbles server");
    return answer.data;
  };
  return {
    call,
    query,
    fetch,
    toUrl: (path: string) => new URL(`${base}/${path}${secret}`),
    now: () => clock.now(),
  };
}

export type Server = ReturnType<typeof createServer>;

/** The form of a chat's guid: its service, `-` for one person or `+` for a group, and its address or name. */
export const CHAT = /^[cC][hH][aA][tT]:((?:iMessage|SMS|RCS|any);[-+];\S{1,200})$/;
/** A person, in the form in which they are compared: a number without its decoration, or an address in small letters. */
export const PERSON = [
  { like: "a number with its country's code (+15551234567)", pattern: /^(\+.*)$/, to: phoneNumber },
  {
    like: "an e-mail address",
    pattern: /^([^\s@;,:]+@[^\s@;,:]+\.[^\s@;,:.]+)$/,
    to: (address = "") => address.toLowerCase(),
  },
] as const;
export const parsePerson = recipients(...PERSON);
export const parseRecipient = recipients(...PERSON, {
  like: "a chat by its guid (chat:iMessage;+;chat123456)",
  pattern: CHAT,
  to: (guid) => `chat:${guid}`,
});
