import { hostname } from "node:os";
import { RouseError } from "../core/errors.ts";
import { createServiceHook } from "../http/hooks.ts";
import { openHttp } from "../http/open.ts";
import { createIntake } from "../intake/receive.ts";
import { openOperate } from "../operate/open.ts";
import type { RuntimeStatus } from "../operate/status.ts";
import { createServices } from "../plugin/services.ts";
import { STORE_UNAVAILABLE } from "../store/types.ts";
import { createReceive } from "./library.ts";
import { openResources, type ResourceOptions, type Resources } from "./resources.ts";
import { startParts, stopParts, type Parts } from "./start.ts";
import type { Addresses, Gateway as Library, ListenAddress, StartOptions } from "./types.ts";
import { createWhatIf } from "./what-if.ts";
import { createWorkers } from "./workers.ts";

export interface RunningGateway extends Pick<Library, "receive" | "start" | "stop"> {
  /** Answers a request as the HTTP server would. `bindings`: what the server knows of it, as `{ incoming }`. */
  fetch(request: Request, bindings?: object): Promise<Response>;
  /** Builds a new snapshot and swaps it in, or keeps the old one. */
  reload: Resources["reloader"]["reload"];
  /** The operator's token. */
  readonly operatorToken: string;
  /** Starts the indexing of documents without the other workers. */
  indexDocuments(): Promise<void>;
  readonly status: () => RuntimeStatus;
}

/** Creates the parts, each from what stands above it, and starts none of them. */
function createParts(resources: Resources): Parts {
  const workers = createWorkers(resources);
  const context = { ...resources, ...workers };
  const intake = createIntake(context);
  const sendEvent = createServiceHook(intake);
  const services = createServices({ ...context, hook: sendEvent });
  const whatIf = createWhatIf(resources);
  const operate = openOperate({ ...context, ...intake, sendEvent, services, whatIf });
  const http = openHttp({
    ...resources,
    ...operate.admin,
    ...operate,
    unavailable: STORE_UNAVAILABLE,
  });
  return { resources, workers, intake, services, operate, http };
}

/** Lets the other gateways of a cluster know this one. */
function describeGateway({ resources: { cluster, snapshot }, operate: { admin } }: Parts): void {
  cluster.describe(() => {
    const { version, pid, startedAt, url, workers } = admin.status();
    return {
      host: hostname(),
      pid,
      version,
      url,
      snapshot: snapshot().clusterHash,
      workers,
      startedAt,
    };
  });
}

/**
 * The composition root: opens what stands for as long as the gateway does, and creates every part with it.
 * @throws RouseError `config_invalid` with all issues, or `store_locked`.
 */
export async function openGateway(options: ResourceOptions): Promise<RunningGateway> {
  const opened = new AsyncDisposableStack();
  const resources = await openResources(options, opened).catch(async (error: unknown) => {
    await opened.disposeAsync();
    throw error;
  });
  const { reloader, operatorToken } = resources;
  const parts = createParts(resources);
  describeGateway(parts);
  let isStarted = false;
  let stopped: Promise<void> | undefined;
  function start(options: StartOptions & { listen: true | ListenAddress }): Promise<Addresses>;
  function start(options?: StartOptions): Promise<Addresses | undefined>;
  async function start(startOptions: StartOptions = {}): Promise<Addresses | undefined> {
    if (isStarted || stopped)
      throw new RouseError({
        code: "usage",
        message: "a gateway can be started once: create another one",
      });
    isStarted = true;
    return startParts(parts, startOptions);
  }
  return {
    operatorToken,
    indexDocuments: parts.workers.knowledge.start,
    status: parts.operate.admin.status,
    reload: reloader.reload,
    fetch: parts.http.fetch,
    receive: createReceive(parts.intake),
    start,
    stop: () => (stopped ??= stopParts(parts)),
  };
}
