import { RouseError } from "../../core/errors.ts";
import { createLogger } from "../../core/log.ts";
import type { DeliveryView, RunDetail } from "../../operate/records/views.ts";
import { readGateway } from "../../store/lock.ts";
import { connected, read, withId, type GatewayConnection } from "../gateway/connect.ts";
import type { AddedPreset } from "./init-files.ts";
import type { CliIo } from "../io.ts";
import { printBlock } from "../print.ts";
import { loadSettings, toSnapshotOptions, type Settings } from "../settings.ts";

/** A model may think for a while before the reply is there. */
const WAIT_MS = 120_000;
/** After so long a failed call of the model ends the test. */
const PATIENCE_MS = 4000;
const POLL_MS = 50;

/** Runs the work with a gateway on the config: the one that runs, with the config loaded again, or one for this test alone. */
async function withGateway<T>(
  file: string,
  { stateDir }: Settings,
  io: CliIo,
  work: (to: GatewayConnection) => Promise<T>,
): Promise<T> {
  const isRunning = readGateway(stateDir)?.url !== undefined;
  // The output is all about one config: no line has to say which one answers.
  const connect = (): Promise<T> =>
    connected({ config: file }, { ...io, err: () => undefined }, async (to) => {
      if (isRunning) await to.api.reload.$post();
      return work(to);
    });
  if (isRunning) return connect();
  const { openGateway } = await import("../../gateway/gateway.ts");
  const log = createLogger("silent");
  const options = toSnapshotOptions({ config: file }, io);
  const gateway = await openGateway({ ...options, log, print: () => undefined });
  try {
    await gateway.start({ listen: { port: 0 } });
    return await connect();
  } finally {
    await gateway.stop();
  }
}

interface Ended {
  run: RunDetail;
  /** Null if the run has sent nothing. */
  delivery: DeliveryView | null;
}

/**
 * Waits until the run has ended and its reply was sent or given up; undefined if that takes too long.
 * @throws RouseError if calls of the model fail: their retries may take long.
 */
async function ended(
  runId: string,
  { api }: GatewayConnection,
  io: CliIo,
): Promise<Ended | undefined> {
  const since = io.now();
  while (io.now() < since + WAIT_MS) {
    const { run } = await read(api.runs[":id"].$get(withId(runId)));
    const delivery =
      run.deliveryId === null
        ? null
        : (await read(api.deliveries[":id"].$get(withId(run.deliveryId)))).delivery;
    if (run.endedAt !== null && delivery?.status !== "pending") return { run, delivery };
    const failed = run.failedAttempts.at(-1);
    if (failed && io.now() > since + PATIENCE_MS)
      throw failure(`the model has not answered: ${failed.text}`);
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
  return undefined;
}

function getRunId({ status, answer }: { status: number; answer: unknown }): string {
  const { runId, results, error } = answer as {
    runId?: string;
    results?: { runId?: string }[];
    error?: { message?: string };
  };
  const id = runId ?? results?.find((result) => result.runId !== undefined)?.runId;
  if (id !== undefined) return id;
  throw failure(
    `the test hook was answered ${status}: ${error?.message ?? JSON.stringify(answer)}`,
  );
}

const failure = (message: string): RouseError => new RouseError({ code: "internal", message });

function printReply(found: Ended | undefined, io: CliIo): void {
  if (!found)
    throw failure(`the run did not end within ${WAIT_MS / 1000} s; \`rouse runs\` shows it`);
  const { run, delivery } = found;
  if (run.status !== "succeeded")
    throw failure(
      `the run ${run.id} ${run.status}: ${run.error?.message ?? "no reason was recorded"}`,
    );
  if (delivery?.status !== "delivered")
    throw failure(
      `the agent replied, and the reply was not delivered: ${delivery?.error?.message ?? run.delivery ?? "no channel"}; set the channel's \`defaultTo\``,
    );
  printBlock(io, `The reply, delivered to ${delivery.channel}, ${delivery.to}:`, run.reply ?? "");
}

/** Finds the first preset that has a recorded body and a secret to sign it with. */
async function findSample(
  added: readonly AddedPreset[],
  { api }: GatewayConnection,
): Promise<{ path: string; sample: string } | undefined> {
  for (const { path } of added) {
    const { samples, ready } = await read(api.hooks.samples.$get({ query: { path } }));
    const [sample] = samples;
    if (sample !== undefined && ready) return { path, sample };
  }
  return undefined;
}

/**
 * Has a gateway on the config post a hook to itself as its sender would, and shows the reply that was delivered.
 * @throws RouseError if the hook is refused, its run fails, or its reply is not delivered.
 */
export async function testSetup(
  file: string,
  added: readonly AddedPreset[],
  io: CliIo,
): Promise<void> {
  const settings = await loadSettings({ config: file }, io);
  const { hooks } = settings.config;
  const hasExample = hooks.mappings.some(
    ({ id, match }) => id === "example" && match.path === "example",
  );
  if (added.length === 0 && !hasExample) return;
  await withGateway(file, settings, io, async (to) => {
    const found = await findSample(added, to);
    if (!found && !hasExample) return;
    const body = Buffer.from('{"title":"the setup works"}').toString("base64");
    const json = found ?? { path: "example", body };
    const sent = await read(to.api.hooks.post.$post({ json }));
    const what = found ? `the recorded event ${found.sample}` : "a test event";
    io.out(`\nPosted ${what} to ${hooks.path}/${json.path}: ${sent.status}\n`);
    printReply(await ended(getRunId(sent), to, io), io);
  });
}
