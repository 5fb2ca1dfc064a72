import { z } from "zod";
import { isFalse, unsupported } from "./unsupported.ts";
import { commonFields, effort, fileFields, jsonObject, toolMode, toolName } from "./chat-schema.ts";

const text = z.string();
const inputText = z.object({ type: z.literal("input_text"), text });
const outputText = z.object({ type: z.literal("output_text"), text });
const inputImage = z.object({ type: z.literal("input_image"), image_url: text, detail: text.nullish() });
const refusal = z.object({ type: z.literal("refusal"), refusal: text });
const inputFile = z.object({
  type: z.literal("input_file"),
  ...fileFields,
  file_url: unsupported("Rouse fetches no files; send `file_data`"),
});
const parts = z.array(z.discriminatedUnion("type", [inputText, outputText, inputImage, inputFile, refusal])).min(1);

const message = z.object({
  type: z.literal("message").nullish(),
  role: z.enum(["user", "assistant", "system", "developer"]),
  content: z.union([text, parts]),
});
const functionCall = z.object({ type: z.literal("function_call"), call_id: text.min(1), name: text.min(1), arguments: text });
const functionOutput = z.object({
  type: z.literal("function_call_output"),
  call_id: text.min(1),
  output: z.union([text, z.array(z.discriminatedUnion("type", [inputText]))]),
});

const reference = z.object({ type: z.literal("item_reference"), id: text.min(1) });

const reasoning = z.object({ type: z.literal("reasoning") });

export const responseItem = z.union([message, functionCall, functionOutput, reference, reasoning]);

/** Fields of the official API that are refused by their names. */
const unsupportedFields = {
  background: unsupported("leave it out, and read the answer or a stream of it", isFalse),
  prompt: unsupported("send its text as `instructions`"),
  top_logprobs: unsupported("leave it out; answers have no probabilities of tokens", (value) => value === 0),
};

/** The body of a request for a response. Fields that are not here are ignored; null is as good as none. */
export const responsesBody = z.object({
  ...commonFields,
  ...unsupportedFields,
  input: z.union([text.min(1, "must not be empty"), z.array(responseItem).min(1, "send at least one item")]),
  instructions: text.nullish().describe("Stands below the agent's own instructions."),
  previous_response_id: text.nullish().describe("Continues after that response, or branches off there."),
  conversation: z
    .union([text.min(1), z.object({ id: text.min(1) })])
    .nullish()
    .describe("Names the session."),
  store: z.boolean().nullish().describe("False: the response is not kept, and the conversation cannot be continued."),
  stream: z.boolean().nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  reasoning: z
    .object({
      effort: effort.nullish(),
      summary: z.enum(["auto", "concise", "detailed"]).nullish().describe("The output has the model's reasoning, if it gives any."),
    })
    .nullish(),
  text: z
    .object({
      format: z
        .discriminatedUnion("type", [
          z.object({ type: z.literal("text") }),
          z.object({ type: z.literal("json_object") }),
          z.object({
            type: z.literal("json_schema"),
            name: text.min(1),
            description: text.nullish(),
            schema: jsonObject.nullish(),
            strict: z.boolean().nullish(),
          }),
        ])
        .nullish(),
    })
    .nullish(),
  tools: z
    .array(
      z.discriminatedUnion("type", [
        z.object({
          type: z.literal("function"),
          name: toolName,
          description: text.nullish(),
          parameters: jsonObject.nullish(),
          strict: z.boolean().nullish(),
        }),
      ]),
    )
    .max(128)
    .nullish(),
  tool_choice: z.union([toolMode, z.object({ type: z.literal("function"), name: toolName })]).nullish(),
});

export type ResponsesBody = z.output<typeof responsesBody>;
export type ResponseItem = z.output<typeof responseItem>;
