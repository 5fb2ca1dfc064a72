import type * as SocketMode from "@slack/socket-mode";
import {
  hmacSha256,
  loadPackage,
  parseDecision,
  parseWebhook,
  reconnectLoop,
  sameSecret,
  toEdit,
  toIncomingMessage,
  withConnection,
} from "#channel-kit";
import type { Channel, ChannelHost, ReceivedMessage } from "#plugin";
import { getWords, readParts, type SlackContent } from "./content.ts";
import { createMembers, type Members } from "./members.ts";
import {
  advice,
  clientOptions,
  createClient,
  messageId,
  silent,
  VENDOR,
  type SlackContext,
} from "./send.ts";

/** The largest difference between a request's time and ours, in seconds: an older request may be a replay. */
const TOLERANCE_S = 300;
/** The vendor greets at once; a connection without its greeting carries nothing. */
const HELLO_MS = 20_000;
/** An answer to a press may take so long. */
const SHOW_MS = 10_000;
/** The one command whose text names the gateway's command. */
const OWN_COMMAND = "/rouse";
/** The text of a message of which nothing can be read, such as a bare mention. */
const NO_TEXT = "[no text]";
/** Kinds of message that somebody wrote; others tell of joins, edits and the like. */
const WRITTEN = new Set([undefined, "file_share", "thread_broadcast", "me_message"]);

interface SlackEvent extends SlackContent {
  type?: string;
  subtype?: string;
  channel?: string;
  channel_type?: string;
  user?: string;
  ts?: string;
  thread_ts?: string;
  /** The message as it was before it was deleted or changed. */
  previous_message?: { user?: string; edited?: { ts?: string } };
  /** The message as it is after a change. */
  message?: SlackEvent & { edited?: { ts?: string } };
}

/** The body that the vendor posts, or that is in an envelope of the socket. */
interface SlackPayload {
  type?: string;
  challenge?: unknown;
  event_id?: string;
  event?: SlackEvent;
  /** Of a press: who pressed, where, and what. */
  user?: { id?: string };
  channel?: { id?: string };
  container?: { message_ts?: string };
  actions?: { value?: string; action_ts?: string }[];
  authorizations?: { user_id?: string; is_bot?: boolean }[];
}

/** A slash command, as it is posted and as it lies in an envelope of the socket. */
interface SlashCommand {
  command?: string;
  text?: string;
  user_id?: string;
  channel_id?: string;
  trigger_id?: string;
}

/** A slash command as the message that people would write: `/rouse new` and `/new` are the same. Undefined for other payloads. */
function readCommand(payload: SlashCommand): ReceivedMessage | undefined {
  const { command, text = "", user_id: from, channel_id: to, trigger_id: id } = payload;
  if (command === undefined || from === undefined || to === undefined || id === undefined)
    return undefined;
  const said = command === OWN_COMMAND ? `/${text.trim() || "help"}` : `${command} ${text}`;
  return toIncomingMessage({
    id: `command ${id}`,
    from,
    to,
    direct: to.startsWith("D"),
    mentioned: true,
    parts: [{ kind: "own", text: said }],
  });
}

/** A direct message or a mention, or why it is not for the agent; undefined for what is no message, and for its own. */
function readEvent({
  type,
  event,
  event_id,
  authorizations,
}: SlackPayload): ReceivedMessage | undefined {
  if (type !== "event_callback" || !isMessage(event)) return undefined;
  const self = authorizations?.find(({ is_bot }) => is_bot === true)?.user_id;
  if (isOwn(event, self)) return undefined;
  if (event.subtype === "message_changed")
    return readEdit({ type, event, ...(authorizations && { authorizations }) });
  return readMessage(event, event_id, self);
}

function readMessage(
  event: SlackEvent,
  eventId: string | undefined,
  self: string | undefined,
): ReceivedMessage {
  const { channel, user, ts } = event;
  const id = messageId(channel ?? "", ts ?? eventId ?? "");
  const skipped = getSkipReason(event);
  if (skipped !== undefined) return { id, skipped };
  if (channel === undefined || user === undefined || ts === undefined)
    return { id, skipped: "the message names no sender or no channel" };
  const direct = event.channel_type === "im" || channel.startsWith("D");
  const { thread_ts = direct ? undefined : ts } = event;
  const kind = event.channel_type === "mpim" ? "group" : "channel";
  // A mention is answered in a thread, so that the answer stays with it.
  return toIncomingMessage({
    id,
    from: user,
    to: channel,
    thread: thread_ts,
    direct,
    room: direct ? undefined : { kind },
    mentioned: isMention(event, self),
    parts: readParts(event, self),
    inThread: event.thread_ts !== undefined,
    noText: NO_TEXT,
  });
}

/**
 * An edit as a message that replaces another. Previews of links and answers in a thread come as changes, too: those are no
 * edits, and one that was edited before still says so.
 */
function readEdit({ event, ...payload }: SlackPayload): ReceivedMessage | undefined {
  const { channel, channel_type, message, previous_message: before, ts } = event ?? {};
  const { edited, ...changed } = message ?? {};
  const id = messageId(channel ?? "", `${changed.ts ?? ts ?? ""} ${edited?.ts ?? ts ?? ""}`);
  const isEdit = edited?.ts !== undefined && edited.ts !== before?.edited?.ts;
  if (changed.bot_id !== undefined || !isEdit)
    return { id, skipped: "an edit of an earlier message" };
  const read = readEvent({
    ...payload,
    event: { ...changed, type: "message", channel, channel_type } as SlackEvent,
  });
  return read && toEdit(read, id, Number(changed.ts) * 1000);
}

const isMessage = (event: SlackEvent | undefined): event is SlackEvent =>
  event?.type === "message" || event?.type === "app_mention";

const isOwn = (
  { user, message, previous_message: deleted }: SlackEvent,
  self: string | undefined,
): boolean => self !== undefined && (user ?? message?.user ?? deleted?.user) === self;

/**
 * Returns whether an event mentions the agent. An app that is subscribed to a channel's messages gets a mention as one
 * of those as well.
 */
const isMention = (event: SlackEvent, self: string | undefined): boolean =>
  event.type === "app_mention" ||
  (self !== undefined &&
    [`<@${self}>`, `<@${self}|`].some((mark) => getWords(event).includes(mark)));

/** Returns why a message is not for the agent, by its kind and its author's. */
function getSkipReason({ bot_id, subtype }: SlackEvent): string | undefined {
  if (bot_id !== undefined) return "the message was written by a bot";
  if (WRITTEN.has(subtype)) return undefined;
  return `a notice of slack (${/^\w{1,40}$/.exec(subtype ?? "")?.[0]}), not a message of a person`;
}

/** Shows a text to one person in a conversation. */
type Show = (channel: string, user: string, text: string) => Promise<unknown>;

function createShow(context: SlackContext): Show {
  const connect = createClient(context);
  return async (channel, user, text) => {
    const client = await connect(AbortSignal.timeout(SHOW_MS));
    await client.chat.postEphemeral({ channel, user, text });
  };
}

/** Passes the presses of buttons on and gives what is to be shown; undefined for a payload of another kind. */
async function takePress(
  payload: SlackPayload,
  host: ChannelHost,
  members: Members,
): Promise<Parameters<Show> | undefined> {
  const { type, user, channel, container, actions = [] } = payload;
  const [action] = actions;
  const decision = type === "block_actions" ? parseDecision(action?.value ?? "") : undefined;
  if (!decision || user?.id === undefined) return undefined;
  const id = [container?.message_ts, action?.action_ts, user.id].join(" ");
  const { text } = await host.decide({
    id,
    from: user.id,
    language: (await members.find(user.id))?.language,
    ...decision,
  });
  return [channel?.id ?? "", user.id, text];
}

/** Returns whether the vendor signed these bytes just now. */
function signed(raw: Uint8Array, headers: Headers, secret: string, now: number): boolean {
  const timestamp = headers.get("x-slack-request-timestamp") ?? "";
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > TOLERANCE_S)
    return false;
  return sameSecret(
    headers.get("x-slack-signature") ?? "",
    `v0=${hmacSha256(secret, `v0:${timestamp}:`, raw)}`,
  );
}

/** The vendor's Events API, at `/channels/slack/events`, presses of buttons, at `/channels/slack/interactions`, and slash commands, at `/channels/slack/commands`. */
export function createEvents(
  secret: string,
  context: SlackContext,
): Required<Pick<Channel, "request">> {
  const isSigned = (raw: Uint8Array, headers: Headers): boolean =>
    signed(raw, headers, secret, context.clock.now());
  const hook = { path: "/events", signed: isSigned };
  const show = createShow(context);
  const members = createMembers(context);
  return {
    async request(request, host) {
      if (new URL(request.url).pathname.endsWith("/interactions")) {
        const press = await parseWebhook<SlackPayload>(request, {
          signed: isSigned,
          field: "payload",
        });
        if (!press.ok) return press.response;
        const shown = await takePress(press.body, host, members);
        // The vendor waits three seconds for its answer.
        if (shown) void show(...shown).catch(() => undefined);
        return new Response("");
      }
      if (new URL(request.url).pathname.endsWith("/commands")) {
        const posted = await parseWebhook<SlashCommand>(request, { signed: isSigned, form: true });
        if (!posted.ok) return posted.response;
        const command = readCommand(posted.body);
        if (command) await host.receive(await members.complete(command));
        return new Response("");
      }
      const read = await parseWebhook<SlackPayload>(request, hook);
      if (!read.ok) return read.response;
      if (read.body.type === "url_verification")
        return Response.json({ challenge: String(read.body.challenge) });
      const message = readEvent(read.body);
      // If this fails, the vendor gets a 500 and sends the event again.
      if (message) await host.receive(await members.complete(message));
      return new Response("");
    },
  };
}

interface Envelope {
  body: SlackPayload & SlashCommand;
  ack(): Promise<void>;
}

/**
 * Socket Mode: connections from here to the vendor, so no public address is needed. What is not acknowledged comes again.
 * `load` loads the vendor's client; a test may bring another.
 */
export function createSocket(
  context: SlackContext,
  appToken: string,
  load: () => Promise<Pick<typeof SocketMode, "SocketModeClient">> = () =>
    import("@slack/socket-mode"),
  { helloMs = HELLO_MS, stableMs }: { helloMs?: number; stableMs?: number } = {},
): Required<Pick<Channel, "listen">> {
  const show = createShow(context);
  const members = createMembers(context);
  const take = async ({ body, ack }: Envelope, host: ChannelHost): Promise<void> => {
    const message = readEvent(body) ?? readCommand(body);
    let shown: Parameters<Show> | undefined;
    try {
      shown = await takePress(body, host, members);
      if (message) await host.receive(await members.complete(message));
    } catch {
      return host.report({
        ok: false,
        message: "a message could not be written down; slack sends it again",
      });
    }
    if (message) host.report({ ok: true, message: "connected" });
    // An acknowledgement that is lost means a repeat with the same id.
    await ack().catch(() => {});
    if (shown) await show(...shown).catch(() => undefined);
  };

  const connect = (signal: AbortSignal, host: ChannelHost): Promise<void> =>
    withConnection(
      signal,
      { helloMs, unopened: "the socket cannot be opened" },
      async (connection) => {
        const { SocketModeClient } = await loadPackage(
          "@slack/socket-mode",
          load,
          advice("@slack/socket-mode"),
        );
        const client = new SocketModeClient({
          appToken,
          // A start that fails inside the client's own reconnecting is a rejection that nobody can catch.
          autoReconnectEnabled: false,
          logger: silent,
          clientOptions: clientOptions(context, connection.signal),
        });
        // The client's reader rejects if a frame lacks its parts. The client does not handle that, so it would end the process.
        const [read] = client.listeners("ws_message") as ((...frame: unknown[]) => Promise<void>)[];
        client
          .removeAllListeners("ws_message")
          .on("ws_message", (...frame) => void read?.(...frame).catch(() => undefined));
        client.once("disconnected", () => connection.ended());
        client.on("slack_event", (envelope: Envelope) =>
          connection.inOrder(() => take(envelope, host)),
        );
        // The client rejects with nothing where the connection ends before its greeting, or not at all where nobody answers.
        client.start().then(() => {
          connection.greeted();
          if (!connection.signal.aborted) host.report({ ok: true, message: "connected" });
        }, connection.fail);
        return () => client.disconnect();
      },
    );

  // The vendor ends a good connection every few hours: then the next one comes at once.
  return {
    listen: (signal, host) =>
      reconnectLoop(signal, host, {
        connect: (to) => connect(signal, to),
        vendor: VENDOR,
        stableMs,
      }),
  };
}
