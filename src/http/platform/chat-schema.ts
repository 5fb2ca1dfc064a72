import { z } from "zod";

const text = z.string();

export const UNSUPPORTED = "unsupported_parameter";

/**
 * A field of the official API that Rouse does not have. A value that asks for nothing passes; any other is refused with
 * `instead`, which says what to do.
 */
export const unsupported = (
  instead: string,
  asksForNothing: (value: unknown) => boolean = () => false,
) =>
  z
    .unknown()
    .refine((value) => value === null || value === undefined || asksForNothing(value), {
      message: `this field is not supported: ${instead}`,
      params: { code: UNSUPPORTED },
    })
    .optional()
    .describe("Not supported.");

const textPart = z.object({ type: z.literal("text"), text });
const imageUrl = text.describe(
  "`data:image/png;base64,…`; other addresses only where the operator allows their host.",
);
/** The API has the address in an object in chats, and as a text in responses: clients mix the two. */
export const image = z.union([z.object({ url: imageUrl, detail: text.nullish() }), imageUrl]);
const imagePart = z.object({ type: z.literal("image_url"), image_url: image });
export const fileFields = {
  file_data: text
    .nullish()
    .describe("`data:application/pdf;base64,…`, of any format that documents may have."),
  filename: text.max(300).nullish(),
  file_id: unsupported("send the file as `file_data`, or let the agent search the document"),
};
const filePart = z.object({ type: z.literal("file"), file: z.object(fileFields) });
export const refusalPart = z.object({ type: z.literal("refusal"), refusal: text });
const userParts = z.array(z.discriminatedUnion("type", [textPart, imagePart, filePart]));
const userContent = z.union([text, userParts.min(1)]);
/** A tool may have no output: clients then send an empty list, or null. */
const resultContent = z.union([text, userParts]).nullable();
const textContent = z.union([text, z.array(z.discriminatedUnion("type", [textPart]))]);
const assistantContent = z.union([
  text,
  z.array(z.discriminatedUnion("type", [textPart, refusalPart])),
]);

const toolCall = z.object({
  id: text.min(1),
  type: z.literal("function").nullish(),
  function: z.object({ name: text.min(1), arguments: text }),
});

export const chatMessage = z.discriminatedUnion("role", [
  z.object({ role: z.literal("system"), content: textContent }),
  z.object({ role: z.literal("developer"), content: textContent }),
  z.object({ role: z.literal("user"), content: userContent, name: text.nullish() }),
  z.object({
    role: z.literal("assistant"),
    content: assistantContent.nullish(),
    refusal: text.nullish(),
    reasoning_content: text
      .nullish()
      .describe("The model's reasoning, as an earlier answer had it: some models need it again."),
    tool_calls: z.array(toolCall).nullish(),
    audio: unsupported("send the words of the earlier answer as `content`"),
  }),
  z.object({ role: z.literal("function"), content: text.nullish() }).refine(() => false, {
    path: ["role"],
    message:
      "the role `function` is not supported: send the result with the role `tool` and its `tool_call_id`",
    params: { code: UNSUPPORTED },
  }),
  z.object({ role: z.literal("tool"), content: resultContent, tool_call_id: text.min(1) }),
]);

/** As OpenAI's API has it. */
export const toolName = text.regex(
  /^[A-Za-z0-9_-]{1,64}$/,
  "use letters, digits, `_` and `-`, at most 64",
);
export const jsonObject = z.record(text, z.unknown());
export const sessionName = z.union([text, z.int()]);

/** A tool of the caller. */
export const toolFields = {
  name: toolName,
  description: text.nullish(),
  parameters: jsonObject.nullish(),
  strict: z.boolean().nullish(),
};
const tool = z.object({ type: z.literal("function"), function: z.object(toolFields) });

/** The tools of a request: each that has a name has one of its own, which is at `path`. */
export const toolList = <T extends z.ZodType>(
  tool: T,
  path: readonly string[],
  getName: (tool: z.output<T>) => string | undefined,
) =>
  z
    .array(tool)
    .max(128)
    .superRefine((tools, context) => {
      const names = tools.map(getName);
      const at = names.findIndex(
        (name, index) => name !== undefined && names.indexOf(name) < index,
      );
      if (at >= 0)
        context.addIssue({
          code: "custom",
          path: [at, ...path],
          message: "another tool of the request has this name: give each tool a name of its own",
        });
    });

/** The schema that an answer in JSON follows. */
export const jsonSchemaFields = {
  name: text.min(1),
  description: text.nullish(),
  schema: jsonObject.nullish(),
  strict: z.boolean().nullish(),
};

export const toolMode = z.enum(["auto", "none", "required"]);
export const effort = z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

const isFalse = (value: unknown): boolean => value === false;
const isTextOnly = (value: unknown): boolean =>
  Array.isArray(value) && value.every((modality) => modality === "text");
const NO_LOGPROBS = "leave it out; answers have no probabilities of tokens";
const USE_TOOLS = "send `tools` and `tool_choice`";

/** Fields of the official API that both routes refuse by their names, so that no caller waits for what never comes. */
const unsupportedFields = {
  logprobs: unsupported(NO_LOGPROBS, isFalse),
  top_logprobs: unsupported(NO_LOGPROBS, (value) => value === 0),
  functions: unsupported(USE_TOOLS, (value) => Array.isArray(value) && value.length === 0),
  function_call: unsupported(USE_TOOLS),
  audio: unsupported("leave it out; answers are text"),
  modalities: unsupported('leave it out, or send ["text"]', isTextOnly),
  web_search_options: unsupported("leave it out; give the agent a tool that searches"),
  prompt: unsupported(
    "send its text with the role `developer`, or as `instructions` of a response",
  ),
};

/** Fields that both routes have alike. */
export const commonFields = {
  ...unsupportedFields,
  model: text.min(1).describe("The agent: its id, `agent:<id>`, or `default`."),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  user: text.nullish().describe("Names the session where the key has `userAsSession`."),
  metadata: jsonObject.nullish().describe("`session_id` in it names the session."),
  session_id: sessionName
    .nullish()
    .describe("Names the session: with one user message alone, the server keeps the history."),
  conversation_id: sessionName.nullish().describe("The same as `session_id`."),
};

const STOPS = "send a string, or a list of at most four strings";

/** The body of a chat request. Fields that are not here are ignored; null is as good as none. */
export const chatBody = z.object({
  ...commonFields,
  background: unsupported("leave it out, or use /v1/responses", isFalse),
  conversation: unsupported("send `session_id`, which names the session, or use /v1/responses"),
  n: z.literal(1, "only one answer at a time: leave `n` out, or send 1").nullish(),
  messages: z.array(chatMessage).min(1, "send at least one message"),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  stop: z
    .union([z.string(STOPS), z.array(z.string(STOPS), STOPS).max(4, STOPS)])
    .nullish()
    .describe("A text, or up to four, at which the answer ends."),
  seed: z.int().nullish(),
  reasoning_effort: effort.nullish(),
  response_format: z
    .discriminatedUnion("type", [
      z.object({ type: z.literal("text") }),
      z.object({ type: z.literal("json_object") }),
      z.object({
        type: z.literal("json_schema"),
        json_schema: z.object(jsonSchemaFields),
      }),
    ])
    .nullish(),
  tools: toolList(
    z.discriminatedUnion("type", [tool]),
    ["function", "name"],
    ({ function: { name } }) => name,
  ).nullish(),
  tool_choice: z
    .union([
      toolMode,
      z.object({ type: z.literal("function"), function: z.object({ name: toolName }) }),
    ])
    .nullish(),
});

export type ChatBody = z.output<typeof chatBody>;
export type ChatMessage = z.output<typeof chatMessage>;
