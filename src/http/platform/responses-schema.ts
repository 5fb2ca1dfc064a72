import { z } from "zod";
import {
  commonFields,
  effort,
  fileFields,
  jsonSchemaFields,
  refusalPart,
  toolFields,
  toolList,
  toolMode,
  toolName,
  unsupported,
} from "./chat-schema.ts";

const text = z.string();
const inputText = z.object({ type: z.literal("input_text"), text });
const outputText = z.object({ type: z.literal("output_text"), text });
const inputImage = z.object({
  type: z.literal("input_image"),
  file_id: unsupported("send the image as `image_url`"),
  image_url: text,
  detail: text.nullish(),
});
const inputFile = z.object({
  type: z.literal("input_file"),
  ...fileFields,
  file_url: unsupported("Rouse fetches no files; send `file_data`"),
});
const parts = z.array(
  z.discriminatedUnion("type", [inputText, outputText, inputImage, inputFile, refusalPart]),
);

const message = z
  .object({
    type: z.literal("message").nullish(),
    role: z.enum(["user", "assistant", "system", "developer"]),
    content: z.union([text, parts]),
  })
  // An answer that only called tools has none.
  .refine(
    ({ role, content }) =>
      role === "assistant" || typeof content === "string" || content.length > 0,
    {
      path: ["content"],
      message: "send at least one part",
    },
  );
const functionCall = z.object({
  type: z.literal("function_call"),
  call_id: text.min(1),
  name: text.min(1),
  arguments: text,
});
const functionOutput = z.object({
  type: z.literal("function_call_output"),
  call_id: text.min(1),
  output: z.union([
    text,
    z.array(z.discriminatedUnion("type", [inputText, inputImage, inputFile])),
  ]),
});

const reference = z.object({ type: z.literal("item_reference"), id: text.min(1) });

/** The model's reasoning, as an earlier answer had it. Clients that have it of other servers give its parts other types. */
const thoughts = z.array(z.object({ text })).nullish();
const reasoning = z.object({
  type: z.literal("reasoning"),
  summary: thoughts,
  content: thoughts,
  encrypted_content: text.nullish(),
});

/** Calls that tools of another server carried out for an answer. The answer follows them and has what they found. */
const foreignCall = z
  .object({
    type: z.enum([
      "web_search_call",
      "file_search_call",
      "code_interpreter_call",
      "image_generation_call",
      "mcp_list_tools",
      "mcp_call",
    ]),
  })
  .describe("Left out, with a warning of the run.");

const name = text.regex(/^[\w.-]{1,64}$/);
/** An item that another program has added to the format: its type begins with the program's name. */
const extension = z
  .object({ type: z.templateLiteral([name, ":", name]) })
  .describe("Left out, with a warning of the run.");

export const responseItem = z.union([
  z.discriminatedUnion("type", [
    message,
    functionCall,
    functionOutput,
    reference,
    reasoning,
    foreignCall,
  ]),
  extension,
]);

const hasNoLogprobs = (value: unknown): boolean =>
  Array.isArray(value) && !value.some((name) => String(name).includes("logprobs"));

/** The body of a request for a response. Fields that are not here are ignored; null is as good as none. */
export const responsesBody = z.object({
  ...commonFields,
  include: unsupported(
    "leave `message.output_text.logprobs` out; answers have no probabilities of tokens",
    hasNoLogprobs,
  ),
  background: z
    .boolean()
    .nullish()
    .describe("True: answered immediately; read the response by its id until it has ended."),
  input: z
    .union([text.min(1, "must not be empty"), z.array(responseItem)])
    .nullish()
    .describe("May be left out if `instructions` say all."),
  instructions: text.nullish().describe("Stands below the agent's own instructions."),
  previous_response_id: text
    .nullish()
    .describe("Continues after that response, or branches off there."),
  conversation: z
    .union([text.min(1), z.object({ id: text.min(1) })])
    .nullish()
    .describe("Names the session."),
  store: z
    .boolean()
    .nullish()
    .describe("False: the response is not kept, and the conversation cannot be continued."),
  stream: z.boolean().nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  reasoning: z
    .object({
      effort: effort.nullish(),
      summary: z
        .enum(["auto", "concise", "detailed"])
        .nullish()
        .describe("The output has the model's reasoning, if it gives any."),
    })
    .nullish(),
  text: z
    .object({
      format: z
        .discriminatedUnion("type", [
          z.object({ type: z.literal("text") }),
          z.object({ type: z.literal("json_object") }),
          z.object({ type: z.literal("json_schema"), ...jsonSchemaFields }),
        ])
        .nullish(),
    })
    .nullish(),
  tools: toolList(
    z.discriminatedUnion("type", [z.object({ type: z.literal("function"), ...toolFields })]),
    ["name"],
    ({ name }) => name,
  ).nullish(),
  tool_choice: z
    .union([toolMode, z.object({ type: z.literal("function"), name: toolName })])
    .nullish(),
});

export type ResponsesBody = z.output<typeof responsesBody>;
export type ResponseItem = z.output<typeof responseItem>;
