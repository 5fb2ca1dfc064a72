import { answerDecision } from "../../people/approvals.ts";
import type { WrittenDecision } from "../../vocabulary/decision.ts";
import { planDelivery, writeDelivery } from "../../delivery/plan.ts";
import { HELPED, renderPhrase, toLanguage } from "../../vocabulary/phrases.ts";
import {
  type Job,
  type MessageCommand,
  type MessageRun,
  type RunRecord,
  countUsedTokens,
} from "../../store/types.ts";
import { replyRoute } from "./channel-input.ts";
import { listSessionRuns } from "./session-runs.ts";
import type { TurnDeps } from "../context.ts";
import type { RunJob } from "../types.ts";
import { getPlace } from "../../people/agent-choices.ts";

/** Executes `/link` and `/unlink`: gives out a code, links the channel of a code with this one, or ends the link of this one. */
async function answerLink(
  command: "unlink" | { argument?: string },
  { id, spec }: MessageRun,
  { snapshot, people: { links } }: TurnDeps,
): Promise<string> {
  const { channel, to, incoming, session } = spec;
  const { from: person, direct, thread, language } = incoming;
  const argument = command === "unlink" ? undefined : command.argument;
  if (!direct) {
    // All who are in the room have seen it.
    if (argument !== undefined) await links.dropCode(argument);
    return renderPhrase(language, "links.notDirect");
  }
  if (command === "unlink")
    return renderPhrase(
      language,
      (await links.leave({ channel, person })) ? "links.unlinked" : "links.notLinked",
    );
  // A link must not let another person into the main session.
  if (session.origin === "main") return renderPhrase(language, "links.mainSession");
  if (argument === undefined) {
    const code = await links.createCode({
      channel,
      person,
      to,
      ...(thread !== undefined && { thread }),
      ...(language !== undefined && { language }),
    });
    return code === undefined
      ? renderPhrase(language, "links.limited")
      : renderPhrase(language, "links.code", { code });
  }
  const done = await links.redeem(argument, { channel, person, runId: id }, snapshot().rooms);
  return done.ok
    ? renderPhrase(language, "links.linked", { channel: done.channel })
    : renderPhrase(language, `links.${done.problem}`);
}

const isCommand = ({ kind, spec }: RunRecord): boolean =>
  kind === "channel" && spec.command !== undefined;

const MAX_RUNS = 1000;
const WITH_CODE: readonly string[] = ["approve", "deny"];

/** The answer to `/help`. */
const renderHelp = (language: string | undefined): string =>
  HELPED.map((name) => {
    const code = WITH_CODE.includes(name) ? " …" : "";
    return `- \`/${name}${code}\`: ${renderPhrase(language, `help.${name}`)}`;
  }).join("\n");

/** The begin of the day of a point in time, by the gateway's time zone. */
function getDayBegin(now: number): number {
  const day = new Date(now);
  day.setHours(0, 0, 0, 0);
  return day.getTime();
}

/** The answer to `/status`: who answers here, what is under way, and the tokens of the conversation since midnight. */
async function renderStatus(
  command: MessageRun,
  { store, clock, snapshot }: TurnDeps,
): Promise<string> {
  const {
    session,
    incoming: { language },
  } = command.spec;
  const agent = snapshot().agents.get(session.agentId);
  const since = getDayBegin(clock.now());
  const all = await listSessionRuns(session, { since, limit: MAX_RUNS }, store);
  const own = all.filter((run) => !isCommand(run));
  const count = (...statuses: RunRecord["status"][]): number =>
    own.filter((run) => statuses.includes(run.status)).length;
  const tokens = own.reduce((sum, run) => sum + countUsedTokens(run), 0);
  return [
    `- ${renderPhrase(language, "status.agent")}${session.agentId}`,
    `- ${renderPhrase(language, "status.model")}${agent?.model ?? renderPhrase(language, "status.noModel")}`,
    `- ${renderPhrase(language, "status.session")}\`${session.key}\``,
    `- ${renderPhrase(language, "status.running")}${count("running")}`,
    `- ${renderPhrase(language, "status.waiting")}${count("queued", "parked", "waiting")}`,
    `- ${renderPhrase(language, "status.tokens")}${tokens.toLocaleString(toLanguage(language))}`,
  ].join("\n");
}

/** Executes `/agent`: shows who answers in the conversation and who may be chosen, or has another agent answer. */
async function answerAgent(
  argument: string | undefined,
  { spec }: MessageRun,
  { snapshot, people }: TurnDeps,
): Promise<string> {
  const { channel, to, incoming, session } = spec;
  const { language } = incoming;
  const { rooms } = snapshot();
  const choices = rooms.choicesFor(channel, { from: incoming.from, to });
  const ids = choices.map(({ id }) => id);
  const commands = ids.map((id) => `\`/agent ${id}\``).join(", ");
  const others =
    choices.length > 1 ? ` ${renderPhrase(language, "agents.choices", { commands })}` : "";
  if (argument === undefined)
    return `${renderPhrase(language, "agents.current", { agent: session.agentId })}${others}`;
  if (choices.length < 2) return renderPhrase(language, "agents.fixed");
  const chosen = ids.find((id) => id === argument);
  if (chosen === undefined) return `${renderPhrase(language, "agents.unknown")}${others}`;
  // The first is that of the binding: without a choice it answers. Another channel of a linked person may have another binding.
  const isDefault = chosen === ids[0] && incoming.personId === undefined;
  await people.agentChoices.set(
    getPlace(channel, { ...incoming, to }),
    isDefault ? undefined : chosen,
  );
  return renderPhrase(language, "agents.chosen", { agent: chosen });
}

/** `/new` or `!new`, also after a mention and with the bot's name at its end (`@rouse /new`, `/new@rouse_bot`). */
const COMMAND =
  /^(?:@\S+\s+)?[/!](?:(start|new|stop|status|help|unlink)(?:@\S+)?|(agent|link)(?:@\S+)?(?:\s+(\S{1,100}))?)$/i;

/** Parses a message that is a command; undefined for any other message. Only `/agent` and `/link` may have a word behind them. */
export function parseCommand(text: string): MessageCommand | undefined {
  const [, alone, withWord, argument] = COMMAND.exec(text.trim()) ?? [];
  const name = alone ?? withWord;
  if (name === undefined) return undefined;
  return {
    name: name.toLowerCase(),
    ...(argument !== undefined && { argument }),
  } as MessageCommand;
}

const MAX_STOPPED = 1000;

/** Cancels the turns of the command's session that were accepted before it. Returns the confirmation. */
async function stopTurns(command: MessageRun, { store, cancel }: TurnDeps): Promise<string> {
  const { session } = command.spec;
  const open = await Promise.all(
    (["queued", "running", "waiting"] as const).map((status) =>
      listSessionRuns(session, { status, limit: MAX_STOPPED }, store),
    ),
  );
  // A run that waits for a person holds its session up, whatever began it.
  const isOlder = (run: RunRecord): boolean =>
    run.id !== command.id &&
    (run.kind === "channel" || run.status === "waiting") &&
    !isCommand(run) &&
    run.createdAt <= command.createdAt;
  let stopped = 0;
  let left = 0;
  // Newest first: otherwise the end of a running turn would start the next one.
  for (const run of open.flat().filter(isOlder)) {
    const done = await cancel(run.id);
    if (done.ok) stopped++;
    else if (done.failure.code === "store_unavailable") left++;
  }
  const { language } = command.spec.incoming;
  if (left > 0) return renderPhrase(language, "notStopped", { count: left });
  if (stopped === 0) return renderPhrase(language, "nothingToStop");
  return stopped === 1
    ? renderPhrase(language, "stopped")
    : renderPhrase(language, "stoppedTurns", { count: stopped });
}

/** Decides about a person for an approver, and returns the confirmation. */
async function answerPairing(
  by: string,
  { verdict, code }: WrittenDecision,
  { people, snapshot }: TurnDeps,
  language: string | undefined,
): Promise<string> {
  if (!snapshot().approvers.includes(by)) return renderPhrase(language, "decisions.notAllowed");
  const decided = await people.pairings.decide(
    code,
    verdict === "approve" ? "approve" : "deny",
    by,
  );
  if (!decided.ok) return renderPhrase(language, "decisions.noPerson");
  const { channel, person, state } = decided.pairing;
  return renderPhrase(
    language,
    state === "approved" ? "decisions.personApproved" : "decisions.personDenied",
    { person, channel },
  );
}

/** Executes a command that has an answer of its own. */
async function answerCommand(
  command: MessageCommand,
  run: MessageRun,
  deps: TurnDeps,
): Promise<string> {
  const { channel, incoming, session } = run.spec;
  const { language } = incoming;
  switch (command.name) {
    case "stop":
      return stopTurns(run, deps);
    case "new":
      return renderPhrase(language, "newConversation");
    case "start":
      return renderPhrase(language, "greeting", {
        agent: deps.snapshot().agents.get(session.agentId)?.name ?? session.agentId,
      });
    case "help":
      return renderHelp(language);
    case "status":
      return renderStatus(run, deps);
    case "agent":
      return answerAgent(command.argument, run, deps);
    case "link":
      return answerLink(command, run, deps);
    case "unlink":
      return answerLink("unlink", run, deps);
    case "pair":
      return answerPairing(`${channel}:${incoming.from}`, command.decision, deps, language);
    case "decide": {
      const asked = { channel, person: incoming.from, ...command.decision };
      const { answer } = await answerDecision(asked, deps.approvals);
      return answer(language);
    }
  }
}

/** Executes the job of a command: stops the turns for `/stop`, passes a decision on, and answers. */
export async function executeCommand(job: Job, { runId }: RunJob, deps: TurnDeps): Promise<void> {
  const { store, clock } = deps;
  const run = await store.runs.get(runId);
  const command = run?.kind === "channel" ? run.spec.command : undefined;
  const isOver = run?.deliveryId !== undefined || run?.status === "cancelled";
  if (run?.kind !== "channel" || !command || isOver) {
    await store.commit((tx) => tx.jobs.settle(job), job);
    return;
  }
  // `/new` also waits its turn, and ends there.
  const isNew = command.name === "new";
  const reply = await answerCommand(command, run, deps);
  const route = replyRoute(run.spec);
  const now = clock.now();
  const planned = planDelivery({
    runId,
    route,
    text: reply,
    channels: deps.snapshot().channels,
    now,
  });
  const done = await store.commit((tx) => {
    tx.runs.update(runId, {
      reply,
      route: { status: "route", route },
      deliveryId: planned.delivery.id,
      ...(isNew ? {} : { status: "succeeded", endedAt: now }),
    });
    writeDelivery(tx, planned);
    tx.jobs.settle(job);
  }, job);
  if (done && !isNew) deps.runEnds.ended(runId);
}

/** Executes the turn job of `/new`: in order with the session's turns, it deletes the history. */
export async function resetHistory(
  job: Job,
  run: MessageRun,
  { store, clock, runEnds }: TurnDeps,
): Promise<undefined> {
  const done = await store.commit((tx) => {
    tx.sessions.clear(run.spec.session);
    tx.runs.update(run.id, { status: "succeeded", endedAt: clock.now() });
    tx.jobs.settle(job);
  }, job);
  if (done) runEnds.ended(run.id);
}
