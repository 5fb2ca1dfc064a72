/** Finds the sender of a message, its agent and its session, and the command if it is one. */
import type { IncomingMessage } from "../contract/channel.ts";
import { getPlace } from "../people/agent-choices.ts";
import { parsePersonDecision, type PairingResult } from "../people/pairings.ts";
import { splitPerson } from "../people/policy.ts";
import {
  channelSession,
  mainSession,
  personSession,
  type MessageCommand,
  type SessionRef,
} from "../store/types.ts";
import { parseCommand } from "../turns/channel/commands.ts";
import { parseDecision } from "../vocabulary/decision.ts";
import type { RateLimit, RateLimiter } from "./callers.ts";
import type { IntakeDeps } from "./context.ts";
import type { Snapshot } from "./types.ts";

/** The decision whether a message is processed. One that is not `recorded` leaves no event either. */
type SenderCheck = { ok: true } | { ok: false; reason: string; recorded: boolean };

/** The parts that process one message or press. */
export interface MessageDeps extends IntakeDeps {
  context: Snapshot;
  now: number;
  /** Limits the events of strangers, by channel. */
  strangers: RateLimiter;
}

/** So many messages of strangers to one channel leave events, and as many more each hour: a flood must not fill the store. */
const STRANGERS: RateLimit = { requests: 100, per: 3_600_000 };

const WHY: Record<Exclude<PairingResult, "approved">, string> = {
  asked: "a code was sent to the person, who waits for approval",
  waiting: "the person has a code, and waits for approval",
  denied: "the person was denied",
  too_many: "too many people have asked within an hour: no code was sent",
};

const denied = (reason: string): SenderCheck => ({ ok: false, reason, recorded: true });

/** Checks whether a person may write to the agent. A stranger on a channel with `dmPolicy: "pairing"` may be sent a code. */
export async function checkSender(
  channel: string,
  message: IncomingMessage,
  { context: { channels }, people, strangers }: MessageDeps,
): Promise<SenderCheck> {
  const { from, direct } = message;
  const { allowFrom = [], dmPolicy = "allowlist" } = channels.get(channel)?.channel ?? {};
  if (direct && dmPolicy === "closed")
    return denied(`dmPolicy of channels.${channel} is "closed": no direct message is answered`);
  if (allowFrom.includes(from) || (direct && dmPolicy === "open")) return { ok: true };
  if (!direct || dmPolicy !== "pairing")
    return denied(`"${from}" is not in allowFrom of channels.${channel}: nothing is answered`);
  const admitted = await people.pairings.admit(channel, message);
  if (admitted === "approved") return { ok: true };
  return {
    ok: false,
    reason: `pairing: ${WHY[admitted]}`,
    recorded: !strangers.take(channel, STRANGERS),
  };
}

/** Returns the id of the agent of a message: the one that people have chosen for the conversation, else that of its binding. */
async function findAgentId(
  channel: string,
  message: IncomingMessage,
  personId: string | undefined,
  { context: { rooms }, people }: MessageDeps,
): Promise<string> {
  const choices = rooms.choicesFor(channel, message).map(({ id }) => id);
  const chosen =
    choices.length > 1
      ? await people.agentChoices.get(getPlace(channel, { ...message, personId }))
      : undefined;
  return chosen !== undefined && choices.includes(chosen)
    ? chosen
    : rooms.agentFor(channel, message).id;
}

/**
 * Returns the session of a message. Direct messages of the owner use the main session of their agent; with `dmScope: "shared"` those
 * of all in `allowFrom` to the default agent use its main session. Those of a linked person use one session on all channels.
 */
export async function findSession(
  channel: string,
  message: IncomingMessage,
  isOwner: boolean,
  deps: MessageDeps,
): Promise<{ session: SessionRef; personId?: string }> {
  const { agents, config, channels } = deps.context;
  const { from, direct } = message;
  // A link neither makes an owner nor reaches the main session.
  const personId =
    direct && !isOwner ? await deps.people.links.find({ channel, person: from }) : undefined;
  const agentId = await findAgentId(channel, message, personId, deps);
  const isAllowed = channels.get(channel)?.channel.allowFrom?.includes(from) === true;
  const isShared =
    config.sessions.dmScope === "shared" && agentId === agents.default.id && isAllowed;
  if (direct && (isOwner || isShared))
    return { session: mainSession(agentId), ...(personId !== undefined && { personId }) };
  if (personId !== undefined) return { session: personSession(agentId, personId), personId };
  return { session: channelSession(agentId, channel, message) };
}

/**
 * Returns whether there are people on channels who may decide: without them `approve 7f3` is a message as any other.
 */
const hasApprovers = ({ approvers, channels }: Snapshot): boolean =>
  approvers.some((approver) => splitPerson(approver, channels)?.loaded);

/** The command that a message is, with what it decides; undefined for any other message. */
export function readCommand(text: string, context: Snapshot): MessageCommand | undefined {
  const approvers = hasApprovers(context);
  const decision = approvers ? parseDecision(text) : undefined;
  if (decision) return { name: "decide", decision };
  const pairing = approvers ? parsePersonDecision(text) : undefined;
  if (pairing) return { name: "pair", decision: pairing };
  return parseCommand(text);
}

/** Returns whether a text is the decision of an approver, who need not be one who may speak to the agent. */
export const isDecision = (text: string, person: string, { approvers }: Snapshot): boolean =>
  approvers.includes(person) && (parseDecision(text) ?? parsePersonDecision(text)) !== undefined;
