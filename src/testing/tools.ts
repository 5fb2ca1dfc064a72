import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Tool, ToolCallInfo } from "../contract/kinds.ts";
import {
  expectNoSecret,
  expectText,
  openForEachTest,
  within,
  type Harness,
  type Open,
} from "./harness.ts";

/** Calls of one tool. */
export interface ToolSample {
  /** Input as a model writes it. */
  input: unknown;
  /** Input that the schema must refuse. */
  invalid: readonly [unknown, ...unknown[]];
  /** Words that the result holds. */
  result?: readonly string[];
}

export interface ToolsHarness extends Harness {
  tools: readonly Tool[];
  /** One sample for each tool, by its name. */
  samples: Readonly<Record<string, ToolSample>>;
  /** The number of changes that the tools have made outside so far. Give it if a tool says `readOnly` or `idempotent`. */
  changes?(): number;
  /** Makes everything outside fail from now on. */
  fail?(): void;
  /** Texts that may not be in any result or error: credentials. */
  secrets?: readonly string[];
}

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const CALL_MS = 5_000;
let calls = 0;

/** The turn that calls: one of a hook. */
function callInfo(
  signal: AbortSignal = AbortSignal.timeout(CALL_MS),
  callId = `run_1.0.${calls++}`,
): ToolCallInfo {
  return { agentId: "main", sessionKey: "hook:one", runId: "run_1", kind: "hook", callId, signal };
}

function callTool(tool: Tool, { input }: ToolSample, call = callInfo()): Promise<unknown> {
  return within(
    CALL_MS + 1_000,
    `the tool ${tool.name}`,
    Promise.resolve(tool.execute(tool.input.parse(input), call)),
  );
}

/** A result as the model reads it. */
const toText = (result: unknown): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "");

/** Declares the tests that the tools of every plugin pass. */
export function testTools(name: string, open: Open<ToolsHarness>): void {
  describe(`tools ${name}`, () => {
    const harness = openForEachTest(open);
    /** Each tool with its sample. */
    const each = (): [Tool, ToolSample][] =>
      harness().tools.map((tool) => {
        const sample = harness().samples[tool.name];
        if (!sample) throw new Error(`there is no sample for the tool ${tool.name}`);
        return [tool, sample];
      });

    testDeclarations(harness, each);
    testCalls(harness, each);
    testChanges(harness, each);
  });
}

type Each = () => [Tool, ToolSample][];

function testDeclarations(harness: () => ToolsHarness, each: Each): void {
  it("have legal names, each once, and say what they do", () => {
    const { tools } = harness();
    expect(tools.length).toBeGreaterThan(0);
    for (const tool of tools) {
      expect(tool.name).toMatch(NAME);
      expectText(tool.description);
      // A tool that changes nothing cannot delete.
      expect([tool.name, tool.readOnly === true && tool.destructive === true]).toEqual([
        tool.name,
        false,
      ]);
    }
    expect(new Set(tools.map((tool) => tool.name)).size).toBe(tools.length);
  });

  it("have an input that JSON Schema can describe, as an object with described fields", () => {
    for (const [tool, { input }] of each()) {
      const schema = z.toJSONSchema(tool.input, { io: "input" });
      expect([tool.name, schema.type]).toEqual([tool.name, "object"]);
      const described = Object.entries(schema.properties ?? {}).filter(
        ([, field]) => (field as { description?: string }).description,
      );
      expect([tool.name, described.map(([field]) => field)]).toEqual([
        tool.name,
        Object.keys(schema.properties ?? {}),
      ]);
      expect(tool.input.safeParse(JSON.parse(JSON.stringify(input))).success).toBe(true);
    }
  });

  it("refuse wrong input by their schema, so that it is not executed", () => {
    for (const [tool, { invalid }] of each())
      for (const wrong of [...invalid, null, "text", []])
        expect([tool.name, wrong, tool.input.safeParse(wrong).success]).toEqual([
          tool.name,
          wrong,
          false,
        ]);
  });
}

function testCalls(harness: () => ToolsHarness, each: Each): void {
  it("give text, or a value that JSON can hold", async () => {
    for (const [tool, sample] of each()) {
      const result = await callTool(tool, sample);
      expectText(toText(result));
      if (typeof result !== "string") expect(JSON.parse(JSON.stringify(result))).toEqual(result);
      for (const words of sample.result ?? []) expect(toText(result)).toContain(words);
      expectNoSecret(toText(result), harness().secrets ?? []);
    }
  });

  it("end soon if the turn is cancelled", async () => {
    for (const [tool, sample] of each()) {
      const call = callTool(tool, sample, callInfo(AbortSignal.abort()));
      await within(
        1_000,
        `the cancelled tool ${tool.name}`,
        call.catch(() => undefined),
      );
    }
  });

  it("throw an error that a model can read if something fails outside, without a credential", async () => {
    const { fail, secrets = [] } = harness();
    if (!fail) return;
    fail();
    for (const [tool, sample] of each()) {
      const error = await callTool(tool, sample).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect([tool.name, error]).toEqual([tool.name, expect.any(Error)]);
      expectText((error as Error).message);
      expectNoSecret((error as Error).message, secrets);
    }
  });
}

function testChanges(harness: () => ToolsHarness, each: Each): void {
  /** Counts the changes that `work` makes. */
  const changesBy = async (work: () => Promise<unknown>): Promise<number> => {
    const { changes } = harness();
    if (!changes) throw new Error("give `changes`: a tool says what it changes");
    const before = changes();
    await work();
    return changes() - before;
  };

  it("change nothing if they are read-only", async () => {
    for (const [tool, sample] of each())
      if (tool.readOnly === true)
        expect([tool.name, await changesBy(() => callTool(tool, sample))]).toEqual([tool.name, 0]);
  });

  it("have the effect of one call for several with the same id if they are idempotent", async () => {
    for (const [tool, sample] of each()) {
      if (tool.idempotent !== true || tool.readOnly === true) continue;
      const same = callInfo();
      expect([tool.name, await changesBy(() => callTool(tool, sample, same))]).toEqual([
        tool.name,
        1,
      ]);
      expect([tool.name, await changesBy(() => callTool(tool, sample, same))]).toEqual([
        tool.name,
        0,
      ]);
      expect([tool.name, await changesBy(() => callTool(tool, sample))]).toEqual([tool.name, 1]);
    }
  });
}
