import { z } from "zod";
import { OUTCOMES } from "../../vocabulary/outcomes.ts";
import { ERROR_CODES } from "../../core/errors.ts";

/** The answers of the hooks interface, for the published document; the tests hold every real answer to them. */
const issue = z.strictObject({ path: z.string(), message: z.string() });
const time = z.iso.datetime();
const mode = z.enum(["now", "next-heartbeat"]);
export const runStatus = z.enum([
  "parked",
  "collecting",
  "queued",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
]);

const errorMember = z.strictObject({
  code: z.enum(ERROR_CODES),
  message: z.string().describe("Says what to change."),
  issues: z.array(issue).optional(),
});

export const errorAnswer = z
  .strictObject({
    ok: z.literal(false),
    error: errorMember,
    requestId: z.string().describe("The id of the recorded event, or of the refused request."),
  })
  .meta({ id: "Error" });

const warnings = z.array(z.string()).optional().describe("What was ignored, cut or lowered.");
const eventId = z.string();

export const wakeAnswer = z.strictObject({
  ok: z.literal(true),
  eventId,
  mode,
  mapping: z.string().optional(),
  warnings,
});

const started = z.enum(["queued", "parked", "collecting"]);
export const agentAnswer = z.strictObject({
  ok: z.literal(true),
  eventId,
  runId: z.string(),
  sessionKey: z.string(),
  status: started,
  mapping: z.string().optional(),
  warnings,
});

/** One of several actions. `ok: false` is an action that failed; the other actions are not affected. */
const item = z.union([
  z.strictObject({
    ok: z.literal(true),
    runId: z.string(),
    sessionKey: z.string(),
    status: started,
    mapping: z.string().optional(),
    duplicate: z.literal(true).optional(),
    warnings,
  }),
  z.strictObject({
    ok: z.literal(true),
    systemEventId: z.string(),
    mode,
    mapping: z.string().optional(),
    duplicate: z.literal(true).optional(),
    warnings,
  }),
  z.strictObject({ ok: z.literal(false), index: z.int(), error: errorMember }),
]);
export const severalAnswer = z.strictObject({
  ok: z.literal(true),
  eventId,
  results: z.array(item),
});

/** What a mapping in shadow answers: nothing was done. */
export const shadowAnswer = z.strictObject({
  ok: z.literal(true),
  eventId,
  outcome: z.literal("skipped"),
  reason: z.string(),
});

/** What is answered when no mapping of the path matched. */
export const unmatchedAnswer = z.strictObject({
  ok: z.literal(true),
  eventId,
  outcome: z.literal("unmatched"),
  nearest: z
    .strictObject({ mapping: z.string(), condition: z.string() })
    .optional()
    .describe("The mapping that came closest, and its condition that failed."),
});

/** What a sender that disables hooks is answered when the mapping failed. The event is kept, and can be replayed. */
export const failedAnswer = z.strictObject({
  ok: z.literal(true),
  eventId,
  outcome: z.literal("failed"),
});

/** What a repeat of an action that is done answers. */
export const repeatedAnswer = z.strictObject({
  ok: z.literal(true),
  eventId,
  runId: z.string().optional(),
  sessionKey: z.string().optional(),
  status: started.optional(),
  mode: mode.optional(),
  mapping: z.string().optional(),
  duplicate: z.literal(true),
  warnings,
});

const deliveryStatus = z.enum(["pending", "delivered", "failed", "skipped", "no_route", "unknown"]);

export const heldAnswer = z.strictObject({
  ok: z.boolean().describe("False for a run that failed."),
  runId: z.string(),
  status: runStatus,
  reply: z.string().nullable().optional().describe("Left out with `hooks.receipts: status`."),
  delivery: z.strictObject({ status: deliveryStatus }).nullable(),
});

export const eventReceiptAnswer = z.strictObject({
  ok: z.literal(true),
  event: z.strictObject({
    id: z.string(),
    receivedAt: time,
    path: z.string(),
    outcome: z.enum(OUTCOMES),
    reason: z.string().nullable(),
    mapping: z.string().nullable(),
    missing: z.array(z.string()).describe("Template expressions that found nothing."),
    duplicateOf: z.string().nullable(),
    actions: z.array(
      z.union([
        z.strictObject({
          kind: z.literal("wake"),
          systemEventId: z.string(),
          mapping: z.string().nullable(),
          status: z.literal("accepted"),
        }),
        z.strictObject({
          kind: z.literal("run"),
          runId: z.string(),
          mapping: z.string().nullable(),
          status: z.union([runStatus, z.literal("forgotten")]),
        }),
      ]),
    ),
  }),
});

export const runReceiptAnswer = z.strictObject({
  ok: z.literal(true),
  run: z.strictObject({
    id: z.string(),
    status: runStatus,
    agentId: z.string(),
    sessionKey: z.string(),
    model: z.string().nullable(),
    name: z.string(),
    reply: z.string().nullable().optional().describe("Left out with `hooks.receipts: status`."),
    error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
    warnings: z.array(z.string()),
    usage: z
      .strictObject({
        inputTokens: z.int().optional(),
        outputTokens: z.int().optional(),
        totalTokens: z.int().optional(),
      })
      .nullable(),
    attempts: z.int(),
    delivery: z
      .strictObject({
        status: deliveryStatus,
        channel: z.string().nullable(),
        to: z.string().nullable().optional().describe("Left out with `hooks.receipts: status`."),
        messageIds: z.array(z.string()),
        error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
      })
      .nullable(),
    createdAt: time,
    startedAt: time.nullable(),
    endedAt: time.nullable(),
  }),
});
