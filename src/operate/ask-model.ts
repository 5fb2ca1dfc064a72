import type { AgentRuntime, ResolvedModel } from "../agent/types.ts";
import type { TextPart } from "../core/text.ts";
import type { Usage } from "../store/types.ts";

/** A question to a model that no agent asks: without tools, knowledge and history. */
interface ModelQuestion {
  /** Who asks, as spans and logs name it. */
  id: string;
  instructions: string;
  model: ResolvedModel;
  input: readonly TextPart[];
  /** What the outside parts of the input are, as the boundary names it. */
  source: string;
  runId: string;
  boundaryId?: string;
  /** The JSON schema of the answer. */
  schema: { name: string; schema: Record<string, unknown> };
  maxTokens?: number;
  signal: AbortSignal;
}

const TIMEOUT_MS = 120_000;

/** Asks a model for a JSON document. Runs and sessions know nothing of it. */
export async function askModel(
  { id, instructions, model, source, runId, boundaryId, schema, maxTokens, ...rest }: ModelQuestion,
  runtime: Pick<AgentRuntime, "runTurn">,
): Promise<{ ok: true; text: string; usage: Usage } | { ok: false; message: string }> {
  const result = await runtime.runTurn({
    ...rest,
    agent: {
      id,
      name: id,
      instructions,
      model: model.ref,
      tools: [],
      approve: [],
      knowledge: "off",
    },
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
      json: { ...schema, strict: true },
      ...(maxTokens !== undefined && { maxOutputTokens: maxTokens }),
    },
    timeoutMs: TIMEOUT_MS,
    ...(boundaryId !== undefined && { boundaryId }),
  });
  if (result.ok) return { ok: true, text: result.text, usage: result.usage };
  return { ok: false, message: "message" in result ? result.message : "the turn did not end" };
}
