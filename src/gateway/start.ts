import { safeError } from "../core/errors.ts";
import type { HttpParts } from "../http/open.ts";
import type { Intake } from "../intake/receive.ts";
import type { OperateParts } from "../operate/open.ts";
import { listServices } from "../plugin/channel-services.ts";
import type { Services } from "../plugin/services.ts";
import { sweepRegularly } from "../store/sweeper.ts";
import type { Resources } from "./resources.ts";
import type { Addresses, StartOptions } from "./types.ts";
import type { Workers } from "./workers.ts";

/** The parts of a gateway that its start, its requests and its stop need. */
export interface Parts {
  resources: Resources;
  workers: Workers;
  intake: Intake;
  services: Services;
  operate: OperateParts;
  http: HttpParts;
}

/** The gateways that have not ended. One that cannot reach the store may still execute its runs. */
const listPresent = async ({ cluster }: Resources): Promise<Set<string>> =>
  new Set((await cluster.list()).filter((peer) => !peer.gone).map((peer) => peer.id));

/** Between looks for what gateways that are gone have left behind. */
const LEFT_MS = 10_000;

/** Ends the API turns of gateways that are gone, and gives back what their runs had taken of budgets. One gateway does this for all. */
function recoverLeft(resources: Resources, { chats, admission }: Workers): void {
  const { cluster, clock, log, ended } = resources;
  void cluster.hold("recovery", ended.signal, async ({ signal, fencingToken }) => {
    while (!signal.aborted) {
      await listPresent(resources)
        .then((present) => chats.recover(present, fencingToken))
        .then(() => admission.tidy())
        .catch((error: unknown) =>
          log.warn(
            { err: safeError(error) },
            "what gateways that are gone have left could not be looked for",
          ),
        );
      await clock.sleep(LEFT_MS, signal);
    }
  });
}

/** Counts what waits and what has been spent, before anything is accepted: also without workers. */
async function restoreWorkers(
  resources: Resources,
  { admission, chats, knowledge }: Workers,
): Promise<void> {
  const { queue, cluster, swapped, log } = resources;
  cluster.on("cancel", (runIds) => {
    for (const id of runIds) void chats.cancel(id);
  });
  await knowledge.sweep();
  await queue.recover();
  await chats.recover(await listPresent(resources));
  await admission.recount();
  // Limits may have changed with the config: the start times of waiting runs are calculated again.
  swapped.push(() => {
    admission
      .recount()
      .catch((error: unknown) =>
        log.error({ err: safeError(error) }, "limits could not be counted again after a reload"),
      );
  });
}

/** Starts the workers, and what only one gateway does at a time. */
async function startWorkers({
  resources,
  workers,
  services,
  intake,
  operate: { alerts },
}: Parts): Promise<void> {
  const { heartbeat, scheduler, turns, deliveries, health, knowledge, parking, admission } =
    workers;
  const { store, cluster, clock, log, snapshot, ended, swapped } = resources;
  const replaceServices = (): Promise<void> =>
    services.replace(listServices(snapshot(), { store, ...intake, ...workers }));
  await replaceServices();
  swapped.push(() => void replaceServices());
  store.onSystemEvents((agentId, mode) => {
    if (mode === "now") heartbeat.request(agentId);
  });
  cluster.on("cancel", (runIds) => {
    for (const id of runIds) if (turns.isActive(id)) void turns.cancel(id);
  });
  cluster.on("answered", (values) => {
    for (const value of values)
      parking.answered(...(JSON.parse(value) as [jobId: string, of: string]));
  });
  await workers.restoreWaiting();
  void admission.run(ended.signal);
  turns.start();
  deliveries.start();
  await scheduler.start();
  swapped.push(() => scheduler.look());
  // Hooks and chats do not wait for documents, nor fail with them.
  knowledge
    .start()
    .catch((error: unknown) =>
      log.error({ err: safeError(error) }, "the documents could not be opened"),
    );
  const settings = () => ({
    bodies: snapshot().config.hooks.retention,
    ...snapshot().config.store.retention,
  });
  void health.watch(ended.signal);
  void alerts.watchRefusals(ended.signal);
  void cluster.hold("sweep", ended.signal, async (held) => {
    await Promise.all([alerts.run(held), sweepRegularly(held, { store, clock, log, settings })]);
  });
  if (cluster.shared) recoverLeft(resources, workers);
}

const ALIVE_MS = 2 ** 30;

/** Starts what the options ask for, in this order. */
export async function startParts(
  parts: Parts,
  { listen: address = false, workers: isWorking = true, watch = false }: StartOptions,
): Promise<Addresses | undefined> {
  const { resources, workers, operate, http } = parts;
  const { lock, reloader, snapshot, opened, log, configs, ended, progress, swapped } = resources;
  const { status } = operate.admin;
  await restoreWorkers(resources, workers);
  await configs.use();
  void configs.run(ended.signal);
  if (typeof address === "object") resources.setAddress(address);
  const addresses = address === false ? undefined : await http.listen();
  progress.url = addresses?.url;
  progress.workers = isWorking;
  const { pid, startedAt, version, configFile } = status();
  await lock.describe({ pid, ...addresses, startedAt, version, config: configFile ?? null });
  if (watch) reloader.watch();
  if (isWorking) {
    // Timers and connections of the workers keep no process alive: without a server of its own the program would end.
    const alive = setInterval(() => undefined, ALIVE_MS);
    opened.defer(() => clearInterval(alive));
    await startWorkers(parts);
    snapshot().runtime.start();
    swapped.push((loaded) => loaded.snapshot.runtime.start());
  }
  for (const warning of snapshot().warnings) log.warn({ path: warning.path }, warning.message);
  log.info({ url: progress.url, workers: isWorking, version }, "the gateway is ready");
  return addresses;
}

/** Lets work under way end, and closes everything, in this order. */
export async function stopParts({ resources, workers, services }: Parts): Promise<void> {
  const { snapshot, ended, opened, log, progress } = resources;
  progress.draining = true;
  await services.close();
  await workers.scheduler.stop();
  await workers.heartbeat.stop();
  const drainMs = snapshot().config.gateway.drainSeconds * 1000;
  await Promise.all([workers.turns.stop(drainMs), workers.chats.stop(drainMs)]);
  await workers.deliveries.stop();
  ended.abort();
  await opened.disposeAsync();
  // One that could not listen was never there.
  if (progress.workers || progress.url !== undefined) log.info("the gateway has stopped");
}
