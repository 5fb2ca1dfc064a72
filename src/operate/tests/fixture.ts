import { z } from "zod";
import { optionalField } from "../../config/schema/common.ts";
import { parseJson, writeJson } from "../../core/json.ts";
import { OUTCOMES } from "../../vocabulary/outcomes.ts";
import type { RecordedHook } from "../../intake/replay.ts";
import {
  recordedRunSchema,
  replySchema,
  type RecordedRun,
  type ReplyExpectation,
  type WrittenRun,
} from "./recorded-run.ts";

const text = z.string();
const names = z.record(text, text).default({});
const parameters = z.record(text, z.union([text, z.array(text)])).default({});
const words = z.array(text);

const actionSchema = z.strictObject({
  mapping: text.optional().describe("The mapping whose action it is."),
  fields: optionalField(
    z.record(text, z.union([text, z.number(), z.boolean()])),
    "All fields of the action. `<new>` at the end of a session stands for an id that is made for each event.",
  ),
  text: optionalField(
    z.union([text, words]),
    "The message or the text, or a list of its lines. What came from outside stands between ⟦ and ⟧.",
  ),
  session: text.optional().describe("The session key, in place of all fields."),
  contains: words.optional().describe("Words of the text, in place of the whole text."),
});

const expectSchema = z
  .strictObject({
    outcome: optionalField(
      z.enum(OUTCOMES).exclude(["duplicate"]),
      "What becomes of the event. A fixture with a `request` needs it.",
    ),
    mapping: text.optional().describe("The mapping that takes it."),
    actions: z.array(actionSchema).optional().describe("What is done, in order."),
    missing: words.optional().describe("Template expressions that find nothing."),
    reply: replySchema.optional(),
  })
  .describe(
    "What the mappings make of the request, and the agent's reply. What is left out is not compared.",
  );

const requestSchema = z
  .strictObject({
    method: z.enum(["POST", "GET"]).default("POST"),
    path: text.min(1).describe("The hook's path, such as `shop`."),
    query: parameters.describe(
      "Query parameters, without credentials; a list for one that comes several times.",
    ),
    headers: names.describe("Headers, without credentials."),
    contentType: text.optional().describe("What the body is. Default: JSON."),
    json: z.unknown().optional().describe("The body, if it is JSON."),
    text: text.optional().describe("The body as text."),
    base64: z.base64().optional().describe("The body as bytes."),
  })
  .refine(
    ({ json, text, base64 }) =>
      [json, text, base64].filter((body) => body !== undefined).length < 2,
    {
      message: "has more than one body: keep one of `json`, `text` and `base64`",
    },
  );

/** A file of `hooks.testsDir`. */
export const fixtureSchema = z
  .strictObject({
    $schema: text.optional().describe("For editors."),
    request: requestSchema
      .optional()
      .describe("The recorded request. A case with `run.prompt` has none."),
    receivedAt: z.iso.datetime({ offset: true }).describe("The time that the mappings see."),
    credential: text
      .regex(
        /^(?:hooks\.token|path:.+)$/,
        'write "hooks.token", or "path:" and the path that has its own credential',
      )
      .optional()
      .describe("What the request was authenticated with. Default: what the path needs."),
    run: recordedRunSchema.optional(),
    expect: expectSchema,
  })
  .superRefine(({ request, run, expect }, context) => {
    const refuse = (path: string[], message: string): void =>
      context.addIssue({ code: "custom", path, message });
    if (request && expect.outcome === undefined)
      refuse(["expect"], "has no `outcome`: what becomes of the request");
    if (request && run?.prompt !== undefined)
      refuse(
        ["run", "prompt"],
        "goes with no `request`: the request gives what the agent is asked",
      );
    if (!request && run?.prompt === undefined)
      refuse([], "needs a `request`, or a `run` with a `prompt`");
    if (!request && Object.keys(expect).some((name) => name !== "reply"))
      refuse(["expect"], "has more than `reply`: without a `request` no mapping decides");
  });

/** A file of fixtures as it is written. */
export type FixtureFile = Omit<z.infer<typeof fixtureSchema>, "run"> & {
  run?: WrittenRun | undefined;
};
export type FixtureRequest = z.infer<typeof requestSchema>;
/** The expected outcome of the mappings, or the one that they give. */
export type FixtureExpectation = Omit<FixtureFile["expect"], "reply">;
export type ExpectedAction = NonNullable<FixtureExpectation["actions"]>[number];

/** A file of `hooks.testsDir`: what comes in, and what is expected of the mappings, of the agent's reply, or of both. */
export interface TestCase {
  /** The file below `hooks.testsDir`, without its ending. */
  name: string;
  /** The absolute path. */
  file: string;
  /** Undefined if the run has a prompt. */
  request: FixtureRequest | undefined;
  /** Milliseconds since the epoch. */
  receivedAt: number;
  credential: string | undefined;
  /** Of the mappings; empty without a request. */
  expect: FixtureExpectation;
  run: RecordedRun | undefined;
  reply: ReplyExpectation | undefined;
}

/** A test of the mappings. */
export type Fixture = TestCase & { request: FixtureRequest };
/** A test that needs a model. */
export type AgentCase = TestCase & { run: RecordedRun; reply: ReplyExpectation };

export const isFixture = (one: TestCase): one is Fixture => one.request !== undefined;
export const isAgentCase = (one: TestCase): one is AgentCase => one.run !== undefined;

const isJsonType = (contentType: string | undefined): boolean =>
  contentType === undefined ||
  /^\s*(?:application\/(?:[\w.-]+\+)?json|text\/json)\s*(?:;|$)/i.test(contentType);

/** Parses JSON that means the same when it is written again. Undefined if it does not, or is none. */
function parseExact(text: string): { value: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return writeJson(parseJson(text)) === JSON.stringify(value) ? { value } : undefined;
  } catch {
    return undefined;
  }
}

/** The body as a fixture has it: JSON as it reads, anything else byte for byte. */
export function encodeBody(
  bytes: Buffer,
  contentType: string | undefined,
): Pick<FixtureRequest, "json" | "text" | "base64"> {
  const text = bytes.toString("utf8");
  if (!Buffer.from(text).equals(bytes)) return { base64: bytes.toString("base64") };
  const parsed = isJsonType(contentType) ? parseExact(text) : undefined;
  return parsed ? { json: parsed.value } : { text };
}

/** The body of a fixture as bytes. */
export function decodeBody({ json, text, base64 }: FixtureRequest): Buffer {
  if (json !== undefined) return Buffer.from(JSON.stringify(json));
  return base64 === undefined ? Buffer.from(text ?? "") : Buffer.from(base64, "base64");
}

/** A fixture's request as it would have been recorded. */
export function toRecordedHook(
  { request, receivedAt }: Pick<Fixture, "request" | "receivedAt">,
  credential: string,
): RecordedHook {
  const { method, path, query, headers, contentType } = request;
  const lower = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const type = contentType === undefined ? {} : { contentType };
  return {
    path,
    credential,
    receivedAt,
    request: { method, headers: lower, query, body: decodeBody(request), ...type },
  };
}

/** Characters that an editor or a terminal would not show: they are written as escapes. */
const UNSEEN = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text of a fixture's file. */
export function renderFixture(file: FixtureFile): string {
  const written = JSON.stringify(file, null, 2);
  return `${written.replace(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`;
}
