import type { TurnInput, TurnResult } from "./types.ts";
import { cutText, oneLine, plainText } from "../core/text.ts";

/** The model that is there when none is configured. It calls nothing and never pretends. */
export const ECHO = { ref: "builtin/echo", provider: "builtin", model: "echo" } as const;

/** Answers a turn without a model: says that there is none, what came in, and how to set one. */
export function echoTurn(input: Pick<TurnInput, "input" | "heartbeat" | "hook" | "onText">): Extract<TurnResult, { ok: true }> {
  const text = input.heartbeat ? "HEARTBEAT_OK" : replyTo(input);
  input.onText?.(text);
  const messages = [{ role: "assistant", content: [{ type: "text", text }] }];
  return {
    ok: true,
    text,
    spoken: text,
    calls: [],
    messages,
    usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0 },
    finish: "stop",
    warnings: [],
  };
}

function replyTo(input: Pick<TurnInput, "input" | "hook">): string {
  const received = plainText(input.input);
  const { text, cut } = cutText(oneLine(received), 200);
  return [
    `[no model] Received ${received.length} characters${input.hook === undefined ? "" : ` through hook "${input.hook}"`}.`,
    `[no model] They begin: ${text}${cut > 0 ? " …" : ""}`,
    "[no model] To get answers, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or agents.defaults.model and models.providers in the config (`rouse init` helps).",
  ].join("\n");
}
