import { answering, type Given } from "../command.ts";
import { noSuch, usage } from "../failure.ts";
import { connectGateway, read } from "../gateway/connect.ts";
import type { CliIo } from "../io.ts";
import { readInput } from "../options.ts";
import { toHookPath } from "../settings.ts";
import { printable } from "../text.ts";

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

/** A 2xx that says otherwise: no mapping matched, the mapping failed, or the run that was waited for failed. */
function madeNoWork(answer: unknown): boolean {
  if (typeof answer !== "object" || answer === null) return false;
  const { ok, outcome } = answer as { ok?: unknown; outcome?: unknown };
  return ok === false || outcome === "unmatched" || outcome === "failed";
}

/** Has the gateway that runs post a hook to itself, or lists what can be posted. */
async function sendHook(
  io: CliIo,
  { payload, sample, event, header, idempotencyKey, wait, ...options }: Given<typeof SEND_OPTIONS>,
  written: string,
) {
  if (wait !== undefined && !/^\d+$/.test(wait)) throw usage("--wait: write whole seconds");
  if (payload !== undefined && sample !== undefined)
    throw usage("use --payload or --sample, not both");
  if (payload === undefined && sample === undefined)
    throw usage("name a body with --payload, or a recorded one with --sample");
  const { hooks } = (await connectGateway(options, io)).api;
  const path = await toHookPath(written, options, io);
  if (sample === true) return read(hooks.samples.$get({ query: { path } }));
  const headers = {
    ...header,
    ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
    ...(wait !== undefined && { prefer: `wait=${wait}` }),
  };
  const body = payload === undefined ? "" : (await readInput(payload, io)).toString("base64");
  return read(hooks.post.$post({ json: { path, body, sample, event, headers } }));
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
