import { stripAck } from "../agent/ack.ts";
import { disarm } from "../agent/reply/disarm.ts";
import { ECHO } from "../agent/models.ts";
import type { TurnInput, InputImage } from "../agent/types.ts";
import { planDelivery, type Planned, parseSendKey } from "../delivery/plan.ts";
import { getPhrases, renderSilence } from "../vocabulary/phrases.ts";
import {
  type Job,
  type Ms,
  type RouteDecision,
  type RunRecord,
  sessionId,
  type Reads,
  type Store,
  type RunSpec,
} from "../store/types.ts";
import {
  toQuestion,
  renderOutside,
  renderThread,
  findMessagePart,
  toReadParts,
} from "./channel/channel-input.ts";
import { collectMessages } from "./channel/collect-messages.ts";
import { resetHistory } from "./channel/commands.ts";
import type { AnsweredTurn, FailedTurn, LoadedRun, RunEnd, RunKind } from "./run-kind.ts";
import { NO_HISTORY, getLastTurn } from "./session-history.ts";
import { appendTurn, decideRoute, planAnswer, replyRoute, summaryEvent } from "./run-result.ts";
import { readAttached } from "./channel/send-file.ts";
import type { TurnDeps } from "./context.ts";
import type { ActionContext, RunJob } from "./types.ts";
import type { Attachment, EarlierMessage, ThreadMessage } from "../contract/channel.ts";
import type { LoadedChannel } from "../delivery/channels.ts";
import { labelledText, type TextPart } from "../core/text.ts";
import { readAttachments, type AttachmentDeps } from "./channel/attachments.ts";

/** A channel's message with all that it refers to. */
interface WholeMessage {
  spec: RunSpec;
  /** The edits that `spec` holds. */
  edits: number;
  /** What was written, without what it refers to. */
  text: readonly TextPart[];
  images: readonly InputImage[];
  warnings: string[];
}

interface UnreadDeps extends AttachmentDeps {
  store: Reads;
}

const ASK_MS = 10_000;
/** Runs among which a message that was quoted is looked for. */
const MAX_RUNS = 100;

/** Asks the channel; undefined if it fails or takes too long. */
async function ask<T>(
  question: ((signal: AbortSignal) => Promise<T>) | undefined,
  signal: AbortSignal,
): Promise<T | undefined> {
  try {
    return await question?.(AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]));
  } catch {
    return undefined;
  }
}

/** Finds a message among those that the session keeps: one that came in, or a reply. */
async function findRecorded(
  id: string,
  { spec }: RunRecord,
  store: UnreadDeps["store"],
): Promise<EarlierMessage | undefined> {
  const runs = await store.runs.list({ sessionKey: spec.session.key, limit: MAX_RUNS });
  for (const run of runs) {
    const { incoming, channel, input } = run.spec;
    if (channel !== spec.channel || run.spec.session.agentId !== spec.session.agentId || !incoming)
      continue;
    const part = findMessagePart(id, run.spec);
    // The first part of a message names the place.
    if (part)
      return {
        author: part.from,
        text: labelledText(input.slice(part.start + 1, part.start + part.count)),
      };
    const delivery =
      run.deliveryId === undefined ? undefined : await store.deliveries.get(run.deliveryId);
    if (run.reply !== undefined && delivery?.messageIds.includes(id))
      return { author: "you", text: run.reply };
  }
  return undefined;
}

/** What was written before, and its files. */
interface Earlier {
  parts: TextPart[];
  attachments: Attachment[];
}

const toThread = (messages: readonly EarlierMessage[]): Earlier => ({
  parts: renderThread(messages),
  attachments: messages.flatMap(({ attachments = [] }) => attachments),
});

async function readQuoted(
  id: string,
  run: RunRecord,
  { channel }: LoadedChannel,
  deps: UnreadDeps,
  signal: AbortSignal,
): Promise<Earlier> {
  const { to = "" } = run.spec;
  const asked = await ask(
    channel.findQuoted &&
      ((limited) => channel.findQuoted?.({ id, to }, limited) ?? Promise.resolve(undefined)),
    signal,
  );
  const found = asked ??
    (await findRecorded(id, run, deps.store)) ?? { text: "[it is not known here]" };
  return {
    parts: renderOutside("quoted", found),
    attachments: [...(found.attachments ?? [])],
  };
}

/** Keeps the messages of a thread that the session does not have. */
async function findUnseen(
  listed: readonly ThreadMessage[],
  run: RunRecord,
  store: UnreadDeps["store"],
): Promise<ThreadMessage[]> {
  const { session } = run.spec;
  const runs = await store.runs.list({
    sessionKey: session.key,
    before: run.id,
    limit: MAX_RUNS,
  });
  const earlier = runs.filter(
    ({ spec, status }) =>
      spec.session.agentId === session.agentId && spec.incoming && status === "succeeded",
  );
  const toIds = ({ spec }: RunRecord): string[] =>
    spec.incoming ? [...(spec.incoming.joined ?? []), spec.incoming.replyTo] : [];
  const deliveries = await Promise.all(
    earlier.map(({ deliveryId }) =>
      deliveryId === undefined ? undefined : store.deliveries.get(deliveryId),
    ),
  );
  const answered = new Set(earlier.flatMap(toIds));
  const own = new Set([
    ...toIds(run),
    ...deliveries.flatMap((delivery) => delivery?.messageIds ?? []),
  ]);
  const replies = new Set(earlier.map(({ deliveryId }) => deliveryId));
  // The ids of a reply's messages are not known while it is sent, and if its outcome is unknown.
  const isReply = ({ idempotencyKey: key }: ThreadMessage): boolean =>
    key !== undefined && replies.has(parseSendKey(key).id);
  const [newest] = earlier;
  // Not the time at which the turn ended: what was written meanwhile was not there to be read.
  const at = newest?.createdAt ?? (await getLastTurn(store, session))?.at ?? 0;
  const last = listed.findLastIndex(({ id }) => answered.has(id));
  const unseen = last < 0 ? listed.filter((message) => message.at > at) : listed.slice(last + 1);
  return unseen
    .filter((message) => !own.has(message.id) && !isReply(message))
    .filter(({ text, attachments = [] }) => text.trim() !== "" || attachments.length > 0);
}

/** Lists what was written in the message's thread since the agent's last turn in it. */
async function readThread(
  run: RunRecord,
  { channel }: LoadedChannel,
  { limit, deps, signal }: { limit: number; deps: UnreadDeps; signal: AbortSignal },
): Promise<Earlier> {
  const { to = "", incoming } = run.spec;
  const { thread, replyTo: before } = incoming ?? {};
  if (limit === 0 || !channel.listThread || thread === undefined || before === undefined)
    return toThread([]);
  const listThread = channel.listThread.bind(channel);
  const listed =
    (await ask((limited) => listThread({ to, thread, before, limit }, limited), signal)) ?? [];
  const unseen = (await findUnseen(listed, run, deps.store)).slice(-limit);
  return toThread(unseen);
}

/** Fetched again if edits keep changing what a message refers to. */
const MAX_READS = 3;

const hasSameUnread = (one: RunSpec, other: RunSpec): boolean =>
  JSON.stringify(one.unread) === JSON.stringify(other.unread);

/**
 * Gets what a channel's message refers to: its files, what it quotes, and what was written in its thread. What is text becomes
 * part of the input and is kept with the run, so that another attempt reads it no more; undefined if nothing is missing.
 */
async function readUnread(
  given: RunRecord,
  { channels, config }: Pick<ActionContext, "channels" | "config">,
  deps: UnreadDeps,
  signal: AbortSignal,
): Promise<WholeMessage | undefined> {
  let run = given;
  for (let reads = 1; ; reads++) {
    const { unread, channel: id } = run.spec;
    const loaded = channels.get(id);
    const text = run.spec.input;
    const { edits = 0 } = run;
    const gone = `the channel "${id}" is gone, so what came with the message was not fetched`;
    if (!unread && reads === 1) return undefined;
    if (!unread || !loaded)
      return { spec: run.spec, edits, text, images: [], warnings: unread ? [gone] : [] };
    const { quotedIds = [], hasThread } = unread;
    const thread = hasThread
      ? await readThread(run, loaded, { limit: config.threads.messages, deps, signal })
      : toThread([]);
    const quoted = await Promise.all(
      quotedIds.map((one) => readQuoted(one, run, loaded, deps, signal)),
    );
    const attachments = [
      ...(unread.attachments ?? []),
      ...quoted.flatMap((one) => one.attachments),
      ...thread.attachments,
    ];
    const { parts, images, kept } = await readAttachments(
      attachments,
      { channel: loaded.channel, config },
      deps,
      signal,
    );
    const latest = (await deps.store.runs.get(run.id)) ?? run;
    const isSame = hasSameUnread(latest.spec, run.spec);
    run = latest;
    if (!isSame && reads < MAX_READS) continue;
    const { unread: _unread, ...spec } = latest.spec;
    const input = [...thread.parts, ...spec.input, ...quoted.flatMap((one) => one.parts), ...parts];
    const read = {
      ...spec,
      input,
      parts: toReadParts(latest.spec, thread.parts.length),
      ...(kept.length > 0 && { unread: { attachments: kept } }),
      ...(attachments.length > 0 && { received: spec.received ?? attachments }),
    };
    return { spec: read, edits: latest.edits ?? 0, text: spec.input, images, warnings: [] };
  }
}

/** What a run finds of its session. */
interface OpenedSession {
  /** Whether the session has no turn yet. */
  isNew: boolean;
  warning?: string;
}

/**
 * Looks at a hook run's session before its turn.
 * @returns with a warning if the session is new and another path or credential has one with the same key.
 */
async function openSession(run: RunRecord, store: Store): Promise<OpenedSession> {
  const { session } = run.spec;
  if (session.origin !== "hook") return { isNew: false };
  const sameKey = await store.sessions.listOfHooks({ agentId: session.agentId, key: session.key });
  const id = sessionId(session);
  if (sameKey.some(({ ref }) => sessionId(ref) === id)) return { isNew: false };
  const others = sameKey.filter(({ turns }) => turns > 0);
  if (others.length === 0) return { isNew: true };
  return {
    isNew: true,
    warning:
      "sessionKey: another path or credential has a session with this key; this one is new and empty (hooks.sharedSessions names keys that paths share)",
  };
}

const isHook = ({ kind }: RunRecord): boolean => kind === "hook";
const isMessage = ({ kind }: RunRecord): boolean => kind === "channel";

/** Only the owner's direct messages to the main session set the last route: replies to `last` must reach no other person. */
function movesLastRoute({ spec: { session, incoming } }: RunRecord): boolean {
  return session.origin === "main" && incoming?.direct === true && incoming.owner === true;
}

/**
 * Whether the owner's main session hears how a run ended. What others asked the agent for in their own conversation is no
 * business of the owner's.
 */
const isSummarised = ({ kind, spec }: RunRecord): boolean =>
  kind !== "channel" && spec.schedule?.asked?.session.origin !== "channel";

/** What the run of a hook, a schedule or a channel's message adds to the model's input. */
function buildInput({ kind, mapping, spec }: RunRecord): Partial<TurnInput> {
  return {
    // The trusted line names the mapping: its id is the operator's word. The path may be the sender's, if the mapping takes any.
    ...(kind === "hook" ? { hook: mapping ?? spec.hook } : { source: spec.hook }),
    ...(spec.instructions === undefined ? {} : { instructions: spec.instructions }),
  };
}

/** Whether only the owner reads the answer to a message, who may know what is the operator's. */
const isToOwner = ({ incoming }: RunRecord["spec"]): boolean =>
  incoming?.direct === true && incoming.owner === true;

/** A person who writes on a channel waits for an answer: a turn that failed says so there, and why if the person is the owner, alone. */
function planApology(
  { id, spec, route }: RunRecord,
  { code, message }: FailedTurn,
  context: ActionContext,
  now: Ms,
): Planned | undefined {
  const back = route?.status === "route" ? route.route : replyRoute(spec);
  if (code === "cancelled" || !back) return undefined;
  const phrases = getPhrases(spec.incoming?.language);
  // An error's message may quote the provider.
  const text = isToOwner(spec) ? disarm(phrases.apologyToOwner(message, id)) : phrases.apology;
  return planDelivery({ runId: id, route: back, text, channels: context.channels, now });
}

/** The text of an answer. A person who writes on a channel hears if there is none; HEARTBEAT_OK alone asks for silence. */
function toReply(run: RunRecord, { text, finish, model }: AnsweredTurn, hasFiles: boolean): string {
  const { spec } = run;
  const language = spec.incoming?.language;
  if (!isMessage(run)) return stripAck(text);
  // What the echo says about the config is the operator's.
  if (model === ECHO.ref && !isToOwner(spec)) return getPhrases(language).apology;
  return text.trim() === "" && !hasFiles ? renderSilence(finish, language) : stripAck(text);
}

async function loadRun(
  job: Job,
  runId: string,
  context: ActionContext,
  deps: TurnDeps,
): Promise<LoadedRun | undefined> {
  const { store } = deps;
  const run = await store.runs.get(runId);
  if (!run || run.status === "cancelled" || run.endedAt !== undefined) {
    await store.commit((tx) => tx.jobs.settle(job), job);
    return undefined;
  }
  if (run.spec.command !== undefined) {
    await resetHistory(job, run, deps);
    return undefined;
  }
  // What people say on channels, and what the operator has planned, is not counted against the hooks.
  if (run.kind === "channel") {
    const collected = await collectMessages(job, run, context, deps);
    return (
      collected && {
        run: collected,
        agent: context.agents.get(run.spec.session.agentId),
        isStored: true,
      }
    );
  }
  const admission = isHook(run) ? deps.admission : undefined;
  return { run, agent: context.agents.get(run.spec.session.agentId), isStored: true, admission };
}

/** The run of a hook, of a schedule or of a channel's message: turn, summary and delivery. */
export function createHookRun(
  job: Job,
  { runId }: RunJob,
  deps: TurnDeps,
  signal: AbortSignal,
): RunKind {
  const { store } = deps;
  const context = deps.snapshot();
  const mainAgentId = context.agents.default.id;
  return {
    context,
    job,
    canAsk: true,
    isRetried: true,
    start: "before",
    load: () => loadRun(job, runId, context, deps),
    async prepare(run, agent, mayWait) {
      const { isNew, warning } = await openSession(run, store);
      const whole = await readUnread(run, context, { ...deps.attachments, store, mayWait }, signal);
      const added = [...(warning === undefined ? [] : [warning]), ...(whole?.warnings ?? [])];
      const warnings = [...new Set([...run.warnings, ...added])];
      const route = await decideRoute(run, context, deps);
      return {
        input: {
          ...buildInput(run),
          ...(whole && whole.images.length > 0 && { images: whole.images }),
        },
        ...(whole && { question: toQuestion(whole.text) }),
        ...(isNew && { history: NO_HISTORY }),
        change: {
          warnings,
          route,
          ...(whole && !signal.aborted && { spec: whole.spec, edits: whole.edits }),
        },
        write(tx) {
          if (movesLastRoute(run) && route.status === "route")
            tx.sessions.setLastRoute({ agentId: agent.id, at: run.createdAt, ...route.route });
        },
      };
    },
    async finish(run, result, now, steps) {
      const files = result.ok ? await readAttached(run, steps, store) : [];
      const end: Omit<RunEnd, "write"> = result.ok
        ? planAnswer(
            run,
            {
              ...result,
              text: toReply(run, result, files.length > 0),
              route: run.route as RouteDecision,
              files,
            },
            context,
            now,
          )
        : { planned: isMessage(run) ? planApology(run, result, context, now) : undefined };
      const ending = result.ok ? { reply: end.change?.reply ?? "" } : { reason: result.message };
      return {
        ...end,
        write(tx) {
          if (result.ok) appendTurn(tx, run, result, context, now);
          if (isSummarised(run))
            tx.systemEvents.add(
              summaryEvent(run, isHook(run) ? mainAgentId : run.spec.session.agentId, now, ending),
            );
          tx.jobs.settle(job);
        },
        after(done) {
          if (done && isHook(run) && run.spec.wakeMode === "now")
            deps.heartbeat.request(mainAgentId);
        },
      };
    },
  };
}
