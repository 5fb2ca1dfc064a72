import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import { splitPerson } from "./policy.ts";
import { planAsk, planAskEnd, planNextAsk, questionId } from "../delivery/ask.ts";
import { CALLBACK } from "../delivery/callback.ts";
import {
  deliveryJob,
  parseSendKey,
  planSend,
  writeDelivery,
  type Planned,
} from "../delivery/plan.ts";
import type { Channels } from "../delivery/channels.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  Route,
  RunRecord,
  Reads,
  Store,
} from "../store/types.ts";
import { getVerdicts, type Questions } from "./approvals.ts";
import { renderVerdict, TIMEOUT } from "../vocabulary/decision.ts";
import { renderPhrase, toLanguage } from "../vocabulary/phrases.ts";
import { cutText, oneLine } from "../core/text.ts";

/** A question must fit one message of every channel; the shortest limit is 2,000 characters. */
const MAX_ARGUMENTS = 900;
const MAX_WHY = 300;
const MAX_NAME = 120;

/** Control characters, and characters that reorder or hide text next to them: arguments may come from outside. */
const DECEPTIVE = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f]/gu;

const showHidden = (text: string): string =>
  text.replace(DECEPTIVE, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);

/** A name as inline code. */
const renderName = (name: string): string =>
  `\`${cutText(showHidden(oneLine(name)).replaceAll("`", "'"), MAX_NAME).text}\``;

/** A code block that its text cannot end. */
function renderBlock(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

/** Renders the arguments of a call for people: JSON, cut, with hidden characters shown. */
function renderArguments(input: unknown, code: string, language: string | undefined): string {
  const { text, cut } = cutText(
    showHidden(JSON.stringify(input, null, 2) ?? "none"),
    MAX_ARGUMENTS,
  );
  if (cut === 0) return renderBlock(text);
  const command = `\`rouse approvals ${code}\``;
  return `${renderBlock(text)}\n${renderPhrase(language, "questions.cut", { count: cut, command })}`;
}

/** A time to the minute, in UTC. */
const renderTime = (ms: number): string =>
  `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/**
 * Renders a question in markdown, in the language of a language tag: what the agent wants to do, with which arguments, why it asks,
 * and when the question expires.
 */
export function renderQuestion(
  { code, agentId, tool, input, reason, why, expiresAt }: ApprovalRecord,
  language?: string,
): string {
  const called = { code, agent: renderName(agentId), tool: renderName(tool) };
  const head = reason === "outcome_unknown" ? "questions.unknown" : "questions.wants";
  const because = cutText(showHidden(oneLine(why)), MAX_WHY).text;
  return [
    renderPhrase(language, head, called),
    renderArguments(input, code, language),
    renderPhrase(language, "questions.why", { reason: because }),
    renderPhrase(language, "questions.until", { time: renderTime(expiresAt) }),
  ].join("\n\n");
}

/** Renders how to decide by a text message. What is to be written stays English. */
export function renderInstruction(
  approval: Pick<ApprovalRecord, "code" | "reason">,
  language?: string,
): string {
  const forms = getVerdicts(approval).map(
    (verdict) => `"${renderVerdict(verdict, approval.code)}"`,
  );
  const or = renderPhrase(language, "questions.or");
  return renderPhrase(language, "questions.instruction", {
    forms: `${forms.slice(0, -1).join(", ")} ${or} ${forms.at(-1)}`,
  });
}

/** Begins a word with a capital letter, in languages that have them. */
function capitalize(text: string, language: string | undefined): string {
  const [first = "", ...rest] = text;
  return first.toLocaleUpperCase(toLanguage(language)) + rest.join("");
}

/** Renders the decision, for the message that had the question. */
export function renderEnd({ verdict, by, at }: ApprovalDecision, language?: string): string {
  if (by === TIMEOUT) return renderPhrase(language, "questions.expired", { at: renderTime(at) });
  return renderPhrase(language, "questions.ended", {
    past: capitalize(renderPhrase(language, `decisions.past.${verdict}`), language),
    by: renderName(by),
    at: renderTime(at),
  });
}

/** The parts of a snapshot that questions need. `approvers` are in the form of `ApprovalDecision.by`, in their order. */
interface QuestionSnapshot {
  approvers: readonly string[];
  channels: Channels;
  config: Pick<Config, "language"> & { tools: Pick<Config["tools"], "approvalCallback"> };
}

/** The place at which an approver is asked, and the language of the question. */
interface Asked {
  route: Route;
  language: string | undefined;
}

/**
 * Finds the places to ask approvers, in order: first the conversation that the run came from, if an approver has written the
 * message there; all other approvers are asked directly. No place occurs twice.
 */
function findPlaces(
  { spec }: Pick<RunRecord, "spec">,
  { approvers, channels, config: { language } }: QuestionSnapshot,
): Asked[] {
  const written = "incoming" in spec ? spec : undefined;
  const known = approvers
    .flatMap((entry) => splitPerson(entry, channels) ?? [])
    .filter(({ loaded }) => loaded);
  const asked = known.map(({ channel, person }): Asked | undefined => {
    if (written?.channel === channel && written.incoming.from === person) {
      const { thread, replyTo, language: own = language } = written.incoming;
      const route = { channel, to: written.to, replyTo, ...(thread !== undefined && { thread }) };
      return { route, language: own };
    }
    const direct = channels.get(channel)?.channel.directRecipient?.(person) ?? person;
    const checked = channels.checkRecipient(channel, direct);
    return checked.ok ? { route: { channel, to: checked.to }, language } : undefined;
  });
  const places = asked
    .filter((one) => one !== undefined)
    .toSorted((one, other) => countReply(other) - countReply(one));
  const isFirst = ({ route }: Asked, index: number): boolean =>
    places.findIndex((one) => one.route.channel === route.channel && one.route.to === route.to) ===
    index;
  return places.filter(isFirst);
}

/** One for the conversation that the run came from. */
const countReply = ({ route }: Asked): number => (route.replyTo === undefined ? 0 : 1);

/** Builds the body of a question for the callback. */
function buildCallbackBody({ askedAt, expiresAt, ...about }: ApprovalRecord, now: number): object {
  const [asked, expires] = [askedAt, expiresAt].map((at) => new Date(at).toISOString());
  return {
    type: "approval.required",
    timestamp: new Date(now).toISOString(),
    data: { ...about, verdicts: getVerdicts(about), askedAt: asked, expiresAt: expires },
  };
}

function planQuestionCallback(approval: ApprovalRecord, url: string, now: number): Planned {
  // Without a mapping as its thread: the callback of approvals belongs to no mapping.
  const route: Route = { channel: CALLBACK, to: url };
  const chunks = [JSON.stringify(buildCallbackBody(approval, now))];
  return planSend({ runId: approval.runId, route, chunks, createdAt: now });
}

/** The dependencies for recording that a message did not arrive. */
interface LostDeps {
  store: Store;
  channels(): Channels;
  clock: Pick<Clock, "now">;
}

/** Creates the planner of questions, with the channels and approvers of the current snapshot. */
export function createQuestions({
  store,
  clock,
  snapshot,
}: {
  store: Reads;
  clock: Pick<Clock, "now">;
  snapshot(): QuestionSnapshot;
}): Questions {
  return {
    /**
     * Plans the question to the first approver who can be asked on a channel, with the further approvers as fallbacks, and
     * the callback. Empty if the config names no such approver and no callback.
     */
    plan(approval, run) {
      const current = snapshot();
      const { channels } = current;
      const callback = current.config.tools.approvalCallback;
      const now = clock.now();
      const [first, ...others] = findPlaces(run, current);
      const { id: approvalId, code, expiresAt } = approval;
      const next = others.map(({ route }) => route);
      const about = { approvalId, code, verdicts: getVerdicts(approval), expiresAt, next };
      const planFirst = ({ route, language }: Asked): Planned =>
        planAsk(
          {
            ...about,
            position: 0,
            text: renderQuestion(approval, language),
            instruction: renderInstruction(approval, language),
            ...(language !== undefined && { language }),
          },
          { runId: run.id, route, channels, now },
        );
      return [
        ...(first ? [planFirst(first)] : []),
        ...(callback ? [planQuestionCallback(approval, callback.url, now)] : []),
      ];
    },
    /**
     * Plans the messages that remove the buttons: one for each question on a channel that can change a message. A question
     * that was not sent yet is not sent any more.
     */
    async planEnd(approvalId, decision) {
      const { channels } = snapshot();
      const planned: Planned[] = [];
      for (let position = 0; ; position++) {
        const question = await store.deliveries.get(questionId(approvalId, position));
        if (!question?.ask) return planned;
        if (question.status !== "delivered" && question.status !== "pending") continue;
        const { text, language } = question.ask;
        const ended = `${text}\n\n${renderEnd(decision, language)}`;
        const end = planAskEnd(question, ended, channels, clock.now());
        if (end) planned.push(end);
      }
    },
  };
}

/**
 * Records that a message did not arrive although the vendor had accepted it. It is sent once more if the channel asks for that;
 * otherwise its delivery has failed, and if it was a question, the next approver is asked. Throws if the delivery has not ended
 * yet: the vendor then reports it again.
 */
export async function recordLost(
  channel: string,
  { idempotencyKey, reason, resend }: { idempotencyKey: string; reason: string; resend?: boolean },
  { store, channels, clock }: LostDeps,
): Promise<void> {
  const { id, chunk, isResent } = parseSendKey(idempotencyKey);
  const delivery = await store.deliveries.get(id);
  if (
    delivery?.route.channel !== channel ||
    (delivery.status !== "delivered" && delivery.status !== "pending")
  )
    return;
  // Each piece is reported: those of the first time say nothing new.
  if (delivery.resent && !isResent) return;
  if (delivery.status === "pending") throw new Error("the delivery has not ended yet");
  const now = clock.now();
  if (resend && !delivery.resent) {
    const error = { code: "retry", message: reason } as const;
    return void (await store.commit((tx) => {
      // A vendor that refuses a piece has refused those before it.
      tx.deliveries.update(id, {
        status: "pending",
        error,
        nextChunk: 0,
        nextAt: now,
        endedAt: null,
        resent: true,
      });
      tx.jobs.add(deliveryJob(id, delivery.route, now));
    }));
  }
  const next = await planNextAsk(delivery, { store, channels: channels(), now });
  await store.commit((tx) => {
    const error = { code: "not_delivered", message: reason } as const;
    tx.deliveries.update(id, { status: "failed", error, endedAt: now, nextChunk: chunk });
    if (next) writeDelivery(tx, next);
  });
}
