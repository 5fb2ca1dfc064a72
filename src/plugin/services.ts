import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Gateway, Service, ServiceState } from "./api.ts";

/** What is known of a service that runs. */
export interface ServiceStatus extends ServiceState {
  id: string;
  /** Milliseconds since the epoch: of the last change. */
  since: number;
}

export interface ServicesOptions {
  gateway: Gateway;
  clock: Clock;
  log: Logger;
}

export interface Services {
  /** Ends the services that run and starts these. Resolves when the old ones have ended. */
  replace(services: readonly { id: string; service: Service }[]): Promise<void>;
  states(): readonly ServiceStatus[];
  /** Lets a service answer a request; undefined where it answers none. */
  request(id: string, request: Request): Promise<Response> | undefined;
  /** Ends all; resolves when they have. */
  close(): Promise<void>;
}

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 300_000;
/** A service that ran for so long has recovered: its next failure waits as the first. */
const RECOVERED_MS = 600_000;
/** A service that does not end by then is left behind. */
const END_MS = 5000;

/** Runs the services of plugins: one that ends by itself counts as failing and is started again. */
export function createServices({ gateway, clock, log }: ServicesOptions): Services {
  const states = new Map<string, ServiceStatus>();
  let running = new Map<string, Service>();
  let ended = Promise.resolve<unknown>(undefined);
  let stop = new AbortController();

  const note = (id: string, { ok, message }: ServiceState): void => {
    const before = states.get(id);
    if (before?.ok === ok && before.message === message) return;
    states.set(id, { id, ok, message, since: clock.now() });
    if (!ok) log.warn({ plugin: id, reason: message }, "a plugin's service does not work");
    else if (before && !before.ok) log.info({ plugin: id }, "a plugin's service works again");
  };

  const supervise = async (id: string, service: Service, signal: AbortSignal): Promise<void> => {
    for (let wait = FIRST_WAIT_MS; !signal.aborted; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
      const startedAt = clock.now();
      let message = "it ended by itself";
      const report = (state: ServiceState): void => {
        if (!signal.aborted) note(id, state);
      };
      try {
        await service.start(signal, { ...gateway, report });
      } catch (error) {
        const { name, code } = safeError(error);
        message = `it ended with an error (${code ?? name})`;
        if (!signal.aborted) log.error({ err: safeError(error), plugin: id }, "a plugin's service ended with an error");
      }
      if (signal.aborted) return;
      if (clock.now() - startedAt > RECOVERED_MS) wait = FIRST_WAIT_MS;
      note(id, { ok: false, message: `${message}; it is started again` });
      await clock.sleep(wait, signal);
    }
  };

  const close = async (): Promise<void> => {
    stop.abort();
    running = new Map();
    await Promise.race([ended, clock.sleep(END_MS)]);
    states.clear();
  };

  return {
    async replace(services) {
      await close();
      stop = new AbortController();
      const { signal } = stop;
      running = new Map(services.map(({ id, service }) => [id, service]));
      for (const { id } of services) states.set(id, { id, ok: true, message: "starting", since: clock.now() });
      ended = Promise.all(services.map(({ id, service }) => supervise(id, service, signal)));
    },
    states: () => [...states.values()],
    request: (id, request) => running.get(id)?.request?.(request),
    close,
  };
}
