import type { Context } from "hono";
import type { ChatRequest, ChatTurn } from "../../chat/types.ts";
import { getFingerprint, type TurnAttempt } from "./idempotent-turns.ts";
import { badRequest, toProblem, type Result } from "./problems.ts";
import type { PlatformEnv, PlatformParts } from "./types.ts";

interface Wanted {
  request: ChatRequest;
  bytes: Buffer;
  session: string | undefined;
  route: string;
}

const MAX_KEY = 255;

/** Starts a turn, or joins the one that the same request has started. */
export function startTurn(
  c: Context<PlatformEnv>,
  { request, bytes, session, route }: Wanted,
  { chats, turns }: PlatformParts,
): Result<{ turn: ChatTurn; joined: boolean }> {
  const idempotencyKey = c.req.header("idempotency-key");
  if (idempotencyKey !== undefined && idempotencyKey.length > MAX_KEY)
    return { ok: false, problem: badRequest("Idempotency-Key", `use at most ${MAX_KEY} characters`) };
  const retryCount = Number(c.req.header("x-stainless-retry-count") ?? 0);
  const attempt: TurnAttempt = {
    keyId: c.get("caller").key.id,
    fingerprint: getFingerprint(route, session, bytes),
    idempotencyKey,
    retryCount,
  };
  const found = turns.find(attempt);
  if (found.kind === "conflict") return { ok: false, problem: found.problem };
  const started = found.kind === "joined" ? { ok: true as const, turn: found.turn } : chats.startTurn(request);
  if (!started.ok) return { ok: false, problem: toProblem(started.failure) };
  const { turn } = started;
  if (found.kind === "new") turns.add(attempt, turn);
  c.req.raw.signal.addEventListener(
    "abort",
    () => {
      if (!turn.end) turns.abandoned(turn);
    },
    { once: true },
  );
  return { ok: true, value: { turn, joined: found.kind === "joined" } };
}
