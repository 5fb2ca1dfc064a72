import type { Verdict } from "../decision.ts";

/** The commands that `/help` names, in its order. */
export const HELPED = [
  "new",
  "stop",
  "status",
  "agent",
  "link",
  "unlink",
  "approve",
  "deny",
  "help",
] as const;

/** Sentences that the gateway itself says to people on channels, without a model. */
export interface Phrases {
  /** The language, as numbers are written in it. */
  locale: string;
  /** To a stranger. */
  pairing(code: string): string;
  /** To a stranger who was approved. */
  paired: string;
  /** The answer to `/start`. */
  greeting(agent: string): string;
  newConversation: string;
  nothingToStop: string;
  stopped: string;
  stoppedTurns(count: number): string;
  notStopped(count: number): string;
  /** To a person whose message is queued behind a run that waits for a decision. */
  waits(tool: string, code: string): string;
  /** To a person whose message gets no answer: names nothing that is the operator's. */
  apology: string;
  /** The same to the owner in a direct message. The reason is an error's message, which stays English. */
  apologyToOwner(reason: string, runId: string): string;
  /** To a person who has waited for a while, since the provider of the model is away. */
  modelAway: string;
  /** In place of an answer without words. */
  noAnswer: string;
  /** The same, if the model's limit for one answer was reached before its first word. */
  outOfRoom: string;
  /** The explanation of each command, by its name. */
  help: Record<(typeof HELPED)[number], string>;
  status: StatusPhrases;
  agents: AgentPhrases;
  decisions: DecisionPhrases;
  questions: QuestionPhrases;
  links: LinkPhrases;
}

/** The words with which lines of `/status` begin, the colon included. */
type StatusPhrases = Record<
  "agent" | "model" | "session" | "running" | "waiting" | "tokens",
  string
> & { noModel: string };

/** Sentences about `/agent`. */
interface AgentPhrases {
  current(agent: string): string;
  choices(commands: string): string;
  fixed: string;
  unknown: string;
  chosen(agent: string): string;
}

/** Sentences about decisions, about calls of tools and about people. */
interface DecisionPhrases {
  /** Says the same whether there is such an approval or not, so that it reveals nothing. */
  notAllowed: string;
  noPerson: string;
  personApproved(person: string, channel: string): string;
  personDenied(person: string, channel: string): string;
  /** The effect of a decision. */
  made: Record<Verdict, (tool: string) => string>;
  /** The name of an earlier decision, within `before`. */
  past: Record<Verdict, string>;
  before(code: string, past: string, by: string, at: string): string;
  noApproval: string;
  expired(code: string): string;
  wrongVerdict(code: string, verdicts: string): string;
  runEnded(code: string): string;
  changed(code: string): string;
}

/** Questions to approvers, in markdown. Names and commands are given as inline code, times and decisions as they are shown. */
export interface QuestionPhrases {
  wants(code: string, agent: string, tool: string): string;
  unknown(code: string, agent: string, tool: string): string;
  /** Within the question: what of the arguments is left out, and the command that shows it. */
  cut(count: number, command: string): string;
  /** The reason stays English. */
  why(reason: string): string;
  until(time: string): string;
  /** Between the last two of `forms`, which stay English. */
  or: string;
  instruction(forms: string): string;
  /** On buttons: at most 20 UTF-16 units, which is what the strictest vendor takes. */
  labels: Record<Verdict, string>;
  ended(past: string, by: string, at: string): string;
  expired(at: string): string;
}

/** Sentences about `/link` and `/unlink`. */
export interface LinkPhrases {
  code(code: string): string;
  linked(channel: string): string;
  unlinked: string;
  notLinked: string;
  notDirect: string;
  mainSession: string;
  wrongCode: string;
  sameChannel: string;
  alreadyLinked: string;
  differentPeople: string;
  tooMany: string;
  full: string;
}
