import { HELPED, type Phrases } from "../core/phrases.ts";
import { getPlace } from "../people/agent-choices.ts";
import { countUsedTokens, sessionId, type RunRecord } from "../store/types.ts";
import type { TurnDeps } from "./types.ts";

const MAX_RUNS = 1000;
const WITH_CODE: readonly string[] = ["approve", "deny"];

/** The answer to `/help`. */
export const renderHelp = ({ help }: Phrases): string =>
  HELPED.map((name) => `- \`/${name}${WITH_CODE.includes(name) ? " …" : ""}\`: ${help[name]}`).join("\n");

/** The begin of the day of a point in time, by the gateway's time zone. */
function getDayBegin(now: number): number {
  const day = new Date(now);
  day.setHours(0, 0, 0, 0);
  return day.getTime();
}

/** The answer to `/status`: who answers here, what is under way, and the tokens of the conversation since midnight. */
export async function renderStatus(command: RunRecord, { store, clock, context }: TurnDeps): Promise<string> {
  const { session } = command.spec;
  const agent = context().agents.get(session.agentId);
  const since = getDayBegin(clock.now());
  const all = await store.list("runs", { sessionKey: session.key, since, limit: MAX_RUNS });
  const own = all.filter(({ spec }) => sessionId(spec.session) === sessionId(session) && spec.command === undefined);
  const count = (...statuses: RunRecord["status"][]): number => own.filter(({ status }) => statuses.includes(status)).length;
  const tokens = own.reduce((sum, run) => sum + countUsedTokens(run), 0);
  return [
    `- Agent: ${session.agentId}`,
    `- Model: ${agent?.model ?? "none"}`,
    `- Session: \`${session.key}\``,
    `- Running turns: ${count("running")}`,
    `- Waiting turns: ${count("queued", "parked", "waiting")}`,
    `- Tokens today: ${tokens.toLocaleString("en")}`,
  ].join("\n");
}

/** Executes `/agent`: shows who answers in the conversation and who may be chosen, or has another agent answer. */
export async function answerAgent({ spec }: RunRecord, { context, people }: TurnDeps): Promise<string> {
  const { channel, to, incoming, argument, session } = spec;
  if (!incoming || to === undefined) return "This conversation has no agent.";
  const { rooms } = context();
  const choices = rooms.choicesFor(channel, { from: incoming.from, to });
  const ids = choices.map(({ id }) => id);
  const others = choices.length > 1 ? ` You can choose: ${ids.map((id) => `\`/agent ${id}\``).join(", ")}.` : "";
  if (argument === undefined) return `The agent of this conversation is ${session.agentId}.${others}`;
  if (choices.length < 2) return "The agent of this conversation cannot be changed here.";
  const chosen = ids.find((id) => id === argument);
  if (chosen === undefined) return `There is no such agent here.${others}`;
  // The first is that of the binding: without a choice it answers.
  await people.agentChoices.set(getPlace(channel, { ...incoming, to }), chosen === ids[0] ? undefined : chosen);
  return `From now on ${chosen} answers here. Each agent has a conversation of its own.`;
}
