import { type BodyFormat, decodePayload } from "../../core/http/payload.ts";
import { bodyGone } from "../../vocabulary/body-gone.ts";
import { RouseError, type Failure } from "../../core/errors.ts";
import {
  testHook as runTest,
  type HookTest,
  type TestedHook,
} from "../../operate/records/test-hook.ts";
import { connected } from "../gateway/connect.ts";
import { fetchEvent } from "../ids.ts";
import { answering, type Given } from "../command.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { withFiles } from "../gateway/offline.ts";
import { readInput } from "../options.ts";
import { printAnsweredBy } from "../print.ts";
import { printTestedHook } from "./print-tested-hook.ts";

/** The request that is tested. */
const TEST_OPTIONS = {
  "--payload <file>": "the body; - reads standard input",
  "--content-type <type>": "what the body is (default: JSON)",
  "--event <id>": "the body, headers and query of a recorded event",
  "--header <name=value>": { about: "a header of the request (repeatable)", repeat: "pairs" },
  "--query <name=value>": { about: "a query parameter (repeatable)", repeat: "pairs" },
  "--path <path>":
    "the hook's path (default: the mapping's first); without a mapping, all on it are tried",
} as const;
type TestOptions = Given<typeof TEST_OPTIONS>;

/** True when the gateway would take the hook and do something, or skip it on purpose. */
function isHandled({ outcome, actions }: TestedHook): boolean {
  if (outcome === "skipped") return true;
  return outcome === "actions" && actions.every((action) => action.ok && action.problem === null);
}

type Input = Omit<HookTest, "mapping">;

/** Reads the body when its format is known, and a GET's query in place of it. */
const toReader =
  (bytes: Buffer, contentType: string | undefined, refuse: (failure: Failure) => RouseError) =>
  (format: BodyFormat | undefined): unknown => {
    const decoded = decodePayload(bytes, { contentType, format });
    if (decoded.ok) return decoded.payload;
    throw refuse(decoded.failure);
  };

/** A recorded event as it came in, from the gateway that runs or from the store. */
async function readEvent(id: string, options: TestOptions, io: CliIo): Promise<Input> {
  const { event } = await connected({ ...options, json: true }, io, (to) => fetchEvent(to, id));
  const { method, headers, query, body, encoding, contentType } = event.request;
  if (body === null) throw bodyGone();
  const bytes = Buffer.from(body, encoding);
  const readBody = toReader(bytes, contentType ?? undefined, (failure) => new RouseError(failure));
  const readPayload: Input["readPayload"] = (format) =>
    method === "GET" ? query : readBody(format);
  return { path: event.path, method, headers, query, readPayload };
}

async function readTestInput(options: TestOptions, io: CliIo): Promise<Input> {
  const { payload: file, event, path, header = {}, query = {}, contentType } = options;
  if (contentType !== undefined && file === undefined)
    throw usage("--content-type goes with --payload");
  if ((file === undefined) === (event === undefined))
    throw usage("name a body with --payload, or a recorded event with --event");
  if (file === undefined) {
    const { headers, query: parameters, ...recorded } = await readEvent(event ?? "", options, io);
    return {
      ...recorded,
      ...(path !== undefined && { path }),
      headers: { ...headers, ...header },
      query: { ...parameters, ...query },
    };
  }
  const bytes = await readInput(file, io);
  const readPayload = toReader(bytes, contentType, ({ message }) =>
    usage(`${file}: ${message}; --content-type says what it is`),
  );
  return { path, method: "POST", headers: header, query, readPayload };
}

/**
 * Evaluates the config file itself, whatever gateway runs. Needs no secret: nothing is sent and nothing verified.
 * @throws RouseError `config_invalid` with all problems of the config.
 */
const evaluate = (
  test: HookTest,
  { config, json = false }: TestOptions,
  io: CliIo,
): Promise<TestedHook> =>
  withFiles({ config }, io, async ({ snapshot }) => {
    printAnsweredBy(io, snapshot.configFile ?? null, "as it is in the file", json);
    return runTest(test, snapshot, io.now());
  });

export const hooksTest = answering({
  usage: "test [mapping]",
  about:
    "show why a mapping matches a body, and what it makes of it; evaluates the config file whatever gateway runs, needs no secrets, sends nothing",
  examples: [
    "rouse hooks test shop.order --payload order.json --header x-shop-event=order",
    "rouse hooks test --path shop --payload order.json",
    "rouse hooks test --path sms --payload message.txt --content-type application/x-www-form-urlencoded",
    "rouse hooks test -c draft.json5 --event evt_…",
  ],
  options: TEST_OPTIONS,
  async answer(io, options, mapping) {
    if (mapping === undefined && options.path === undefined && options.event === undefined)
      throw usage("name a mapping, or a path with --path; `rouse hooks` shows both");
    return evaluate({ ...(await readTestInput(options, io)), mapping }, options, io);
  },
  isFailure: (tested) => !isHandled(tested),
  print: printTestedHook,
});
