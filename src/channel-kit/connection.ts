import { sleep } from "./kit.ts";
import { ChannelError } from "./errors.ts";

/** A connection may take so long for its end: a peer that is gone never agrees to it. */
const CLOSE_MS = 2_000;

/** A connection, as those see it who hold it. */
export interface Connection {
  /** Aborts when the connection is to end. */
  signal: AbortSignal;
  /** The far side has greeted, so the connection carries something. */
  greeted(): void;
  /** Does its work after that of earlier calls. What waits when the connection ends is not done; what work throws ends it. */
  inOrder(work: () => void | Promise<void>): void;
  /** The far side has ended it. */
  ended(): void;
  /** Ends it as failed. */
  fail(error: unknown): void;
}

/** What is said of a connection without a greeting. Times are in milliseconds. */
export interface Greeting {
  /** A connection without its greeting by then carries nothing. Default: none is waited for. */
  helloMs?: number;
  /** Where it is given up for that. Default: as `unopened`. */
  late?: string;
  /** Where it ends before its greeting. */
  unopened: string;
}

/**
 * Holds one connection from its start to its end, for clients of any kind: `open` begins it and gives how to close it.
 * Throws what `fail` was given, or a `ChannelError` where no greeting came.
 */
export async function withConnection(
  signal: AbortSignal,
  { helloMs, unopened, late = unopened }: Greeting,
  open: (connection: Connection) => (() => unknown) | Promise<() => unknown>,
): Promise<void> {
  const over = Promise.withResolvers<void>();
  // Listened to before anything can fail, so that no rejection is left alone.
  over.promise.catch(() => undefined);
  const stop = new AbortController();
  let greeted = false;
  let order = Promise.resolve();
  const end = (error?: Error): void => {
    stop.abort();
    if (error === undefined) over.resolve();
    else over.reject(error);
  };
  const fail = (error: unknown): void =>
    end(error instanceof Error ? error : new ChannelError(unopened));
  const connection: Connection = {
    signal: stop.signal,
    greeted: () => void (greeted = true),
    inOrder: (work) =>
      void (order = order.then(() => (stop.signal.aborted ? undefined : work())).catch(fail)),
    ended: () => end(greeted ? undefined : new ChannelError(unopened)),
    fail,
  };
  const quit = (): void => end();
  signal.addEventListener("abort", quit);
  if (signal.aborted) quit();
  const timer =
    helloMs === undefined
      ? undefined
      : setTimeout(() => greeted || fail(new ChannelError(late)), helloMs);
  let close: (() => unknown) | undefined;
  try {
    close = await open(connection);
    await over.promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", quit);
    stop.abort();
    const patience = new AbortController();
    const closed = Promise.resolve(close?.()).catch(() => undefined);
    await order;
    await Promise.race([closed, sleep(CLOSE_MS, patience.signal)]);
    patience.abort();
  }
}
