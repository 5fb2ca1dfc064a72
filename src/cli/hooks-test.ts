import { renderIssue } from "../config/issues.ts";
import { plainText } from "../core/text.ts";
import { RouseError, type Failure } from "../core/errors.ts";
import { testHook as runTest, type HookTest, type TestedAction, type TestedHook } from "../admin/test-hook.ts";
import { parsePayload, type Payload } from "../intake/body.ts";
import { withSnapshot } from "../gateway/snapshot.ts";
import { connected } from "./connect.ts";
import { fetchEvent } from "./events.ts";
import { usage } from "./failure.ts";
import { EXIT, SYSTEM, type CliIo } from "./io.ts";
import { readInput, type CommonOptions } from "./options.ts";
import { configInvalid } from "./settings.ts";
import { printAnsweredBy, printBlock, printDebug, printFields, printJson } from "./print.ts";
import { cell } from "./text.ts";

export interface TestOptions extends CommonOptions {
  payload?: string;
  /** The id of a recorded event, in place of a payload. */
  event?: string;
  header?: Record<string, string>;
  query?: Record<string, string>;
  path?: string;
}

const MARK = { true: "✓", false: "✗", unknown: "?" } as const;
const MEANS = { true: "", false: "  does not hold", unknown: "  the field is missing" } as const;

function printTraces({ traces }: TestedHook, io: CliIo): void {
  for (const trace of traces) {
    io.out(`${trace.mapping}  ${trace.matched ? "matches" : "does not match"}\n`);
    if (trace.conditions.length === 0) io.out("  no conditions: matches everything that comes here\n");
    for (const { condition, result } of trace.conditions) {
      const key = String(result) as keyof typeof MARK;
      io.out(`  ${MARK[key]} ${cell(condition)}${MEANS[key]}\n`);
    }
  }
}

function printFailure(failure: Failure, io: CliIo): void {
  io.out(`  ${failure.code}: ${cell(failure.message)}\n`);
  for (const issue of failure.issues ?? []) io.out(`    ${cell(renderIssue(issue))}\n`);
}

/** The content as the agent is given it: what a caller said is marked, since it goes inside the boundary. */
function printAction(action: TestedAction, index: number, io: CliIo): void {
  io.out(`\naction ${index + 1}: ${action.ok ? `${action.action} by ${action.mapping}` : `none, by ${action.mapping}`}\n`);
  if (!action.ok) return printFailure(action.failure, io);
  const fields = Object.fromEntries(
    Object.entries(action.fields).map(([name, value]) => [`  ${name}`, typeof value === "string" ? value : JSON.stringify(value)]),
  );
  printFields(io, {
    ...fields,
    "  dedupeKey": action.dedupeKey,
    "  missing": action.missing.join(", "),
    "  warnings": action.warnings.join("; "),
  });
  const { content } = action;
  if (!content.some((part) => part.outside)) printBlock(io, action.action === "wake" ? "  text" : "  message", plainText(content));
  else {
    const marked = content.map((part) => (part.outside ? `⟦${part.text}⟧` : part.text)).join("");
    printBlock(
      io,
      `  ${action.action === "wake" ? "text" : "message"} (⟦ ⟧ marks what the caller said${action.unsafe ? "; allowUnsafeExternalContent: it goes in without the boundary" : ""})`,
      marked,
    );
  }
  if (!action.problem) return;
  io.out("\n  the gateway would reject it:\n");
  printFailure(action.problem, io);
}

function printOutcome(tested: TestedHook, io: CliIo): void {
  switch (tested.outcome) {
    case "actions":
      for (const [index, action] of tested.actions.entries()) printAction(action, index, io);
      return;
    case "skipped":
      io.out(`\nskipped by ${tested.mapping}: ${cell(tested.reason ?? "")}\n`);
      return;
    case "unmatched":
      io.out("\nno mapping matches\n");
      if (tested.nearest) io.out(`  nearest: ${tested.nearest.mapping}, but for ${cell(tested.nearest.condition)}\n`);
      return;
    default:
      io.out(`\n${tested.outcome} by ${tested.mapping}\n`);
      if (tested.failure) printFailure(tested.failure, io);
      if (tested.missing.length > 0) io.out(`  missing: ${cell(tested.missing.join(", "))}\n`);
  }
}

/** True when the gateway would take the hook and do something, or skip it on purpose. */
function isHandled({ outcome, actions }: TestedHook): boolean {
  if (outcome === "skipped") return true;
  return outcome === "actions" && actions.every((action) => action.ok && action.problem === null);
}

type Input = Omit<HookTest, "mapping">;

/** A recorded event as it came in, from the gateway that runs or from the store. */
async function recordedInput(id: string, options: TestOptions, io: CliIo): Promise<Input> {
  const { event } = await connected({ ...options, json: true }, io, (to) => fetchEvent(to, id));
  const { method, headers, query, body, encoding, contentType } = event.request;
  if (body === null) throw new RouseError({ code: "not_found", message: "the body of this event is no longer kept (hooks.retention)" });
  const parsed: Payload =
    method === "GET" ? { ok: true, payload: query } : await parsePayload(Buffer.from(body, encoding), contentType ?? undefined);
  if (!parsed.ok) throw new RouseError(parsed.failure);
  return { path: event.path, method, payload: parsed.payload, headers, query };
}

async function readTestInput(options: TestOptions, io: CliIo): Promise<Input> {
  const { payload: file, event, path, header = {}, query = {} } = options;
  if ((file === undefined) === (event === undefined)) throw usage("name a body with --payload, or a recorded event with --event");
  if (file === undefined) {
    const recorded = await recordedInput(event ?? "", options, io);
    return {
      ...recorded,
      ...(path === undefined ? {} : { path }),
      headers: { ...recorded.headers, ...header },
      query: { ...recorded.query, ...query },
    };
  }
  try {
    const payload: unknown = JSON.parse((await readInput(file, io)).toString("utf8"));
    return { path, method: "POST", payload, headers: header, query };
  } catch (error) {
    if (error instanceof SyntaxError) throw usage(`${file}: is not JSON`);
    throw error;
  }
}

/**
 * Evaluates the config file itself, whatever gateway runs. Needs no secret: nothing is sent and nothing verified.
 * @throws RouseError `config_invalid` with all problems of the config.
 */
function evaluate(test: HookTest, options: TestOptions, io: CliIo): Promise<TestedHook> {
  const files = {
    ...SYSTEM,
    cwd: io.cwd,
    env: io.env,
    ...(options.config === undefined ? {} : { configFile: options.config }),
    withoutSecrets: true,
  };
  return withSnapshot(files, async (result) => {
    if (!result.ok) throw configInvalid(result);
    const { snapshot } = result.loaded;
    printAnsweredBy(io, snapshot.configFile ?? null, "as it is in the file", options.json === true);
    return runTest(test, snapshot, io.now());
  });
}

/** `rouse hooks test`. Exit code 1 if the hook would be refused or matches no mapping. */
export async function printHookTest(mapping: string | undefined, options: TestOptions, io: CliIo): Promise<void> {
  if (mapping === undefined && options.path === undefined && options.event === undefined)
    throw usage("name a mapping, or a path with --path; `rouse hooks list` shows both");
  const tested = await evaluate({ ...(await readTestInput(options, io)), mapping }, options, io);
  if (!isHandled(tested)) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, tested);
  printTraces(tested, io);
  printOutcome(tested, io);
  printDebug(io, tested.debug);
}
