import { evaluateOutside } from "../mapping/expression.ts";
import { compileRegex } from "../mapping/regex.ts";
import type { EvalCase } from "./fixture.ts";
import type { MadeCall } from "./eval-tools.ts";

/** Processor time for one JSONata expression. */
const JSONATA_MS = 1_000;
const MAX_SHOWN = 200;

/** What an agent made of a case. */
export interface AgentAnswer {
  reply: string;
  calls: readonly MadeCall[];
  tokens: number | null;
}

/** Something that a case expects and the agent did not do. For operators only: it may quote the reply. */
export interface Miss {
  /** Such as `expect.reply.contains`. */
  field: string;
  reason: string;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function checkJsonata(
  source: string,
  { reply, calls, tokens }: AgentAnswer,
  { request, receivedAt }: EvalCase,
): Promise<Miss[]> {
  const json = parseJson(reply);
  const { json: body } = request ?? {};
  const input = {
    reply,
    ...(json !== undefined && { json }),
    calls: calls.map(({ tool, input: given }) => ({ tool, input: given })),
    ...(tokens !== null && { tokens }),
    ...(body !== undefined && { request: body }),
  };
  const evaluated = await evaluateOutside(source, input, receivedAt, JSONATA_MS);
  const field = "expect.reply.jsonata";
  if (!evaluated.ok) return [{ field, reason: `${source}: ${evaluated.message}` }];
  if (evaluated.value === true) return [];
  return [
    {
      field,
      reason: `${source} is ${(JSON.stringify(evaluated.value) ?? "nothing").slice(0, MAX_SHOWN)}, not true`,
    },
  ];
}

/** Compares a reply with all that a case expects of it but the judgement of a model. */
export async function checkReply(answer: AgentAnswer, evalCase: EvalCase): Promise<Miss[]> {
  const { contains = [], matches, jsonata } = evalCase.reply;
  const misses = contains
    .filter((words) => !answer.reply.includes(words))
    .map((words) => ({
      field: "expect.reply.contains",
      reason: `the reply does not have "${words}"`,
    }));
  const compiled = matches === undefined ? undefined : compileRegex(matches);
  if (compiled?.ok && !compiled.regex.test(answer.reply))
    misses.push({ field: "expect.reply.matches", reason: `the reply does not fit ${matches}` });
  return jsonata === undefined
    ? misses
    : [...misses, ...(await checkJsonata(jsonata, answer, evalCase))];
}
