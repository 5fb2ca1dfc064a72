import { RouseError } from "../core/errors.ts";
import type { ChatLine } from "../http/admin/chat.ts";
import { member } from "./settings.ts";

interface Message {
  role: "user" | "assistant";
  content: string;
}

/** The text of one event of a stream, or the failure that ends it. */
function read(data: string): string {
  const event: unknown = JSON.parse(data);
  const error = member(event, "error");
  if (error !== undefined) throw new RouseError({ code: "internal", message: String(member(error, "message")) });
  const choices = member(event, "choices");
  const content = Array.isArray(choices) ? member(member(choices[0], "delta"), "content") : undefined;
  return typeof content === "string" ? content : "";
}

async function* readEvents(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of response.body ?? []) {
    const lines = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data: ")) yield line.slice(6).trim();
  }
}

async function readFailure(response: Response): Promise<RouseError> {
  const answer: unknown = await response.json().catch(() => undefined);
  const message = member(member(answer, "error"), "message");
  return new RouseError({ code: "internal", message: typeof message === "string" ? message : `the gateway answered ${response.status}` });
}

/**
 * Talks to a gateway elsewhere with an API key. The conversation is kept here: a turn then stops with the connection, as
 * Ctrl-C wants it.
 */
export function remoteChat(url: string, key: string, agent: string): (message: string, signal: AbortSignal) => AsyncGenerator<ChatLine> {
  const messages: Message[] = [];
  return async function* (message, signal) {
    const asked: Message[] = [...messages, { role: "user", content: message }];
    const response = await fetch(`${url.replace(/\/+$/, "")}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: agent, messages: asked, stream: true }),
      signal,
    });
    if (!response.ok) throw await readFailure(response);
    let reply = "";
    let done = false;
    for await (const data of readEvents(response)) {
      if (data === "[DONE]") done = true;
      const text = done ? "" : read(data);
      reply += text;
      if (text !== "") yield { type: "text", text };
    }
    if (!done) throw new RouseError({ code: "internal", message: "the answer broke off" });
    messages.push(...asked.slice(-1), { role: "assistant", content: reply });
    yield { type: "end", ok: true, reply, usage: {} };
  };
}
