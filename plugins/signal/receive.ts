import { findNumber, listenToEvents, toEdit, toIncomingMessage } from "#channel-kit";
import type { ChannelHost, IncomingMessage, ReceivedMessage } from "#plugin";
import { readParts, type Party, type SignalContent } from "./content.ts";
import { createFileFetcher, withWholeText } from "./files.ts";
import { createRpc, NO_ACCOUNT, VENDOR, type Daemon } from "./send.ts";

/** The daemon sends something every 15 seconds; after so long without, the connection is dead. */
const SILENCE_MS = 60_000;
/** By how much the clocks of Signal and of this machine may differ. */
const SKEW_MS = 60_000;

type FetchFile = ReturnType<typeof createFileFetcher>;

interface DataMessage extends SignalContent {
  timestamp?: number;
  groupInfo?: { groupId?: string; groupName?: string | null };
  reaction?: unknown;
  remoteDelete?: unknown;
  storyContext?: unknown;
}
interface EventData {
  exception?: { type?: string };
  envelope?: {
    sourceNumber?: string | null;
    sourceUuid?: string | null;
    sourceName?: string | null;
    timestamp?: number;
    serverReceivedTimestamp?: number;
    dataMessage?: DataMessage;
    editMessage?: { targetSentTimestamp?: number; dataMessage?: DataMessage };
  };
}

/** A message for the agent, or why it is not for it; undefined for its own, for receipts, reactions, typing and stories. */
async function toMessage(
  { envelope = {}, exception }: EventData,
  { account, allowFrom }: Daemon,
  fetchFile: FetchFile,
): Promise<ReceivedMessage | undefined> {
  const { sourceNumber: number, sourceUuid: uuid, editMessage: edit } = envelope;
  const said = edit ? edit.dataMessage : envelope.dataMessage;
  const isSelf = (party: Party): boolean => party.number === account || party.uuid === account;
  const author = uuid ?? number;
  const id = `${said?.timestamp ?? envelope.timestamp ?? 0}:${author ?? "unknown"}`;
  if (isSelf({ number, uuid })) return undefined;
  if (exception)
    return {
      id,
      skipped: `the daemon could not read the message (${getExceptionKind(exception)})`,
    };
  if (!said || isNotice(said)) return undefined;
  if (!author) return { id, skipped: "the message names no sender" };
  const { to } = getConversation(said, uuid ? `uuid:${uuid}` : author);
  const whole = await withWholeText(said, to, fetchFile);
  const target = edit?.targetSentTimestamp;
  if (target === undefined) return readWritten(whole, { id, author, envelope, allowFrom, isSelf });
  // Of a message that was edited before, Signal names the edit before.
  const edited = { id: `${target}:${author}`, author, envelope, allowFrom, isSelf };
  return toEdit(readWritten(whole, edited), id, target);
}

/** The author of a message, and the facts that identify the agent's own account. */
interface Origin extends Pick<IncomingMessage, "id">, Pick<Daemon, "allowFrom"> {
  author: string;
  envelope: NonNullable<EventData["envelope"]>;
  isSelf(party: Party): boolean;
}

/** Reads a message of a person, for the agent or not. */
function readWritten(
  said: DataMessage,
  { id, author, envelope, allowFrom, isSelf }: Origin,
): ReceivedMessage {
  const { sourceNumber: number, sourceUuid: uuid } = envelope;
  const from = uuid ? `uuid:${uuid}` : author;
  const { mentions, quote } = said;
  const place = getConversation(said, from);
  return toIncomingMessage({
    id,
    from: getSender(from, number, allowFrom),
    name: envelope.sourceName ?? undefined,
    ...place,
    mentioned:
      mentions?.some(isSelf) || isSelf({ number: quote?.authorNumber, uuid: quote?.authorUuid }),
    parts: readParts(said, { to: place.to, isSelf }),
  });
}

const isNotice = ({ reaction, remoteDelete, storyContext }: DataMessage): boolean =>
  Boolean(reaction || remoteDelete || storyContext);

/** Whoever the config lists by number is known by it; the account id is what never changes. */
function getSender(
  from: string,
  number: string | null | undefined,
  allowFrom: readonly string[],
): string {
  const listed = number && findNumber(number, allowFrom);
  return listed && !allowFrom.includes(from) ? listed : from;
}

/** Returns where a message was written: in a group, or to the agent alone. */
function getConversation(
  { groupInfo }: DataMessage,
  from: string,
): Pick<IncomingMessage, "to" | "direct" | "room"> {
  if (groupInfo?.groupId === undefined) return { to: from, direct: true };
  return {
    to: `group:${groupInfo.groupId}`,
    direct: false,
    room: { kind: "group", name: groupInfo.groupName ?? undefined },
  };
}

/** Returns the kind of an error of the daemon, as a word that quotes nothing. */
function getExceptionKind({ type = "" }: NonNullable<EventData["exception"]>): string {
  return /^\w{1,60}$/.exec(type)?.[0] ?? "error";
}

/** Follows the daemon's stream until `signal` aborts. */
export function listen(daemon: Daemon, signal: AbortSignal, host: ChannelHost): Promise<void> {
  const { url, account, fetch, log, now } = daemon;
  const fetchFile = createFileFetcher(createRpc(daemon));
  const stream = {
    vendor: VENDOR,
    fetch,
    log,
    now,
    silenceMs: SILENCE_MS,
    skewMs: SKEW_MS,
    url: `${url}/api/v1/events?account=${encodeURIComponent(account)}`,
    statuses: { 400: NO_ACCOUNT.reason },
    at: (event: EventData) => event.envelope?.serverReceivedTimestamp ?? event.envelope?.timestamp,
    read(event: EventData) {
      if (event.exception)
        log.warn(`the daemon could not read a message (${getExceptionKind(event.exception)})`);
      return toMessage(event, daemon, fetchFile);
    },
  };
  return listenToEvents(stream, signal, host);
}
