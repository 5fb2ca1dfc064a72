import { RouseError } from "../../core/errors.ts";
import { sampleNames } from "../../mapping/samples.ts";
import { readGateway } from "../../store/lock.ts";
import { answering, type Given } from "../command.ts";
import { noSuch, usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { loadSettings } from "../settings.ts";
import { printable } from "../text.ts";
import { findTarget } from "./find-presets.ts";
import { postHook, readRequest, type SentHook } from "./post-hook.ts";

const SEND_OPTIONS = {
  "--payload <file>": "the body; - reads standard input",
  "--sample [event]": "a recorded body of the path's preset instead; without a name, list them",
  "--event <name>": "set the headers by which the preset's sender names this event",
  "--header <name=value>": {
    about: "a header of the request, such as content-type=text/plain (repeatable)",
    repeat: "pairs",
  },
  "--idempotency-key <key>": "a repeat with the same key is answered alike",
  "--wait <seconds>": "wait for the run's reply; only for the path agent",
} as const;
type SendOptions = Given<typeof SEND_OPTIONS>;

/** A 2xx that says otherwise: no mapping matched, the mapping failed, or the run that was waited for failed. */
function madeNoWork(answer: unknown): boolean {
  if (typeof answer !== "object" || answer === null) return false;
  const { ok, outcome } = answer as { ok?: unknown; outcome?: unknown };
  return ok === false || outcome === "unmatched" || outcome === "failed";
}

/** The address of the gateway that runs on a state folder. */
function runningUrl(stateDir: string): string {
  const { url } = readGateway(stateDir) ?? {};
  if (url !== undefined) return url;
  throw new RouseError({
    code: "internal",
    message: `no gateway runs on ${stateDir}; start one with \`rouse start\``,
  });
}

interface Samples {
  path: string;
  preset: string;
  samples: string[];
}

/** Posts to the gateway that runs, or lists what can be posted. */
async function sendHook(
  io: CliIo,
  options: SendOptions,
  name: string,
): Promise<SentHook | Samples> {
  if (options.wait !== undefined && !/^\d+$/.test(options.wait))
    throw usage("--wait: write whole seconds");
  if (options.payload !== undefined && options.sample !== undefined)
    throw usage("use --payload or --sample, not both");
  const settings = await loadSettings(options, io);
  const target = await findTarget(name, settings, io);
  const { preset, entry } = target;
  if (options.sample === true)
    return { path: name, preset, samples: entry ? sampleNames(entry) : [] };
  const request = await readRequest(target, options, io);
  return postHook(target, request, runningUrl(settings.stateDir), settings, io);
}

export const send = answering({
  usage: "send <name>",
  about:
    "post a body to the running gateway as its sender would: signed, or with the token of that path",
  examples: [
    "rouse hooks send shop --payload order.json --header x-shop-event=order",
    "rouse hooks send PRESET --sample EVENT",
    `echo '{"message":"Hello"}' | rouse hooks send agent --payload - --wait 60`,
  ],
  options: SEND_OPTIONS,
  answer: sendHook,
  isFailure: (sent) => "status" in sent && (sent.status >= 400 || madeNoWork(sent.answer)),
  print(sent, io) {
    if ("samples" in sent) {
      const { path, preset, samples } = sent;
      if (samples.length === 0)
        throw noSuch(
          `there are no samples for "${preset}"; post a body of your own with --payload`,
        );
      for (const sample of samples) io.out(`rouse hooks send ${path} --sample ${sample}\n`);
      return;
    }
    const { status, replayed, requestId, answer } = sent;
    io.out(`${status}${replayed ? " (answered before)" : ""}  ${requestId ?? ""}\n`);
    const text = typeof answer === "string" ? answer : JSON.stringify(answer, null, 2);
    if (text !== "") io.out(`${printable(text)}\n`);
  },
});
