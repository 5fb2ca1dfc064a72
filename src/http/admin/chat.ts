import { Hono } from "hono";
import { z } from "zod";
import { unwrap } from "../../operate/records/operation.ts";
import type { AdminDeps } from "../../operate/types.ts";
import type { ChatEnd, ChatTurn } from "../../chat/types.ts";
import { OPERATOR_KEY, OPERATOR_TENANT } from "../../config/checks.ts";
import { RouseError, type RunErrorCode } from "../../core/errors.ts";
import { findCited, type CitationMark, type NamedCitation } from "../../turns/knowledge.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { answerLines, jsonBody } from "./query.ts";

/**
 * The lines of a turn, in this order: one `start`, `text` as it comes, one `end`, with the passages that the model was given and
 * the places where the reply names them.
 */
export type ChatLine =
  | { type: "start"; runId: string; agent: string; session: string | null }
  | { type: "text"; text: string }
  | ({
      type: "end";
      ok: true;
      reply: string;
      citations: readonly NamedCitation[];
      marks: readonly CitationMark[];
    } & Pick<Extract<ChatEnd, { ok: true }>, "usage">)
  | { type: "end"; ok: false; code: RunErrorCode; message: string };

const message = z.strictObject({
  agent: z.string().min(1).optional(),
  session: z.string().min(1).max(200).optional(),
  message: z.string().min(1),
});

function endLine(end: ChatEnd): ChatLine {
  if (!end.ok) return { type: "end", ok: false, code: end.code, message: end.message };
  const { marks } = findCited(end.text, end.citations);
  const places = marks.map(({ citation: { number }, start, end: after }) => ({
    number,
    start,
    end: after,
  }));
  return {
    type: "end",
    ok: true,
    reply: end.text,
    usage: end.usage,
    citations: [...end.citations],
    marks: places,
  };
}

/** The lines of a turn, as they come. */
function listLines(turn: ChatTurn, agent: string): ReadableStream<ChatLine> {
  let leave = (): void => undefined;
  return new ReadableStream<ChatLine>({
    start(lines) {
      lines.enqueue({ type: "start", runId: turn.runId, agent, session: turn.sessionId ?? null });
      leave = turn.listen({
        onText: (text) => lines.enqueue({ type: "text", text }),
        onEnd(end) {
          lines.enqueue(endLine(end));
          lines.close();
        },
      });
    },
    cancel: () => leave(),
  });
}

/** `/chat`: the operator talks to an agent, in sessions that no API key reaches. */
export function chatRoutes(deps: AdminDeps) {
  return new Hono().post("/", jsonBody(message), (c) => {
    const { agent: name, session, message: text } = c.req.valid("json");
    const { agents } = deps.snapshot();
    const agent = name === undefined ? agents.default : agents.get(name);
    if (!agent) throw new RouseError({ ...unknownId("agent", name ?? ""), code: "unknown_agent" });
    const { turn } = unwrap(
      deps.chats.startTurn({
        agent,
        caller: { id: OPERATOR_KEY, tenant: OPERATOR_TENANT },
        session: session === undefined ? { kind: "none" } : { kind: "named", id: session },
        callerKeepsHistory: false,
        messages: [{ role: "user", parts: [{ type: "text", text }] }],
        stream: true,
      }),
    );
    return answerLines(c, listLines(turn, agent.id));
  });
}
