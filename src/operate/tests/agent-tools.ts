import { isDeepStrictEqual } from "node:util";
import type { JSONSchema7 } from "ai";
import { neutralise } from "../../agent/neutralise.ts";
import { toModelName, type OfferedTool } from "../../agent/tools/offered-tool.ts";
import { toTextOutput } from "../../agent/tools/tool-results.ts";
import type { PickedTools, ToolTurn } from "../../agent/types.ts";
import { allCoverTool, type ToolPatterns } from "../../vocabulary/tool-names.ts";
import { cutText } from "../../core/text.ts";
import type { AgentCase } from "./fixture.ts";
import { toResultText, type RecordedCall } from "./recorded-run.ts";

/** The search in documents is an agent's own: no list names it. */
const SEARCH = "knowledge.knowledge_search";
const SEARCH_WORDS =
  "Searches the documents that were uploaded for you. Give a question or a few telling words.";
const MAX_SHOWN = 300;
const MAX_DESCRIPTION = 700;

/** A tool as the recordings of a folder know it. */
export interface KnownTool {
  tool: string;
  description: string | undefined;
  schema: Record<string, unknown>;
  readOnly: boolean;
}

/** A call that an agent made in a case. */
export interface MadeCall {
  tool: string;
  input: unknown;
  from: "recording" | "nowhere";
}

function getJsonType(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** The JSON schema that recorded inputs fit: their fields, with the type that each had. */
function inferSchema(inputs: readonly Record<string, unknown>[]): Record<string, unknown> {
  const names = [...new Set(inputs.flatMap((input) => Object.keys(input)))];
  const properties = names.map((name) => {
    const types = [
      ...new Set(
        inputs.flatMap((input) => (Object.hasOwn(input, name) ? getJsonType(input[name]) : [])),
      ),
    ];
    return [name, types.length === 1 && types[0] !== "null" ? { type: types[0] } : {}];
  });
  const required = names.filter((name) => inputs.every((input) => Object.hasOwn(input, name)));
  return {
    type: "object",
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
  };
}

/** Collects the tools that the cases of a folder call or describe: each case offers those that its agent may use. */
export function collectTools(cases: readonly AgentCase[]): KnownTool[] {
  const calls = Map.groupBy(
    cases.flatMap(({ run }) => run.calls),
    ({ tool }) => tool,
  );
  const described = Map.groupBy(
    cases.flatMap(({ run }) => Object.entries(run.tools)),
    ([tool]) => tool,
  );
  return [...new Set([...calls.keys(), ...described.keys()])].toSorted().map((tool) => {
    const made = calls.get(tool) ?? [];
    const known = (described.get(tool) ?? []).map(([, one]) => one);
    return {
      tool,
      description: known.find(({ description }) => description !== undefined)?.description,
      schema:
        known.find(({ schema }) => schema !== undefined)?.schema ??
        inferSchema(made.map(({ input }) => input)),
      readOnly: made.length > 0 && made.every(({ readOnly }) => readOnly === true),
    };
  });
}

const show = (input: unknown): string => {
  const { text, cut } = cutText(JSON.stringify(input) ?? "", MAX_SHOWN);
  return cut > 0 ? `${text}…` : text;
};

interface CaseToolsOptions {
  agentCase: AgentCase;
  /** Those of the whole folder. */
  known: readonly KnownTool[];
  /** The tools that the agent may use. */
  patterns: ToolPatterns;
  hasKnowledge: boolean;
  /** Called with the reason when a call has no answer: the case has failed. */
  onUnrecorded(reason: string): void;
}

/** The tools of one run of a case: the recording answers their calls, and no server is contacted. */
export class CaseTools {
  readonly calls: MadeCall[] = [];
  readonly #options: CaseToolsOptions;
  readonly #used = new Set<RecordedCall>();

  constructor(options: CaseToolsOptions) {
    this.#options = options;
  }

  /** Returns the tools for a turn, in the form that the agent's own have. */
  async pick({ boundary }: ToolTurn): Promise<PickedTools> {
    const { jsonSchema } = await import("ai");
    const { known, patterns, hasKnowledge } = this.#options;
    const covered = known.filter(({ tool }) =>
      tool === SEARCH ? hasKnowledge : allCoverTool(patterns, tool),
    );
    const tools = covered.map(({ tool, schema, readOnly, ...described }): OfferedTool => {
      const description = described.description ?? (tool === SEARCH ? SEARCH_WORDS : undefined);
      const words =
        description === undefined
          ? undefined
          : cutText(neutralise(description), MAX_DESCRIPTION).text;
      return {
        name: toModelName(tool),
        tool,
        hints: { readOnly, idempotent: readOnly, destructive: false },
        exclusive: false,
        definition: {
          inputSchema: jsonSchema(schema as JSONSchema7),
          ...(words !== undefined && { description: boundary.wrap(words, `tool ${tool}`) }),
        },
        execute: (input) => Promise.resolve(this.#answer(tool, input)),
      };
    });
    return { tools, warnings: [] };
  }

  /** Answers a call by the tool and the input, equal calls in their order. */
  #answer(tool: string, input: unknown) {
    const ofTool = this.#options.agentCase.run.calls.filter((call) => call.tool === tool);
    const equal = ofTool.filter((call) => isDeepStrictEqual(call.input, input ?? {}));
    const last = equal.at(-1);
    const recorded =
      equal.find((call) => !this.#used.has(call)) ?? (last?.readOnly ? last : undefined);
    this.calls.push({ tool, input, from: recorded ? "recording" : "nowhere" });
    if (recorded) {
      this.#used.add(recorded);
      return toTextOutput(toResultText(recorded.result), recorded.isError === true);
    }
    const reason = explainMiss(tool, input, ofTool, equal.length);
    this.#options.onUnrecorded(reason);
    return toTextOutput(reason, true);
  }
}

/** Says why a call has no answer. */
function explainMiss(
  tool: string,
  input: unknown,
  ofTool: readonly RecordedCall[],
  times: number,
): string {
  const called = `the agent called ${tool} with ${show(input)}`;
  if (times > 0)
    return `${called} more often than it was recorded (${times === 1 ? "once" : `${times} times`})`;
  const others = ofTool.slice(0, 3).map((call) => show(call.input));
  const recorded =
    others.length === 0 ? "no call of this tool was" : `recorded with ${others.join(", ")}`;
  return `${called}, which was not recorded; ${recorded}`;
}
