import { Hono } from "hono";
import { z } from "zod";
import type { ChatEnd, ChatTurn } from "../actions/chat-types.ts";
import { OPERATOR_KEY, OPERATOR_TENANT } from "../config/checks.ts";
import { fail } from "./admin-answer.ts";
import { parseJson } from "./admin-query.ts";
import type { ChatLine } from "./admin-types.ts";
import type { AdminDeps } from "./types.ts";

const body = z.strictObject({
  agent: z.string().min(1).optional(),
  session: z.string().min(1).max(200).optional(),
  message: z.string().min(1),
});

function endLine(end: ChatEnd): ChatLine {
  if (!end.ok) return { type: "end", ok: false, code: end.code, message: end.message };
  return { type: "end", ok: true, reply: end.text, usage: end.usage };
}

/** A turn as one JSON document a line. */
function lines(turn: ChatTurn, agent: string): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let leave = (): void => undefined;
  return new ReadableStream({
    start(controller) {
      const write = (line: ChatLine): void => controller.enqueue(encoder.encode(`${JSON.stringify(line)}\n`));
      write({ type: "start", runId: turn.runId, agent, session: turn.sessionId ?? null });
      leave = turn.listen({
        onText: (text) => write({ type: "text", text }),
        onEnd(end) {
          write(endLine(end));
          controller.close();
        },
      });
    },
    cancel: () => leave(),
  });
}

/** `/chat`: the operator talks to an agent, in sessions that no API key reaches. */
export function chatRoutes(deps: AdminDeps): Hono {
  const app = new Hono();
  app.post("/", async (c) => {
    const parsed = await parseJson(c, body);
    if (!parsed.ok) return fail(c, parsed.failure);
    const { agent: name, session, message } = parsed.value;
    const { agents } = deps.snapshot();
    const agent = name === undefined ? agents.standard : agents.get(name);
    if (!agent)
      return fail(c, { code: "unknown_agent", message: "agents.list has no such agent; `rouse agents list` shows which there are" });
    const begun = deps.chats.begin({
      agent,
      caller: { id: OPERATOR_KEY, tenant: OPERATOR_TENANT },
      session: session === undefined ? { kind: "none" } : { kind: "named", id: session },
      callerKeepsHistory: false,
      said: [{ role: "user", parts: [{ type: "text", text: message }] }],
      stream: true,
    });
    if (!begun.ok) return fail(c, begun.failure);
    return c.body(lines(begun.turn, agent.id), 200, { "content-type": "application/x-ndjson" });
  });
  return app;
}
