import { bodyGone } from "../core/body-gone.ts";
import { RouseError } from "../core/errors.ts";
import { testHook as runTest, type HookTest, type TestedHook } from "../admin/test-hook.ts";
import { decodePayload } from "../core/payload.ts";
import { withSnapshot } from "../gateway/snapshot.ts";
import { connected } from "./connect.ts";
import { fetchEvent } from "./events.ts";
import { usage } from "./failure.ts";
import { EXIT, SYSTEM, type CliIo } from "./io.ts";
import { readInput, type CommonOptions } from "./options.ts";
import { configInvalid } from "./settings.ts";
import { printAnsweredBy, printJson } from "./print.ts";
import { printTestedHook } from "./print-tested-hook.ts";

export interface TestOptions extends CommonOptions {
  payload?: string;
  /** The id of a recorded event, in place of a payload. */
  event?: string;
  contentType?: string;
  header?: Record<string, string>;
  query?: Record<string, string>;
  path?: string;
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
  if (body === null) throw bodyGone();
  const bytes = Buffer.from(body, encoding);
  return {
    path: event.path,
    method,
    headers,
    query,
    readPayload(format) {
      if (method === "GET") return query;
      const decoded = decodePayload(bytes, { contentType: contentType ?? undefined, format });
      if (!decoded.ok) throw new RouseError(decoded.failure);
      return decoded.payload;
    },
  };
}

async function readTestInput(options: TestOptions, io: CliIo): Promise<Input> {
  const { payload: file, event, path, header = {}, query = {} } = options;
  if (options.contentType !== undefined && file === undefined)
    throw usage("--content-type goes with --payload");
  if ((file === undefined) === (event === undefined))
    throw usage("name a body with --payload, or a recorded event with --event");
  if (file === undefined) {
    const recorded = await recordedInput(event ?? "", options, io);
    return {
      ...recorded,
      ...(path === undefined ? {} : { path }),
      headers: { ...recorded.headers, ...header },
      query: { ...recorded.query, ...query },
    };
  }
  const bytes = await readInput(file, io);
  return {
    path,
    method: "POST",
    headers: header,
    query,
    readPayload(format) {
      const decoded = decodePayload(bytes, { contentType: options.contentType, format });
      if (decoded.ok) return decoded.payload;
      throw usage(`${file}: ${decoded.failure.message} ; --content-type says what it is`);
    },
  };
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
export async function printHookTest(
  mapping: string | undefined,
  options: TestOptions,
  io: CliIo,
): Promise<void> {
  if (mapping === undefined && options.path === undefined && options.event === undefined)
    throw usage("name a mapping, or a path with --path; `rouse hooks list` shows both");
  const tested = await evaluate({ ...(await readTestInput(options, io)), mapping }, options, io);
  if (!isHandled(tested)) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, tested);
  printTestedHook(tested, io);
}
