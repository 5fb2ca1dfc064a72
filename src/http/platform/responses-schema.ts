import { z } from "zod";
import {
  commonFields,
  effort,
  fileFields,
  image,
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
  image_url: image,
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
const callFields = { call_id: text.min(1), name: text.min(1), namespace: text.nullish() };
const functionCall = z.object({
  type: z.literal("function_call"),
  ...callFields,
  arguments: text,
});
const customCall = z.object({ type: z.literal("custom_tool_call"), ...callFields, input: text });
const callOutput = z.object({
  type: z.enum(["function_call_output", "custom_tool_call_output"]),
  call_id: text.min(1),
  output: z
    .union([text, z.array(z.discriminatedUnion("type", [inputText, inputImage, inputFile]))])
    .nullable(),
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

const FOREIGN_TOOLS =
  "web_search|file_search|code_interpreter|image_generation|mcp|tool_search|computer|local_shell|shell|apply_patch";
/** Types of items that only other servers have, as of their hosted tools, or that a program has added under its name. */
export const FOREIGN = new RegExp(`^(?:${FOREIGN_TOOLS})_|^(?:additional_tools|compaction)$|.:.`);
/** Calls that another server carried out for an answer: the answer follows them and has what they found. */
const foreignItem = z
  .object({ type: text.regex(FOREIGN, { abort: true }) })
  .describe("Left out, with a warning of the run.");

export const responseItem = z.discriminatedUnion("type", [
  message,
  functionCall,
  customCall,
  callOutput,
  reference,
  reasoning,
]);

const functionTool = z.object({ type: z.literal("function"), ...toolFields });
const customTool = z
  .object({
    type: z.literal("custom"),
    name: toolName,
    description: text.nullish(),
    format: z.object({ syntax: text.nullish(), definition: text.nullish() }).nullish(),
  })
  .describe("The model gets it as a function with one text.");
const ownTools = z.discriminatedUnion("type", [functionTool, customTool]);
const namespace = z.object({
  type: z.literal("namespace"),
  name: toolName,
  tools: toolList(ownTools, ["name"], (tool) => tool.name),
});
/** A tool that the server would have to carry out. Coding clients send several with each request. */
const hostedTool = z
  .object({ type: text.regex(/^(?!(?:function|custom|namespace)$)/, { abort: true }) })
  .describe("Left out, with a warning of the run.");

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
    .union([text.min(1, "must not be empty"), z.array(z.union([responseItem, foreignItem]))])
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
    z.union([z.discriminatedUnion("type", [functionTool, customTool, namespace]), hostedTool]),
    ["name"],
    (tool) => ("name" in tool ? `${tool.type === "namespace"} ${tool.name}` : undefined),
  ).nullish(),
  tool_choice: z
    .union([
      toolMode,
      z.object({
        type: z.enum(["function", "custom"]),
        name: toolName,
        namespace: text.nullish(),
      }),
      hostedTool.describe("Refused: Rouse does not carry it out."),
    ])
    .nullish(),
});

export type ResponsesBody = z.output<typeof responsesBody>;
export type ResponseItem = z.output<typeof responseItem>;
