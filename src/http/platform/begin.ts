import type { Context } from "hono";
import type { ChatRequest, ChatTurn } from "../../actions/chat-types.ts";
import { printOf, type Attempt, type Joins } from "./joins.ts";
import { badRequest, problemOf, type Result } from "./problems.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

interface Wanted {
  request: ChatRequest;
  bytes: Buffer;
  session: string | undefined;
  route: string;
}

const MAX_KEY = 255;

/** Begins a turn, or joins the one that the same request has begun. */
export function begin(
  c: Context<PlatformEnv>,
  { request, bytes, session, route }: Wanted,
  { chats }: PlatformDeps,
  joins: Joins,
): Result<{ turn: ChatTurn; joined: boolean }> {
  const idempotencyKey = c.req.header("idempotency-key");
  if (idempotencyKey !== undefined && idempotencyKey.length > MAX_KEY)
    return { ok: false, problem: badRequest("Idempotency-Key", `use at most ${MAX_KEY} characters`) };
  const retryCount = Number(c.req.header("x-stainless-retry-count") ?? 0);
  const attempt: Attempt = { keyId: c.get("caller").key.id, print: printOf(route, session, bytes), idempotencyKey, retryCount };
  const found = joins.find(attempt);
  if (found.kind === "conflict") return { ok: false, problem: found.problem };
  const begun = found.kind === "joined" ? { ok: true as const, turn: found.turn } : chats.begin(request);
  if (!begun.ok) return { ok: false, problem: problemOf(begun.failure) };
  const { turn } = begun;
  if (found.kind === "new") joins.add(attempt, turn);
  c.req.raw.signal.addEventListener(
    "abort",
    () => {
      if (!turn.end) joins.unheard(turn);
    },
    { once: true },
  );
  return { ok: true, value: { turn, joined: found.kind === "joined" } };
}
