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

/** Answers in forms of the field: their other members are those of the official API. */
export const chatAnswer = z.looseObject({
  id: text,
  object: z.literal("chat.completion"),
  created: z.int(),
  model: text.describe("The agent's id."),
  choices: z.array(z.looseObject({ index: z.literal(0) })).length(1),
  usage: z
    .looseObject({ prompt_tokens: count, completion_tokens: count, total_tokens: count })
    .nullable()
    .describe("As the provider counted it; null if the provider reported no count."),
  citations,
});
export const responseAnswer = z.looseObject({
  id: text,
  object: z.literal("response"),
  created_at: z.int(),
  status: z.enum(["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]),
  model: text.describe("The agent's id."),
  error: z.strictObject({ code: text, message: text }).nullable(),
  output: z.array(z.looseObject({ type: text })),
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
