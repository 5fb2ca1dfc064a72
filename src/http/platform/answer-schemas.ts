import { z } from "zod";

/** The answers of the platform API, for the published document; the tests hold every real answer to them. */
const text = z.string();
const count = z.int().min(0);

const error = z.strictObject({
  message: text.describe("Says what to change."),
  type: text,
  param: text.nullable().describe("The field that is wrong."),
  code: text,
});
export const apiErrorAnswer = z.strictObject({ error }).meta({ id: "PlatformError" });

/** A page of a list. */
export const listOf = <S extends z.ZodType>(row: S) =>
  z.strictObject({ object: z.literal("list"), data: z.array(row), has_more: z.boolean() });

const citation = z.strictObject({
  index: z.int().min(1).describe("The number by which the answer names it."),
  document_id: text,
  chunk_id: text,
  filename: text,
  title: text.nullable(),
  page: z.int().nullable(),
  score: z.number().nullable().describe("Null for a passage that an earlier turn has found."),
  quote: text,
});
const citations = z
  .array(citation)
  .optional()
  .describe("The passages that the answer names by their number.");

const toolCall = z.strictObject({
  id: text,
  type: z.literal("function"),
  function: z.strictObject({ name: text, arguments: text }),
});
const type = z.literal("url_citation");
const source = { start_index: count, end_index: count, url: text, title: text };

export const chatAnswer = z.strictObject({
  id: text,
  object: z.literal("chat.completion"),
  created: z.int(),
  model: text.describe("The agent's id."),
  choices: z
    .array(
      z.strictObject({
        index: z.literal(0),
        message: z.strictObject({
          role: z.literal("assistant"),
          content: text.nullable(),
          refusal: z.null(),
          reasoning_content: text
            .optional()
            .describe("What the model thought, if its provider shows it."),
          tool_calls: z.array(toolCall).optional().describe("Calls of the caller's own tools."),
          annotations: z
            .array(z.strictObject({ type, url_citation: z.strictObject(source) }))
            .optional(),
        }),
        logprobs: z.null(),
        finish_reason: z.enum(["stop", "length", "content_filter", "tool_calls"]),
      }),
    )
    .length(1),
  usage: z
    .strictObject({
      prompt_tokens: count,
      completion_tokens: count,
      total_tokens: count,
      prompt_tokens_details: z.strictObject({ cached_tokens: count }).optional(),
      completion_tokens_details: z.strictObject({ reasoning_tokens: count }).optional(),
    })
    .nullable()
    .describe("As the provider counted it; null if the provider reported no count."),
  citations,
});

const status = z.enum(["in_progress", "completed", "incomplete"]);
const responseStatus = z.enum([
  "queued",
  "in_progress",
  "completed",
  "incomplete",
  "failed",
  "cancelled",
]);

export const responseAnswer = z.strictObject({
  id: text,
  object: z.literal("response"),
  created_at: z.int(),
  status: responseStatus,
  error: z.strictObject({ code: text, message: text }).nullable(),
  incomplete_details: z.strictObject({ reason: text }).nullable(),
  conversation: z.strictObject({ id: text }).nullable(),
  instructions: text.nullable(),
  max_output_tokens: z.int().nullable(),
  model: text,
  output: z.array(
    z.union([
      z.strictObject({
        type: z.literal("message"),
        id: text,
        status,
        role: z.literal("assistant"),
        content: z.array(
          z.strictObject({
            type: z.literal("output_text"),
            text,
            annotations: z.array(z.strictObject({ type, ...source })),
            logprobs: z.array(z.unknown()),
          }),
        ),
      }),
      z.strictObject({
        type: z.literal("reasoning"),
        id: text,
        summary: z.array(z.strictObject({ type: z.literal("summary_text"), text })),
        encrypted_content: text.optional().describe("`rouse:` and the same text, not encrypted."),
      }),
      z.strictObject({
        type: z.literal("function_call"),
        id: text,
        call_id: text,
        name: text,
        arguments: text,
        status,
      }),
    ]),
  ),
  parallel_tool_calls: z.boolean(),
  previous_response_id: text.nullable(),
  store: z.boolean(),
  temperature: z.number().nullable(),
  text: z.strictObject({ format: z.looseObject({ type: text }) }),
  tool_choice: z.union([text, z.looseObject({ type: text })]),
  tools: z.array(z.looseObject({ type: text })),
  top_p: z.number().nullable(),
  usage: z
    .strictObject({
      input_tokens: count,
      input_tokens_details: z.strictObject({ cached_tokens: count }),
      output_tokens: count,
      output_tokens_details: z.strictObject({ reasoning_tokens: count }),
      total_tokens: count,
    })
    .nullable(),
  metadata: z.record(text, z.unknown()),
  citations,
});

export const modelAnswer = z.strictObject({
  id: text,
  object: z.literal("model"),
  created: z.int(),
  owned_by: text,
});
export const modelsAnswer = z.strictObject({
  object: z.literal("list"),
  data: z.array(modelAnswer),
});

export const agentsAnswer = listOf(
  z.strictObject({
    id: text,
    object: z.literal("agent"),
    name: text,
    description: text.nullable(),
    model: text,
    capabilities: z.array(text),
    knowledge: z.enum(["off", "tool", "auto"]).describe("How it uses uploaded documents."),
    created: z.int(),
  }),
);
