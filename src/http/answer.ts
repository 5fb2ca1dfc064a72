import type { Context } from "hono";
import type { Store } from "../store/types.ts";
import { failureResponse } from "./errors.ts";
import { deliveryStatus } from "../actions/receipts.ts";
import type { Answered } from "../intake/record.ts";

export interface AnswerDeps {
  store: Store;
  /** `hooks.path`. */
  base(): string;
  /** False with `hooks.receipts: "status"`. */
  showsReply(): boolean;
  /** Resolves when the run has ended or the time is over. */
  waitForRun(runId: string, ms: number): Promise<void>;
}

/** Writes the answer of a hook: the stored body, its status, and the headers that the contract names. */
export function answerHook(c: Context, answered: Answered, base: string, extra: Record<string, string>): Response {
  const headers: Record<string, string> = { "x-request-id": answered.event.id, ...extra };
  if (answered.failure) return failureResponse(c, answered.failure, answered.event.id, headers);
  if (answered.replayed) headers["idempotent-replayed"] = "true";
  const { status, body } = answered.answer;
  if (status === 204) return c.body(null, { status: 204, headers });
  headers["content-type"] = "application/json";
  const { runId } = body as { runId?: unknown };
  if (typeof runId === "string" && status === 202) headers["location"] = `${base}/runs/${runId}`;
  return c.body(JSON.stringify(body), { status: status as 200, headers });
}

const MAX_WAIT_SECONDS = 60;

/** Seconds of `Prefer: wait=N` (RFC 7240), at most 60; 0 where it does not say so. */
export function waitSeconds(prefer: string | undefined): number {
  if (prefer === undefined) return 0;
  const found = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,6})/i.exec(prefer);
  return found ? Math.min(Number(found[1]), MAX_WAIT_SECONDS) : 0;
}

/** Holds the answer until the run has ended, at most `seconds`; then it is the run's own, else the usual one. */
export async function answerWhenDone(
  c: Context,
  answered: Answered,
  seconds: number,
  deps: AnswerDeps,
  extra: Record<string, string>,
): Promise<Response> {
  const { runId } = answered.answer.body as { runId?: string };
  if (runId === undefined) return answerHook(c, answered, deps.base(), extra);
  await deps.waitForRun(runId, seconds * 1000);
  const run = await deps.store.getRun(runId);
  if (run?.endedAt === undefined) return answerHook(c, answered, deps.base(), extra);
  const delivery = run.deliveryId === undefined ? undefined : await deps.store.getDelivery(run.deliveryId);
  const status = deliveryStatus(run, delivery);
  const body = {
    ok: run.status === "succeeded",
    runId,
    status: run.status,
    // With `status`, what the agent said is not the caller's to read.
    ...(deps.showsReply() ? { reply: run.reply ?? null } : {}),
    delivery: status === undefined ? null : { status },
  };
  const preference = { "preference-applied": `wait=${seconds}` };
  return answerHook(c, { ...answered, answer: { status: 200, body } }, deps.base(), { ...extra, ...preference });
}
