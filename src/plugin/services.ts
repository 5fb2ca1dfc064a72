import { backOff, WAITS } from "../core/backoff.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { FencingToken, Held, Cluster } from "../store/types.ts";
import type { Cursor, ServiceState } from "../contract/channel.ts";
import type { Hooks, Source, SourceDocuments, SourceHost } from "../contract/kinds.ts";

/** The state of a running service. */
export interface ServiceStatus extends ServiceState {
  id: string;
  /** Milliseconds since the epoch: of the last change. */
  since: number;
}

/** A service with its id. */
export interface NamedService {
  id: string;
  /** Answers the requests to it. */
  service: Pick<Source, "request" | "onPeerRequest">;
  /** Every gateway runs it: it only waits for requests. */
  everywhere?: boolean;
  /** Runs until the signal of `held` aborts. */
  start(held: Held, host: SourceHost): Promise<void>;
}

export interface ServicesOptions {
  /** Takes an event of a plugin's service for a hook; refused once the lease of `fencingToken` is lost. */
  hook(
    plugin: string,
    path: string,
    body: unknown,
    fencingToken: FencingToken | undefined,
  ): ReturnType<Hooks["hook"]>;
  /** Of several gateways one runs a service at a time; requests are answered by all. */
  cluster: Pick<Cluster, "hold" | "tell" | "on">;
  /** Creates the synchronization of the documents of a plugin's source. */
  createDocuments(id: string): SourceDocuments;
  /** The place of a service; refused once the lease of `fencingToken` is lost. */
  createCursor(id: string, fencingToken: FencingToken | undefined): Cursor;
  clock: Clock;
  log: Logger;
}

export type Services = ReturnType<typeof createServices>;

/** A service that ran for so long has recovered: its next failure waits as the first. */
const RECOVERED_MS = 600_000;
/** A service that does not end by then is left behind. */
const END_MS = 5000;

/** Creates the states of the services. A change is logged. */
function createStates({ clock, log }: ServicesOptions) {
  const states = new Map<string, ServiceStatus>();
  const keep = (id: string, { ok, message }: ServiceState): void =>
    void states.set(id, { id, ok, message, since: clock.now() });
  return {
    /** Replaces all states: each service starts. */
    reset(ids: readonly string[]): void {
      states.clear();
      for (const id of ids) keep(id, { ok: true, message: "starting" });
    },
    set(id: string, state: ServiceState): void {
      const before = states.get(id);
      if (before?.ok === state.ok && before.message === state.message) return;
      keep(id, state);
      if (!state.ok)
        log.warn({ plugin: id, reason: state.message }, "a plugin's service does not work");
      else if (before && !before.ok) log.info({ plugin: id }, "a plugin's service works again");
    },
    list: (): ServiceStatus[] => [...states.values()],
  };
}

/** Runs a service until `held` ends: whenever it ends by itself, it counts as failing and is started again. */
async function supervise(
  { id, start }: NamedService,
  held: Held,
  states: ReturnType<typeof createStates>,
  options: ServicesOptions,
): Promise<void> {
  const { hook, createCursor, createDocuments, clock, log } = options;
  const { signal, fencingToken } = held;
  for (let failures = 1; !signal.aborted; failures++) {
    const startedAt = readMonotonic(clock);
    let message = "it ended by itself";
    const report = (state: ServiceState): void => {
      if (!signal.aborted) states.set(id, state);
    };
    try {
      const host: SourceHost = {
        hook: (path, body) => hook(id, path, body, fencingToken),
        report,
        documents: createDocuments(id),
        ...createCursor(id, fencingToken),
      };
      await start(held, host);
    } catch (error) {
      const { name, code } = safeError(error);
      message = `it ended with an error (${code ?? name})`;
      if (!signal.aborted)
        log.error({ err: safeError(error), plugin: id }, "a plugin's service ended with an error");
    }
    if (signal.aborted) return;
    if (readMonotonic(clock) - startedAt > RECOVERED_MS) failures = 1;
    states.set(id, { ok: false, message: `${message}; it is started again` });
    await clock.sleep(backOff(failures, WAITS.pluginService), signal);
  }
}

/** Runs the services of plugins, each in one gateway at a time. */
export function createServices(options: ServicesOptions) {
  const { cluster, clock } = options;
  const states = createStates(options);
  let running = new Map<string, NamedService["service"]>();
  /** Those that this gateway runs itself. */
  const here = new Set<string>();
  let ended = Promise.resolve<unknown>(undefined);
  let stop = new AbortController();

  /** Runs a service where and for as long as it is this gateway's. */
  const run = async (named: NamedService, signal: AbortSignal): Promise<void> => {
    const { id } = named;
    if (named.everywhere)
      return supervise(named, { signal, fencingToken: undefined }, states, options);
    const elsewhere: ServiceState = { ok: true, message: "another gateway runs it" };
    states.set(id, elsewhere);
    await cluster.hold(`service:${id}`, signal, async (held) => {
      if (!signal.aborted) states.set(id, { ok: true, message: "starting" });
      here.add(id);
      await supervise(named, held, states, options);
      here.delete(id);
      if (!signal.aborted) states.set(id, elsewhere);
    });
  };

  const close = async (): Promise<void> => {
    stop.abort();
    running = new Map();
    await Promise.race([ended, clock.sleep(END_MS)]);
    states.reset([]);
  };

  cluster.on("nudge", (ids) => {
    for (const id of ids) if (here.has(id)) running.get(id)?.onPeerRequest?.();
  });

  return {
    /** Ends the services that run and starts these. Resolves when the old ones have ended. */
    async replace(services: readonly NamedService[]): Promise<void> {
      await close();
      stop = new AbortController();
      const { signal } = stop;
      running = new Map(services.map(({ id, service }) => [id, service]));
      states.reset(services.map(({ id }) => id));
      ended = Promise.all(services.map((named) => run(named, signal)));
    },
    states: (): readonly ServiceStatus[] => states.list(),
    /** Passes a request to a service; undefined if the service handles no requests. */
    request(id: string, request: Request): Promise<Response> | undefined {
      const service = running.get(id);
      const answer = service?.request?.(request);
      // It may be news for the gateway that runs the service.
      if (answer && service?.onPeerRequest && !here.has(id))
        void answer.then(({ ok }) => ok && cluster.tell("nudge", [id])).catch(() => undefined);
      return answer;
    },
    /** Ends all; resolves when they have. */
    close,
  };
}
