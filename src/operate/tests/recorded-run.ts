import { z } from "zod";
import { optionalField, optionalSection, thinking } from "../../config/schema/common.ts";
import type { TextPart } from "../../core/text.ts";
import { compileExpression } from "../../mapping/jsonata/expression.ts";
import { compileRegex } from "../../mapping/regex.ts";

const text = z.string();
const lines = z.union([text, z.array(text)]);

/** Names the tool and the input, so that a call is found by what the agent asks for. */
const callSchema = z.strictObject({
  tool: text
    .regex(/^[^.\s]+\.\S+$/, "write `<server or plugin>.<tool>`")
    .describe("The tool, as the agent's `tools` name it: `<server or plugin>.<tool>`."),
  input: z
    .record(text, z.unknown())
    .default({})
    .describe("What the agent calls it with. Another input is another call."),
  result: z
    .unknown()
    .describe("What the tool answered: a text, or JSON, which the agent gets as compact text."),
  isError: z.boolean().optional().describe("The answer is that the call failed."),
  readOnly: optionalField(
    z.boolean(),
    "The tool changes nothing: the same call may be made more often than it was recorded.",
  ),
});

const toolSchema = z.strictObject({
  description: text.optional().describe("The description that the model gets."),
  schema: z
    .record(text, z.unknown())
    .optional()
    .describe("JSON schema of its input. Default: what the recorded inputs have."),
});

/** The run of an agent as it was recorded: what it was asked, what its tools answered, and what it replied. */
export const recordedRunSchema = z
  .strictObject({
    id: text.optional().describe("The run that was recorded."),
    action: optionalField(
      z.int().min(0),
      "Which action of the event starts the run, from 0. Default: the first that starts one.",
    ),
    prompt: optionalField(
      z.union([text, z.array(z.union([text, z.strictObject({ outside: text })]))]),
      "What the agent is asked, if no `request` gives it. Parts in `outside` are text from outside.",
    ),
    agent: text.optional().describe("The agent of `prompt`. Default: the first of the config."),
    mapping: text.optional().describe("The mapping whose event the prompt stands for."),
    instructions: text.optional().describe("The mapping's instructions, with `prompt`."),
    thinking: thinking.optional().describe("How much the model thinks, with `prompt`."),
    calls: z.array(callSchema).default([]).describe("The calls of tools, in order."),
    tools: z
      .record(text, toolSchema)
      .default({})
      .describe("What the model gets of tools besides their names."),
    reply: lines
      .optional()
      .describe("What the agent replied, or a list of its lines. A judge compares with it."),
    model: text.optional().describe("The model that replied."),
    tokens: z.number().optional().describe("Tokens that the run used."),
    costUsd: z.number().optional().describe("What the run cost, in US dollars."),
    seconds: z.number().optional().describe("How long the model and its tools took."),
  })
  .describe("A recorded run, for `rouse test --agents`.");

export type RecordedRun = z.infer<typeof recordedRunSchema>;
/** A recorded run as a file has it. */
export type WrittenRun = Omit<RecordedRun, "tools"> & Partial<Pick<RecordedRun, "tools">>;
export type RecordedCall = z.infer<typeof callSchema>;

function checkRegex(source: string, context: z.RefinementCtx): void {
  const compiled = compileRegex(source);
  if (!compiled.ok) context.addIssue({ code: "custom", message: compiled.message });
}

function checkJsonata(source: string, context: z.RefinementCtx): void {
  const compiled = compileExpression(source);
  if (!compiled.ok) context.addIssue({ code: "custom", message: compiled.message });
}

/** The expectations about a reply. All must hold. */
export const replySchema = z
  .strictObject({
    contains: z.array(text).optional().describe("Words that the reply has."),
    matches: optionalField(
      text.superRefine(checkRegex),
      "A regular expression that the reply fits somewhere, without lookaround and backreferences.",
    ),
    jsonata: optionalField(
      text.superRefine(checkJsonata),
      "A JSONata expression that is true. It sees `reply`, `json` (the reply, if it is JSON), `calls`, `tokens` and `request`.",
    ),
    judge: optionalSection("A model decides, and gives its reason.", {
      rubric: text
        .min(1)
        .describe(
          "What makes a reply good. The judge sees the task, the recorded reply and the reply.",
        ),
      model: text.optional().describe("The model that judges. Default: `agents.defaults.model`."),
    }),
    repeat: optionalField(
      z.int().min(1).max(100),
      "How often the agent is run, since models do not always say the same. Default: 1.",
    ),
    passes: optionalField(z.int().min(1), "How many of these runs have to pass. Default: all."),
  })
  .describe("What is expected of the agent's reply, by `rouse test --agents`.");

export type ReplyExpectation = z.infer<typeof replySchema>;

/** The parts of a prompt as a run has them. */
export function toPromptParts(prompt: NonNullable<RecordedRun["prompt"]>): TextPart[] {
  const parts = typeof prompt === "string" ? [prompt] : prompt;
  return parts.map((part) =>
    typeof part === "string"
      ? { text: part, outside: false }
      : { text: part.outside, outside: true },
  );
}

/** The text of a tool's answer: JSON is compact. */
export const toResultText = (result: unknown): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "");
