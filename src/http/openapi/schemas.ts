import { z } from "zod";
import { DELIVERY_STATES, OUTCOMES, RUN_STATUSES } from "../../vocabulary/outcomes.ts";
import { ERROR_CODES } from "../../core/errors.ts";

/** The answers of the hooks interface, for the published document; the tests hold every real answer to them. */
const issue = z.strictObject({ path: z.string(), message: z.string() });
const time = z.iso.datetime();
const mode = z.enum(["now", "next-heartbeat"]);
export const runStatus = z.enum(RUN_STATUSES);

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

const text = z.string();
const ok = z.literal(true);
const warnings = z.array(text).optional().describe("What was ignored, cut or lowered.");
const mapping = text.optional();
const started = z.enum(["queued", "parked", "collecting"]);
/** The first members of the answer to a recorded event. */
const accepted = z.strictObject({ ok, eventId: text });

export const wakeAnswer = accepted.extend({ mode, mapping, warnings });

const runFields = { runId: text, sessionKey: text, status: started };
export const agentAnswer = accepted.extend({ ...runFields, mapping, warnings });

const duplicate = ok.optional();
/** One of several actions. `ok: false` is an action that failed; the other actions are not affected. */
const item = z.union([
  z.strictObject({ ok, ...runFields, mapping, duplicate, warnings }),
  z.strictObject({ ok, systemEventId: text, mode, mapping, duplicate, warnings }),
  z.strictObject({ ok: z.literal(false), index: z.int(), error: errorMember }),
]);
export const severalAnswer = accepted.extend({ results: z.array(item) });

/** The answer of a mapping in shadow: nothing was done. */
export const shadowAnswer = accepted.extend({ outcome: z.literal("skipped"), reason: text });

/** The answer if no mapping of the path matched. */
export const unmatchedAnswer = accepted.extend({
  outcome: z.literal("unmatched"),
  nearest: z
    .strictObject({ mapping: text, condition: text })
    .optional()
    .describe("The mapping that came closest, and its condition that failed."),
});

/** The answer to a sender that disables hooks, if the mapping failed. The event is kept, and can be replayed. */
export const failedAnswer = accepted.extend({ outcome: z.literal("failed") });

/** The answer to a repeat of an action that is done. */
export const repeatedAnswer = accepted.extend({
  ...z.object(runFields).partial().shape,
  mode: mode.optional(),
  mapping,
  duplicate: ok,
  warnings,
});

const failure = z.strictObject({ code: text, message: text });
const deliveryStatus = z.enum([...DELIVERY_STATES, "skipped"]);

export const heldAnswer = z.strictObject({
  ok: z.boolean().describe("False for a run that failed."),
  runId: text,
  status: runStatus,
  reply: text.nullable().optional().describe("Left out with `hooks.receipts: status`."),
  delivery: z.strictObject({ status: deliveryStatus }).nullable(),
});

export const eventReceiptAnswer = z.strictObject({
  ok: ok,
  event: z.strictObject({
    id: text,
    receivedAt: time,
    path: text,
    outcome: z.enum(OUTCOMES),
    reason: text.nullable(),
    mapping: text.nullable(),
    missing: z.array(text).describe("Template expressions that found nothing."),
    duplicateOf: text.nullable(),
    actions: z.array(
      z.union([
        z.strictObject({
          kind: z.literal("wake"),
          systemEventId: text,
          mapping: text.nullable(),
          status: z.literal("accepted"),
        }),
        z.strictObject({
          kind: z.literal("run"),
          runId: text,
          mapping: text.nullable(),
          status: z.union([runStatus, z.literal("forgotten")]),
        }),
      ]),
    ),
  }),
});

export const runReceiptAnswer = z.strictObject({
  ok: ok,
  run: z.strictObject({
    id: text,
    status: runStatus,
    agentId: text,
    sessionKey: text,
    model: text.nullable(),
    name: text,
    reply: text.nullable().optional().describe("Left out with `hooks.receipts: status`."),
    error: failure.nullable(),
    warnings: z.array(text),
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
        channel: text.nullable(),
        to: text.nullable().optional().describe("Left out with `hooks.receipts: status`."),
        messageIds: z.array(text),
        error: failure.nullable(),
      })
      .nullable(),
    createdAt: time,
    startedAt: time.nullable(),
    endedAt: time.nullable(),
  }),
});
