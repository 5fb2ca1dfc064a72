/** The loop of a turn: one model call a step, then the tool calls that it asked for. */
import { TIMEOUT } from "../vocabulary/decision.ts";
import type { Traces } from "../core/http/trace-context.ts";
import type { ApprovalDecision, StepRecord, ToolCallRecord } from "../store/steps.ts";
import type { Ms } from "../store/types.ts";
import type {
  CallChange,
  CallVerdict,
  Journal,
  JudgedCall,
  NewApproval,
  CallGate,
} from "./types.ts";
import { OutcomeUnknownError, type OfferedTool } from "./tools/offered-tool.ts";
import { isWordless } from "./steps.ts";
import { getExactInput, isRounded } from "./tools/call-inputs.ts";
import { cutOutput, toTextOutput } from "./tools/tool-results.ts";

/** The most steps of a turn. The last one has no tools, so that it ends with words. */
export const MAX_STEPS = 16;
/** Repeats of a call that may be repeated, before its error becomes the result that the model gets. */
const MAX_REPEATS = 2;

/** The result of one model call. */
export interface ModelStep extends Pick<
  StepRecord,
  "model" | "messages" | "finish" | "usage" | "startedAt" | "endedAt" | "failedAttempts"
> {
  calls: readonly {
    toolCallId: string;
    toolName: string;
    input: unknown;
    /** As the model wrote it. */
    inputText?: string | undefined;
    invalid?: boolean | undefined;
  }[];
}

export interface LoopOptions {
  runId: string;
  /** By the name that the model uses. */
  tools: ReadonlyMap<string, OfferedTool>;
  /** Names of the tools whose calls the caller carries out. */
  callerTools: ReadonlySet<string>;
  journal: Journal;
  /** Asked before a call starts that has not been decided. Default: it starts. */
  judge?: ((call: Omit<JudgedCall, "context">) => CallVerdict | undefined) | undefined;
  /** The way to settle a call that was started and has no answer: ask a person, or report it to the model. */
  onUnknown: "ask" | "tell";
  /** The most text of one result that the model gets in the conversation, in bytes of UTF-8. */
  maxResultBytes: number;
  signal: AbortSignal;
  /** Kept with the first step. */
  offer?: StepRecord["offer"];
  /** Asked before each call of a tool: false if another gateway has the run. Default: none can have it. */
  ready?: CallGate["ready"] | undefined;
  clock: { now(): Ms };
  traces: Traces;
  /** Gets what the operator should know. */
  warnings: string[];
  /** Calls the model after these steps. `isLast`: without tools. */
  callModel(steps: readonly StepRecord[], isLast: boolean): Promise<ModelStep>;
}

/** The end of a loop. `waiting`: `asks` are new questions, `open` the approvals that were asked for before. */
export type LoopEnd =
  | { kind: "done"; steps: readonly StepRecord[]; isLimited: boolean }
  | { kind: "waiting"; asks: NewApproval[]; open: string[] }
  | { kind: "given-up"; message: string }
  | { kind: "lost" };

const LOST = { kind: "lost" } as const;
const UNKNOWN =
  "The call was started, and no answer came: it may have been carried out, or not. Do not repeat it without being asked to.";
const CONFIRMED = "A person has confirmed that this call was carried out. Its result is not known.";

const NO_TOOL = "There is no tool of this name";
const CUT_CALL =
  "The answer reached its limit within this call, and the tool was not called. Write a shorter one.";

type Plan =
  | { do: "nothing" }
  | { do: "start" }
  | { do: "ask"; ask: NewApproval }
  | { do: "wait"; approvalId: string }
  | { do: "answer"; change: CallChange["change"] }
  | { do: "give-up"; message: string };

/** Answers a call with a text of Rouse's own. All but `done` are errors to the model. */
const answer = (
  state: ToolCallRecord["state"],
  text: string,
  more: { endedAt?: Ms } = {},
): Plan => ({
  do: "answer",
  change: { state, output: toTextOutput(text, state !== "done"), ...more },
});

const isRepeatable = ({ hints }: OfferedTool): boolean => hints.readOnly || hints.idempotent;

function buildAsk(call: ToolCallRecord, reason: NewApproval["reason"], why: string): NewApproval {
  const { id, tool } = call;
  return { callId: id, tool, input: getExactInput(call), reason, why };
}

function renderDenial({ by, note }: ApprovalDecision): string {
  if (by === TIMEOUT)
    return "The call was not made: it needs an approval, and no decision was made in time.";
  return `The call was not made: a person denied it.${note === undefined ? "" : ` Their words: ${note}`}`;
}

const CUT = /^(?:ECONNRESET|EPIPE|ETIMEDOUT|UND_ERR_(?:SOCKET|HEADERS_TIMEOUT|BODY_TIMEOUT))$/;

/**
 * Returns whether a tool threw because its own connection was cut after the request had left, or no answer came in
 * time.
 */
function isCut(error: unknown, depth = 0): boolean {
  if (!(error instanceof Error) || depth > 4) return false;
  const { code } = error as { code?: unknown };
  return (
    error.name === "TimeoutError" ||
    (typeof code === "string" && CUT.test(code)) ||
    isCut(error.cause, depth + 1)
  );
}

/** Waits for all, and then throws what the first that failed threw: no call is left behind under way. */
async function allEnded<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

class Loop {
  readonly #options: LoopOptions;
  readonly #steps: StepRecord[];

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#steps = [...options.journal.steps];
  }

  async run(): Promise<LoopEnd> {
    const { signal, callModel } = this.#options;
    const open = this.#steps.at(-1);
    if (open) {
      const stopped = await this.#makeCalls(open, false);
      if (stopped) return stopped;
    }
    for (;;) {
      signal.throwIfAborted();
      const isLast = this.#steps.length >= MAX_STEPS - 1;
      const step = this.#toStep(await callModel(this.#steps, isLast), isLast);
      this.#steps.push(step);
      if (!isLast && this.#isAskedAgain(step)) {
        if (!(await this.#options.journal.addStep(step))) return LOST;
        continue;
      }
      const isEnd = step.calls.length === 0;
      if (isEnd) return { kind: "done", steps: this.#steps, isLimited: isLast };
      const stopped = await this.#makeCalls(step, true);
      if (stopped) return stopped;
      if (step.calls.some((call) => this.#isCallers(call)))
        return { kind: "done", steps: this.#steps, isLimited: false };
    }
  }

  /**
   * Returns whether the model is asked once more, since it ended without a word. If its limit was reached, the same
   * would follow.
   */
  #isAskedAgain(step: StepRecord): boolean {
    const before = this.#steps.slice(0, -1);
    return isWordless(step) && step.finish !== "length" && !before.some(isWordless);
  }

  #isCallers({ name, output }: ToolCallRecord): boolean {
    const { tools, callerTools } = this.#options;
    return output === undefined && !tools.has(name) && callerTools.has(name);
  }

  #toStep({ calls, ...said }: ModelStep, isLast: boolean): StepRecord {
    const { runId, tools, callerTools, offer } = this.#options;
    const index = this.#steps.length;
    const made = (isLast ? [] : calls).map(
      ({ toolCallId, toolName: name, input, inputText, invalid }, position): ToolCallRecord => {
        const tool = tools.get(name);
        const isCallers = tool === undefined && callerTools.has(name);
        const call = {
          id: `${runId}.${index}.${position}`,
          modelCallId: toolCallId,
          tool: tool?.tool ?? name,
          name,
          input,
          ...(tool?.hints.readOnly ? { readOnly: true } : {}),
          ...(inputText && (isCallers || isRounded(input, inputText)) ? { inputText } : {}),
        };
        // Some vendors send an empty input if an answer reached its limit before the call had any.
        const isCut =
          said.finish === "length" &&
          position === calls.length - 1 &&
          (invalid || JSON.stringify(input) === "{}");
        // The caller gets its calls as they are.
        if ((!invalid && !isCut) || isCallers) return { ...call, state: "planned" };
        const why = isCut ? CUT_CALL : "The input is not valid JSON, and the tool was not called.";
        const text = tool === undefined ? `${NO_TOOL}.` : why;
        return { ...call, state: "failed", output: toTextOutput(text, true) };
      },
    );
    return { runId, index, ...said, calls: made, ...(index === 0 && offer && { offer }) };
  }

  /** Says what becomes of a call that has no answer yet. */
  async #plan(call: ToolCallRecord): Promise<Plan> {
    const { tools, onUnknown, judge, warnings, journal } = this.#options;
    if (call.output !== undefined || this.#isCallers(call)) return { do: "nothing" };
    const { approvalId } = call;
    // A decision is good for one start. Times do not tell which came first: the clock may have been set back in between.
    if (approvalId !== undefined && call.state !== "started" && call.startedFor !== approvalId) {
      const decision = await journal.getDecision(approvalId);
      return decision ? this.#followDecision(call, decision) : { do: "wait", approvalId };
    }
    const tool = tools.get(call.name);
    if (call.state !== "planned" && call.state !== "waiting") {
      if (tool && isRepeatable(tool)) return { do: "start" };
      if (onUnknown === "ask") {
        const why = `The call of ${call.tool} was started, and no answer came: it may have been carried out, or not.`;
        return { do: "ask", ask: buildAsk(call, "outcome_unknown", why) };
      }
      warnings.push(
        `the outcome of a call of ${call.tool} is not known: this was reported to the model`,
      );
      return answer("unknown", UNKNOWN);
    }
    if (!tool) return answer("failed", `${NO_TOOL} any more.`);
    const verdict = judge?.({
      id: call.id,
      tool: call.tool,
      hints: tool.hints,
      input: getExactInput(call),
      steps: this.#steps,
    }) ?? { kind: "run" };
    switch (verdict.kind) {
      case "run":
        return { do: "start" };
      case "ask":
        return { do: "ask", ask: buildAsk(call, verdict.reason, verdict.why) };
      case "withhold":
        return answer("denied", `The call was not made: ${verdict.why}`);
    }
  }

  #followDecision(call: ToolCallRecord, decision: ApprovalDecision): Plan {
    const { verdict, at, by } = decision;
    if (verdict === "approve" || verdict === "repeat")
      return this.#options.tools.has(call.name)
        ? { do: "start" }
        : answer("failed", `${NO_TOOL} any more.`);
    if (verdict === "done") return answer("done", CONFIRMED, { endedAt: at });
    if (verdict === "deny" && call.state !== "unknown")
      return answer("denied", renderDenial(decision), { endedAt: at });
    const who = by === TIMEOUT ? "no decision was made in time" : "a person gave it up";
    return {
      do: "give-up",
      message: `the outcome of a call of ${call.tool} is not known, and ${who}`,
    };
  }

  /** Makes the calls of a step that may be made. Returns how the loop ends, if it goes no further now. */
  async #makeCalls(step: StepRecord, isNew: boolean): Promise<LoopEnd | undefined> {
    const { journal, clock, signal, tools, onUnknown } = this.#options;
    const plans = await Promise.all(
      step.calls.map(async (call) => ({ call, plan: await this.#plan(call) })),
    );
    const givenUp = plans.find(({ plan }) => plan.do === "give-up")?.plan;
    if (givenUp?.do === "give-up") return { kind: "given-up", message: givenUp.message };
    const asks = plans.flatMap(({ plan }) => (plan.do === "ask" ? [plan.ask] : []));
    const open = plans.flatMap(({ plan }) => (plan.do === "wait" ? [plan.approvalId] : []));
    const starting = plans.flatMap(({ call, plan }) =>
      plan.do === "start" ? [{ call, tool: tools.get(call.name) as OfferedTool }] : [],
    );
    const start = ({ id, approvalId }: ToolCallRecord): CallChange => ({
      id,
      change: {
        state: "started",
        startedAt: clock.now(),
        ...(approvalId === undefined ? {} : { startedFor: approvalId }),
      },
    });
    const together = starting.filter(({ tool }) => !tool.exclusive);
    const changes = [
      ...plans.flatMap(({ call, plan }) =>
        plan.do === "answer" ? [{ id: call.id, change: plan.change }] : [],
      ),
      ...together.map(({ call }) => start(call)),
    ];
    this.#apply(step, changes);
    // Nothing leaves before it is on disk.
    const isHeld = isNew
      ? await journal.addStep(step)
      : changes.length === 0 || (await journal.updateCalls(changes));
    if (!isHeld) return LOST;
    let held = (
      await allEnded(together.map(({ call, tool }) => this.#makeCall(step, call, tool)))
    ).every(Boolean);
    for (const { call, tool } of starting.filter(({ tool: { exclusive } }) => exclusive)) {
      if (!held || signal.aborted) break;
      const change = start(call);
      this.#apply(step, [change]);
      held = (await journal.updateCalls([change])) && (await this.#makeCall(step, call, tool));
    }
    if (!held) return LOST;
    signal.throwIfAborted();
    if (onUnknown === "ask")
      for (const { call } of starting) {
        const plan = call.state === "unknown" ? await this.#plan(call) : undefined;
        if (plan?.do === "ask") asks.push(plan.ask);
      }
    return asks.length + open.length > 0 ? { kind: "waiting", asks, open } : undefined;
  }

  #apply(step: StepRecord, changes: readonly CallChange[]): void {
    for (const { id, change } of changes)
      Object.assign(step.calls.find((call) => call.id === id) ?? {}, change);
  }

  /** Makes one call and commits what came of it. False if another gateway has the run by now. */
  async #makeCall(step: StepRecord, call: ToolCallRecord, tool: OfferedTool): Promise<boolean> {
    const { journal, clock, signal, maxResultBytes } = this.#options;
    const { output: answer, ...came } = await this.#callTool(call, tool);
    const { text: whole, ...cut } = answer ? cutOutput(call.id, answer, maxResultBytes) : {};
    const change = { ...came, ...cut, endedAt: clock.now() };
    this.#apply(step, [{ id: call.id, change }]);
    // An aborted call stays as it is on disk: started, and without an answer.
    if (signal.aborted && change.state === "unknown") return true;
    return journal.updateCalls([
      { id: call.id, change, ...(whole === undefined ? {} : { whole }) },
    ]);
  }

  /** Executes a call within a span, which the tool gets to pass it on. */
  async #execute({ id, input, inputText }: ToolCallRecord, offered: OfferedTool) {
    const { name, tool, execute } = offered;
    const { signal, traces } = this.#options;
    const attributes = {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.type": "function",
      "gen_ai.tool.call.id": id,
      "rouse.tool": tool,
    };
    return traces.span(`execute_tool ${name}`, attributes, async (span) => {
      const call = { callId: id, signal, trace: traces.current() };
      const output = await execute(input, { ...call, ...(inputText && { inputText }) });
      if (output.isError) span.fail("tool_error");
      return output;
    });
  }

  async #callTool(call: ToolCallRecord, tool: OfferedTool): Promise<CallChange["change"]> {
    const { signal, onUnknown, warnings, ready } = this.#options;
    for (let repeats = 0; ; repeats++) {
      if (ready && !(await ready(signal))) return { state: "unknown" };
      try {
        const output = await this.#execute(call, tool);
        return { state: output.isError ? "failed" : "done", output };
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        const isUnknown = signal.aborted || error instanceof OutcomeUnknownError || isCut(error);
        if (!isUnknown) return { state: "failed", output: toTextOutput(text, true) };
        if (signal.aborted) return { state: "unknown" };
        if (isRepeatable(tool)) {
          if (repeats < MAX_REPEATS) continue;
          return { state: "failed", output: toTextOutput(text, true) };
        }
        if (onUnknown === "ask") return { state: "unknown" };
        warnings.push(
          `the outcome of a call of ${call.tool} is not known: this was reported to the model`,
        );
        return { state: "unknown", output: toTextOutput(UNKNOWN, true) };
      }
    }
  }
}

/**
 * Runs the steps of a turn, after those of earlier attempts. Rejects with what the model call threw, and with the signal's
 * reason when it aborts.
 */
export const runLoop = (options: LoopOptions): Promise<LoopEnd> => new Loop(options).run();
