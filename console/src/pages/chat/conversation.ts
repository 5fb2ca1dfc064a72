import { signal } from "@preact/signals";
import type { CitationMark, NamedCitation } from "../../../../src/turns/knowledge.ts";
import type { Usage } from "../../../../src/store/types.ts";
import { AskError, ask, askLines } from "../../api.ts";

/** A line of the answer to `POST /chat`. */
type ChatLine =
  | { type: "start"; runId: string; agent: string; session: string | null }
  | { type: "text"; text: string }
  | {
      type: "end";
      ok: true;
      reply: string;
      usage: Usage;
      citations: NamedCitation[];
      marks: CitationMark[];
    }
  | { type: "end"; ok: false; code: string; message: string };

/** One message and what the agent made of it. */
export interface Turn {
  id: number;
  agent: string;
  message: string;
  /** Null until the gateway has begun the run. */
  runId: string | null;
  reply: string;
  state: "running" | "succeeded" | "failed" | "cancelled";
  error?: string;
  usage?: Usage;
  citations: readonly NamedCitation[];
  /** The places in the reply that name citations. */
  marks: readonly CitationMark[];
  startedAt: number;
  endedAt?: number;
}

/** The conversation of the page. It goes on while other pages are shown. */
export const turns = signal<readonly Turn[]>([]);
/** The session that the turns belong to. */
export const session = signal(newSession());
let last = 0;

/** A name that no other conversation has. */
function newSession(): string {
  return `console-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
}

/** Begins a conversation of which the agent knows nothing yet. */
export function startAnew(): void {
  turns.value = [];
  session.value = newSession();
}

const change = (id: number, changes: Partial<Turn>): void => {
  turns.value = turns.value.map((turn) => (turn.id === id ? { ...turn, ...changes } : turn));
};

const find = (id: number): Turn | undefined => turns.peek().find((turn) => turn.id === id);

function take(id: number, line: ChatLine): void {
  if (line.type === "start") change(id, { runId: line.runId, agent: line.agent });
  else if (line.type === "text") change(id, { reply: (find(id)?.reply ?? "") + line.text });
  else if (line.ok) {
    const { reply, usage, citations, marks } = line;
    change(id, { state: "succeeded", reply, usage, citations, marks, endedAt: Date.now() });
  } else
    change(id, {
      state: line.code === "cancelled" ? "cancelled" : "failed",
      error: line.message,
      endedAt: Date.now(),
    });
}

/** Sends a message to an agent and follows its answer. An empty name means the default agent. */
export async function say(message: string, agent: string): Promise<void> {
  const id = ++last;
  const turn: Turn = {
    id,
    agent,
    message,
    runId: null,
    reply: "",
    state: "running",
    citations: [],
    marks: [],
    startedAt: Date.now(),
  };
  turns.value = [...turns.value, turn];
  const body = { message, session: session.peek(), ...(agent === "" ? {} : { agent }) };
  try {
    for await (const line of askLines<ChatLine>("/chat", { method: "POST", body })) take(id, line);
    if (find(id)?.state === "running")
      throw new AskError(
        "unreachable",
        "The gateway ended the answer before its end. Its run may go on.",
      );
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    change(id, { state: "failed", error: message, endedAt: Date.now() });
  }
}

/** Stops the run of a turn. What was said until then stays. */
export async function stop({ runId }: Turn): Promise<void> {
  if (runId !== null) await ask(`/runs/${encodeURIComponent(runId)}/cancel`, { method: "POST" });
}
