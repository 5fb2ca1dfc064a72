import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type * as SocketMode from "@slack/socket-mode";
import { readBody, sameSecret, type Channel, type ChannelHost, type IncomingMessage } from "#plugin";
import { clientOptions, messageId, missingPackage, silent, sortError, type SlackContext } from "./send.ts";

/** How far a request's time may be from ours: an older one may be a replay. */
const TOLERANCE_S = 300;
const MAX_BODY = 1_048_576;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
/** A connection that lasted so long was a good one. */
const STABLE_MS = 10_000;
/** The vendor greets at once; a connection without its greeting carries nothing. */
const HELLO_MS = 20_000;
/** A connection that is to end may take so long for it. */
const CLOSE_MS = 2_000;
/** What stands for a message of which nothing can be read, as a bare mention. */
const NO_TEXT = "[no text]";
/** Kinds of message that somebody wrote; others tell of joins, edits and the like. */
const WRITTEN = new Set([undefined, "file_share", "thread_broadcast", "me_message"]);

interface SlackEvent {
  type?: string;
  subtype?: string;
  channel?: string;
  channel_type?: string;
  user?: string;
  bot_id?: string;
  text?: string;
  ts?: string;
  thread_ts?: string;
  files?: { name?: string }[];
}

/** What the vendor posts, and what lies in an envelope of the socket. */
interface SlackPayload {
  type?: string;
  challenge?: unknown;
  event?: SlackEvent;
  authorizations?: { user_id?: string; is_bot?: boolean }[];
}

/** A direct message or a mention, or nothing where it is neither or a bot wrote it. */
export function readEvent({ event, authorizations }: SlackPayload): IncomingMessage | undefined {
  if (!event || event.bot_id !== undefined || !WRITTEN.has(event.subtype)) return undefined;
  const { channel, user, ts } = event;
  if (channel === undefined || user === undefined || ts === undefined) return undefined;
  const self = authorizations?.find(({ is_bot }) => is_bot === true)?.user_id;
  if (user === self) return undefined;
  const direct = event.channel_type === "im" || channel.startsWith("D");
  if (event.type !== "app_mention" && !(event.type === "message" && direct)) return undefined;
  const files = (event.files ?? []).map(({ name }) => `[file: ${name ?? "without a name"}]`);
  const text = [readText(event.text ?? "", self), ...files].filter((part) => part !== "").join("\n") || NO_TEXT;
  // A mention is answered in a thread, so that the answer stays with it.
  const thread = event.thread_ts ?? (direct ? undefined : ts);
  return { id: messageId(channel, ts), from: user, to: channel, direct, text, ...(thread === undefined ? {} : { thread }) };
}

/** The vendor's marks as people read them; the agent's own name in front goes. */
function readText(text: string, self: string | undefined): string {
  return text
    .replace(/<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>/g, (_, sign: string, target: string, label?: string) => {
      if (sign === "@") return target === self ? "" : `@${label ?? target}`;
      if (sign === "#") return `#${label ?? target}`;
      if (sign === "!") return label ?? `@${target}`;
      return label === undefined || label === target ? target : `[${label}](${target})`;
    })
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&")
    .trim();
}

/** Whether the vendor signed these bytes just now. */
function signed(raw: Uint8Array, headers: Headers, secret: string, now: number): boolean {
  const timestamp = headers.get("x-slack-request-timestamp") ?? "";
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > TOLERANCE_S) return false;
  const expected = createHmac("sha256", secret).update(`v0:${timestamp}:`).update(raw).digest("hex");
  return sameSecret(headers.get("x-slack-signature") ?? "", `v0=${expected}`);
}

/** The vendor's Events API, at `/channels/slack/events`. */
export function createEvents(secret: string, clock: { now(): number }): Required<Pick<Channel, "request">> {
  return {
    async request(request, host) {
      if (!new URL(request.url).pathname.endsWith("/events")) return new Response("not found", { status: 404 });
      if (request.method !== "POST") return new Response("only POST", { status: 405, headers: { allow: "POST" } });
      const raw = await readBody(request, MAX_BODY);
      if (!raw) return new Response("too long", { status: 413 });
      if (!signed(raw, request.headers, secret, clock.now())) return new Response("the signature does not match", { status: 401 });
      let payload: SlackPayload | null;
      try {
        payload = JSON.parse(new TextDecoder().decode(raw)) as SlackPayload | null;
      } catch {
        return new Response("not JSON", { status: 400 });
      }
      if (payload?.type === "url_verification") return Response.json({ challenge: String(payload.challenge) });
      const message = payload?.type === "event_callback" ? readEvent(payload) : undefined;
      // Where this fails the vendor gets a 500 and sends the event again.
      if (message) await host.receive(message);
      return new Response("");
    },
  };
}

/** Loads the vendor's socket client; a test may bring another. */
export type LoadSocketMode = () => Promise<Pick<typeof SocketMode, "SocketModeClient">>;

interface Envelope {
  type: string;
  body: SlackPayload;
  ack(): Promise<void>;
}

/** Socket Mode: connections from here to the vendor, so no public address is needed. What is not acknowledged comes again. */
export function createSocket(
  context: SlackContext,
  appToken: string,
  load: LoadSocketMode = () => import("@slack/socket-mode"),
  { helloMs = HELLO_MS, stableMs = STABLE_MS } = {},
): Required<Pick<Channel, "listen">> {
  const take = async ({ type, body, ack }: Envelope, host: ChannelHost): Promise<void> => {
    const message = type === "events_api" ? readEvent(body) : undefined;
    try {
      if (message) await host.receive(message);
    } catch {
      return host.report({ ok: false, message: "a message could not be stored; slack sends it again" });
    }
    if (message) host.report({ ok: true, message: "connected" });
    // An acknowledgement that is lost means a repeat with the same id.
    await ack().catch(() => {});
  };

  /** One connection, from its start to its end. False or an error where it does not come about. */
  const connect = async (signal: AbortSignal, host: ChannelHost): Promise<boolean> => {
    const { SocketModeClient } = await load();
    const late = new AbortController();
    const client = new SocketModeClient({
      appToken,
      // A start that fails inside the client's own reconnecting is a rejection that nobody can catch.
      autoReconnectEnabled: false,
      logger: silent,
      clientOptions: clientOptions(context, AbortSignal.any([signal, late.signal])),
    });
    const over = Promise.withResolvers<void>();
    client.once("disconnected", () => over.resolve());
    // A peer that is gone never agrees to the end.
    const close = (): void => {
      void client.disconnect();
      setTimeout(() => over.resolve(), CLOSE_MS).unref();
    };
    let order = Promise.resolve();
    client.on("slack_event", (envelope: Envelope) => void (order = order.then(() => take(envelope, host))));
    const timer = setTimeout(() => {
      late.abort();
      close();
    }, helloMs);
    signal.addEventListener("abort", close);
    try {
      // The client rejects with nothing where the connection ends before its greeting, or not at all where nobody answers.
      const started = client.start().then(
        () => true,
        (error: unknown) => (error === undefined ? false : Promise.reject(error as Error)),
      );
      const stood = await Promise.race([started, over.promise.then(() => false)]);
      clearTimeout(timer);
      if (!stood) return false;
      if (signal.aborted) close();
      else host.report({ ok: true, message: "connected" });
      await over.promise;
      await order;
      return true;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", close);
    }
  };

  return {
    async listen(signal, host) {
      for (let failures = 0; !signal.aborted;) {
        const begun = performance.now();
        let message = "connections do not last; trying again";
        let wish = 0;
        try {
          const stood = await connect(signal, host);
          if (!stood) message = "the socket cannot be opened";
          // The vendor ends a good connection every few hours: then the next one comes at once.
          failures = stood && performance.now() - begun >= stableMs ? 0 : failures + 1;
        } catch (error) {
          failures++;
          const sorted = sortError(error);
          message = missingPackage(error, "@slack/socket-mode") ?? sorted.reason;
          if (sorted.status === "retry") wish = sorted.afterMs ?? 0;
        }
        if (failures === 0 || signal.aborted) continue;
        host.report({ ok: false, message });
        const wait = Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), LONGEST_WAIT_MS) * (1 + Math.random() / 4);
        await sleep(Math.max(wait, wish), undefined, { signal }).catch(() => {});
      }
    },
  };
}
