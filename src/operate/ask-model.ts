import { z } from "zod";
import type { AgentRuntime, ResolvedModel } from "../agent/types.ts";
import type { TextPart } from "../core/text.ts";
import type { Usage } from "../store/types.ts";

/** A question to a model that no agent asks: without tools, knowledge and history. */
interface ModelQuestion<T> {
  /** The name of the caller, for spans and logs. */
  id: string;
  instructions: string;
  model: ResolvedModel;
  input: readonly TextPart[];
  /** The boundary's name for the outside parts of the input. */
  source: string;
  runId: string;
  boundaryId?: string;
  /** The document that is the answer. */
  answer: { name: string; schema: z.ZodType<T> };
  maxTokens?: number;
  signal: AbortSignal;
}

/** The document that a model answered, as it was checked and as it was written, or what is wrong with its text. */
export type ReadAnswer<T> =
  | { ok: true; value: T; written: unknown }
  | { ok: false; problem: string };

const TIMEOUT_MS = 120_000;

/** The schema of an answer, as providers take it. */
export const toAnswerSchema = (schema: z.ZodType): Record<string, unknown> =>
  z.toJSONSchema(schema);

/** Reads the answer of a model: the document alone, with or without a code fence. A document among other words may be a quotation. */
function readAnswer<T>(text: string, schema: z.ZodType<T>): ReadAnswer<T> {
  const json = /^\s*```(?:json)?\s*([^]*?)\s*```\s*$/.exec(text)?.[1] ?? text;
  let written: unknown;
  try {
    written = JSON.parse(json);
  } catch {
    return { ok: false, problem: "the answer is not JSON" };
  }
  const checked = schema.safeParse(written);
  if (checked.success) return { ok: true, value: checked.data, written };
  const problems = checked.error.issues.map(
    ({ path, message }) => `${path.join(".") || "the answer"}: ${message}`,
  );
  return { ok: false, problem: problems.join("; ") };
}

/** Asks a model for a JSON document. Runs and sessions know nothing of it. */
export async function askModel<T>(
  {
    id,
    instructions,
    model,
    source,
    runId,
    boundaryId,
    answer,
    maxTokens,
    ...rest
  }: ModelQuestion<T>,
  runtime: Pick<AgentRuntime, "runTurn">,
): Promise<
  { ok: true; text: string; answer: ReadAnswer<T>; usage: Usage } | { ok: false; message: string }
> {
  const { name, schema } = answer;
  const result = await runtime.runTurn({
    ...rest,
    agent: { id, name: id, instructions },
    model,
    history: [],
    info: { agentId: id, sessionKey: id, runId, kind: "api" },
    question: "",
    // Context providers of plugins may ask other services.
    isPlain: true,
    source,
    unsafe: false,
    tools: [],
    pickTools: () => Promise.resolve({ tools: [], warnings: [] }),
    sampling: {
      json: { name, schema: toAnswerSchema(schema), strict: true },
      ...(maxTokens !== undefined && { maxOutputTokens: maxTokens }),
    },
    timeoutMs: TIMEOUT_MS,
    ...(boundaryId !== undefined && { boundaryId }),
  });
  if (!result.ok)
    return { ok: false, message: "message" in result ? result.message : "the turn did not end" };
  const { text, usage } = result;
  return { ok: true, text, answer: readAnswer(text, schema), usage };
}
