import type { ProviderDescription } from "../contract/kinds.ts";
import type { TurnInput, TurnResult } from "./types.ts";
import { cutText, oneLine, plainText } from "../core/text.ts";

/** The model that is there when none is configured. It calls nothing and never pretends. */
export const ECHO = { ref: "builtin/echo", provider: "builtin", model: "echo" } as const;

type EchoInput = Pick<TurnInput, "input" | "heartbeat" | "hook" | "onText">;

/** Answers a turn without a model: says that there is none, what came in, and how to set one. */
export function echoTurn(
  input: EchoInput,
  kinds: readonly ProviderDescription[],
): Extract<TurnResult, { ok: true }> {
  const text = input.heartbeat ? "HEARTBEAT_OK" : replyTo(input, kinds);
  input.onText?.(text);
  const messages = [{ role: "assistant", content: [{ type: "text", text }] }];
  return {
    ok: true,
    text,
    spoken: text,
    reasoning: "",
    calls: [],
    messages,
    usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0, costUsd: 0 },
    model: ECHO.ref,
    finish: "stop",
    warnings: [],
  };
}

function replyTo(input: EchoInput, kinds: readonly ProviderDescription[]): string {
  const received = plainText(input.input);
  const { text, cut } = cutText(oneLine(received), 200);
  const keys = kinds
    .flatMap(({ fromEnvironment }) => fromEnvironment?.variables.at(-1) ?? [])
    .join(", ");
  return [
    `[no model] Received ${received.length} characters${input.hook === undefined ? "" : ` through hook "${input.hook}"`}.`,
    `[no model] They begin: ${text}${cut > 0 ? " …" : ""}`,
    `[no model] To get answers, set ${keys === "" ? "" : `one of ${keys}, or `}agents.defaults.model and models.providers in the config (\`rouse init\` helps).`,
  ].join("\n");
}
