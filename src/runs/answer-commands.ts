import { HELPED, type Phrases } from "../core/phrases/types.ts";
import { getPlace } from "../people/agent-choices.ts";
import { countUsedTokens, sessionId, type RunRecord } from "../store/types.ts";
import type { TurnDeps } from "./types.ts";

const MAX_RUNS = 1000;
const WITH_CODE: readonly string[] = ["approve", "deny"];

/** The answer to `/help`. */
export const renderHelp = ({ help }: Phrases): string =>
  HELPED.map((name) => `- \`/${name}${WITH_CODE.includes(name) ? " …" : ""}\`: ${help[name]}`).join(
    "\n",
  );

/** The begin of the day of a point in time, by the gateway's time zone. */
function getDayBegin(now: number): number {
  const day = new Date(now);
  day.setHours(0, 0, 0, 0);
  return day.getTime();
}

/** The answer to `/status`: who answers here, what is under way, and the tokens of the conversation since midnight. */
export async function renderStatus(
  command: RunRecord,
  { store, clock, context }: TurnDeps,
  { status, locale }: Phrases,
): Promise<string> {
  const { session } = command.spec;
  const agent = context().agents.get(session.agentId);
  const since = getDayBegin(clock.now());
  const all = await store.list("runs", { sessionKey: session.key, since, limit: MAX_RUNS });
  const own = all.filter(
    ({ spec }) => sessionId(spec.session) === sessionId(session) && spec.command === undefined,
  );
  const count = (...statuses: RunRecord["status"][]): number =>
    own.filter((run) => statuses.includes(run.status)).length;
  const tokens = own.reduce((sum, run) => sum + countUsedTokens(run), 0);
  return [
    `- ${status.agent}${session.agentId}`,
    `- ${status.model}${agent?.model ?? status.noModel}`,
    `- ${status.session}\`${session.key}\``,
    `- ${status.running}${count("running")}`,
    `- ${status.waiting}${count("queued", "parked", "waiting")}`,
    `- ${status.tokens}${tokens.toLocaleString(locale)}`,
  ].join("\n");
}

/** Executes `/agent`: shows who answers in the conversation and who may be chosen, or has another agent answer. */
export async function answerAgent(
  { spec }: RunRecord,
  { context, people }: TurnDeps,
  { agents }: Phrases,
): Promise<string> {
  const { channel, to, incoming, argument, session } = spec;
  if (!incoming || to === undefined) return agents.none;
  const { rooms } = context();
  const choices = rooms.choicesFor(channel, { from: incoming.from, to });
  const ids = choices.map(({ id }) => id);
  const others =
    choices.length > 1 ? ` ${agents.choices(ids.map((id) => `\`/agent ${id}\``).join(", "))}` : "";
  if (argument === undefined) return `${agents.current(session.agentId)}${others}`;
  if (choices.length < 2) return agents.fixed;
  const chosen = ids.find((id) => id === argument);
  if (chosen === undefined) return `${agents.unknown}${others}`;
  // The first is that of the binding: without a choice it answers. Another channel of a linked person may have another binding.
  const isDefault = chosen === ids[0] && incoming.personId === undefined;
  await people.agentChoices.set(
    getPlace(channel, { ...incoming, to }),
    isDefault ? undefined : chosen,
  );
  return agents.chosen(chosen);
}
