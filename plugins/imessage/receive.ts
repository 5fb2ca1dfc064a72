import { setTimeout as sleep } from "node:timers/promises";
import { readBody, sameSecret, type ChannelHost, type IncomingMessage } from "#plugin";
import { addressOf } from "./recipient.ts";
import { call, complaint, NoAnswer, type Server } from "./server.ts";

/** What receiving needs besides the server. */
export interface Receiver extends Server {
  webhookSecret: string | undefined;
  /** Words by which a group calls the agent. */
  mentions: readonly string[];
}

interface Message {
  guid?: string;
  text?: string | null;
  isFromMe?: boolean;
  handle?: { address?: string } | null;
  chats?: { guid?: string }[];
  dateCreated?: number | null;
  /** 0 is a message; others are changes of a group. */
  itemType?: number | null;
  /** Set on reactions. */
  associatedMessageGuid?: string | null;
}

/** Where a webhook brings messages at once, asking only makes up for those that it lost: the server sends each just once. */
/** More than a notification can be. */
const MAX_BODY = 1_048_576;
const ASK_MS = { withWebhook: 60_000, without: 3_000 };
const LONGEST_WAIT_MS = 60_000;
/** A message bears the time of its sending, and may come later than one that was sent after it. */
const OVERLAP_MS = 300_000;
const PAGE = 200;

/** A message that is for the agent; undefined for its own, reactions, changes of a group and the talk of others. */
export function toMessage(data: Message, mentions: readonly string[]): IncomingMessage | undefined {
  const { guid, handle, isFromMe, itemType, associatedMessageGuid } = data;
  const chat = data.chats?.[0]?.guid;
  // An object character stands for each attachment.
  const text = (data.text ?? "").replaceAll("\uFFFC", "").trim();
  if (!guid || !chat || !handle?.address || isFromMe !== false || itemType || associatedMessageGuid || text === "") return undefined;
  const direct = chat.includes(";-;");
  const words = text.toLowerCase();
  if (!direct && !mentions.some((name) => words.includes(name.toLowerCase()))) return undefined;
  return { id: guid, from: addressOf(handle.address) ?? handle.address, to: `chat:${chat}`, direct, text };
}

function parse(text: string): { type?: unknown; data?: Message } | null | undefined {
  try {
    return JSON.parse(text) as { type?: unknown; data?: Message } | null;
  } catch {
    return undefined;
  }
}

/** Takes the server's webhook, which is not signed: the secret in the path is what says who calls. */
export async function request({ webhookSecret, mentions }: Receiver, request: Request, host: ChannelHost): Promise<Response> {
  const given = decode(new URL(request.url).pathname.split("/").at(-1) ?? "");
  if (webhookSecret === undefined || !sameSecret(given, webhookSecret)) return new Response(null, { status: 404 });
  if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
  const raw = await readBody(request, MAX_BODY);
  if (!raw) return new Response(null, { status: 413 });
  const event = parse(raw.toString("utf8"));
  if (typeof event !== "object" || event === null) return new Response(null, { status: 400 });
  const message = event.type === "new-message" && event.data ? toMessage(event.data, mentions) : undefined;
  if (message) await host.receive(message);
  return new Response(null, { status: 204 });
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

/** Asks the server for what has come, so that nothing is lost while nobody listened; reports how it does. */
export async function listen(receiver: Receiver, signal: AbortSignal, host: ChannelHost): Promise<void> {
  const every = receiver.webhookSecret === undefined ? ASK_MS.without : ASK_MS.withWebhook;
  const seen = new Map<string, number>();
  let failures = 0;
  let reported: string | undefined;
  let stored = await host.cursor();
  // What was written before the channel was there is not answered.
  if (stored === undefined) await host.saveCursor((stored = String(receiver.now())));
  else stored = String(Number(stored) - OVERLAP_MS);
  // The server takes 0 for no bound at all, and nothing below it.
  let after = Math.max(Number(stored), 1);
  while (!signal.aborted) {
    const result = await ask(receiver, signal, host, after, seen);
    if (signal.aborted) return;
    failures = result.problem === undefined ? 0 : failures + 1;
    const wait = failures === 0 ? every : Math.min(1000 * 2 ** (failures - 1), LONGEST_WAIT_MS);
    if (result.newest !== undefined) {
      await host.saveCursor(String(result.newest));
      after = Math.max(after, result.newest - OVERLAP_MS);
      for (const [guid, at] of seen) if (at < after) seen.delete(guid);
    }
    const state =
      result.problem === undefined
        ? { ok: true, message: "listening" }
        : { ok: false, message: `${result.problem}; trying again in ${wait / 1000} s` };
    if (state.message !== reported) host.report(state);
    reported = state.message;
    await sleep(wait, undefined, { signal }).catch(() => undefined);
  }
}

/** One round. `newest` is the time of the newest message that was handed over or passed over, where there is one. */
async function ask(
  receiver: Receiver,
  signal: AbortSignal,
  host: ChannelHost,
  after: number,
  seen: Map<string, number>,
): Promise<{ newest?: number; problem?: string }> {
  let newest: number | undefined;
  const done = (problem?: string): { newest?: number; problem?: string } => ({
    ...(newest === undefined ? {} : { newest }),
    ...(problem === undefined ? {} : { problem }),
  });
  try {
    for (let offset = 0; ; offset += PAGE) {
      const { status, body } = await call(receiver, "message/query", signal, { after, sort: "ASC", limit: PAGE, offset, with: ["chat"] });
      if (status !== 200 || !Array.isArray(body?.data))
        return done(status === 200 ? "the answer was not that of a BlueBubbles server" : complaint(status));
      const messages = body.data as Message[];
      for (const data of messages) {
        if (data.guid === undefined || seen.has(data.guid)) continue;
        const message = toMessage(data, receiver.mentions);
        if (message) await host.receive(message);
        const at = data.dateCreated ?? 0;
        seen.set(data.guid, at);
        newest = Math.max(newest ?? 0, at);
      }
      if (messages.length < PAGE) return done();
    }
  } catch (error) {
    return done(error instanceof NoAnswer ? `the server cannot be reached (${error.code})` : "a message could not be stored");
  }
}
