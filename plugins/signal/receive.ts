import { setTimeout as sleep } from "node:timers/promises";
import type { ChannelHost, IncomingMessage, PluginLog } from "#plugin";
import { errorCode, type Daemon } from "./send.ts";

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
/** The daemon sends something every 15 seconds; after so long without, the connection is dead. */
const SILENCE_MS = 60_000;
/** A cursor of ours, before the daemon gave one: its time. The daemon takes it for an id that it has forgotten, and sends all it kept. */
const SINCE = "rouse-since-";
/** By how much the clocks of Signal and of this machine may differ. */
const SKEW_MS = 60_000;

interface Party {
  number?: string | null | undefined;
  uuid?: string | null | undefined;
}
interface DataMessage {
  timestamp?: number;
  message?: string | null;
  groupInfo?: { groupId?: string };
  mentions?: (Party & { name?: string | null; start?: number; length?: number })[];
  quote?: { authorNumber?: string | null; authorUuid?: string | null };
  reaction?: unknown;
  remoteDelete?: unknown;
  storyContext?: unknown;
}
interface EventData {
  exception?: { type?: string };
  envelope?: {
    sourceNumber?: string | null;
    sourceUuid?: string | null;
    timestamp?: number;
    serverReceivedTimestamp?: number;
    dataMessage?: DataMessage;
  };
}

/** What `listen` needs besides the host. */
export interface Listener extends Daemon {
  /** Normalised. */
  allowFrom: readonly string[];
  log: PluginLog;
  now(): number;
}

/** A message of the stream; undefined for everything that is not somebody's text for the agent. */
export function toMessage(data: EventData, { account, allowFrom }: Pick<Listener, "account" | "allowFrom">): IncomingMessage | undefined {
  const { envelope } = data;
  const said = envelope?.dataMessage;
  const { sourceNumber: number, sourceUuid: uuid } = envelope ?? {};
  const author = uuid ?? number;
  const isSelf = (party: Party): boolean => party.number === account || party.uuid === account;
  if (!said?.message || !author || said.reaction || said.remoteDelete || said.storyContext || isSelf({ number, uuid })) return;
  const from = uuid ? `uuid:${uuid}` : author;
  const group = said.groupInfo?.groupId;
  const mentioned = said.mentions?.some(isSelf) || isSelf({ number: said.quote?.authorNumber, uuid: said.quote?.authorUuid });
  if (group !== undefined && !mentioned) return;
  const text = withNames(said, isSelf).trim();
  if (text === "") return;
  return {
    id: `${said.timestamp ?? envelope?.timestamp ?? 0}:${author}`,
    // Whoever the config lists by number is known by it; the account id is what never changes.
    from: number && allowFrom.includes(number) && !allowFrom.includes(from) ? number : from,
    to: group === undefined ? from : `group:${group}`,
    direct: group === undefined,
    text,
  };
}

/** The text with a name in the place of each mention, which Signal leaves empty; the agent's own goes. */
function withNames({ message, mentions = [] }: DataMessage, isSelf: (party: Party) => boolean): string {
  let text = message ?? "";
  for (const mention of mentions.toSorted((a, b) => (b.start ?? 0) - (a.start ?? 0))) {
    const start = mention.start ?? 0;
    const name = isSelf(mention) ? "" : `@${mention.name ?? mention.number ?? mention.uuid ?? ""}`;
    text = text.slice(0, start) + name + text.slice(start + (mention.length ?? 1));
  }
  return text;
}

/** Follows the daemon's stream until `signal` aborts; comes back after every end of it, later each time. */
export async function listen(listener: Listener, signal: AbortSignal, host: ChannelHost): Promise<void> {
  let place = await host.cursor();
  let wait = FIRST_WAIT_MS;
  const connected = async (): Promise<void> => {
    wait = FIRST_WAIT_MS;
    if (place === undefined) await host.saveCursor((place = `${SINCE}${listener.now()}`));
    host.report({ ok: true, message: "listening" });
  };
  while (!signal.aborted) {
    const reason = await follow(listener, signal, host, place, connected, (id) => (place = id));
    if (signal.aborted) return;
    host.report({ ok: false, message: `${reason}; trying again in ${wait / 1000} s` });
    await sleep(wait, undefined, { signal }).catch(() => undefined);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

/** One connection. Returns why it ended. */
async function follow(
  listener: Listener,
  signal: AbortSignal,
  host: ChannelHost,
  lastEventId: string | undefined,
  connected: () => Promise<void>,
  passed: (id: string) => void,
): Promise<string> {
  const stop = new AbortController();
  const silence = setTimeout(() => stop.abort(), SILENCE_MS);
  try {
    const parserModule = await import("eventsource-parser").catch(() => undefined);
    if (!parserModule) return "receiving needs a package: run `npm install eventsource-parser`";
    const { url, account, fetch } = listener;
    const response = await fetch(`${url}/api/v1/events?account=${encodeURIComponent(account)}`, {
      headers: { accept: "text/event-stream", ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }) },
      signal: AbortSignal.any([signal, stop.signal]),
    });
    if (response.status === 400) return "the daemon does not have the account of channels.signal.account";
    if (!response.ok || !response.body) return `the daemon's address answered ${response.status} to /api/v1/events`;
    await connected();
    const since = lastEventId?.startsWith(SINCE) ? Number(lastEventId.slice(SINCE.length)) - SKEW_MS : 0;
    const events: { id?: string | undefined; data: string }[] = [];
    const parser = parserModule.createParser({ onEvent: (event) => events.push(event) });
    const decoder = new TextDecoder();
    for await (const chunk of response.body) {
      silence.refresh();
      parser.feed(decoder.decode(chunk, { stream: true }));
      for (const { id, data } of events.splice(0)) {
        const message = read(data, listener, since);
        if (message) await host.receive(message);
        if (id === undefined) continue;
        passed(id);
        // Only a message moves the stored place: coming again past receipts and typing does no harm.
        if (message) await host.saveCursor(id);
      }
    }
    return "the daemon closed the stream";
  } catch (error) {
    return stop.signal.aborted ? "the stream fell silent" : `the daemon's stream failed (${errorCode(error)})`;
  } finally {
    clearTimeout(silence);
  }
}

function read(text: string, listener: Listener, since: number): IncomingMessage | undefined {
  let data: EventData;
  try {
    data = JSON.parse(text) as EventData;
  } catch {
    listener.log.warn("an event of the stream was not JSON");
    return undefined;
  }
  if (data.exception)
    listener.log.warn(`the daemon could not read a message (${/^\w{1,60}$/.exec(data.exception.type ?? "")?.[0] ?? "error"})`);
  const sentAt = data.envelope?.serverReceivedTimestamp ?? data.envelope?.timestamp ?? Infinity;
  return sentAt < since ? undefined : toMessage(data, listener);
}
