import type * as prom from "prom-client";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { createRequire } from "node:module";

/** The number of newest times of one kind that are kept. */
const MAX_TIMES = 1000;

/** The time that something took, in seconds; of the newest times since the start of the process. */
export interface Percentiles {
  /** The number of times behind these percentiles. */
  count: number;
  p50: number;
  p95: number;
  p99: number;
}

/** Creates a list of the newest times of one kind: exact percentiles, where a histogram has the bounds of its buckets only. */
function createRecentTimes() {
  const times: number[] = [];
  let next = 0;
  return {
    add(seconds: number): void {
      times[next] = seconds;
      next = (next + 1) % MAX_TIMES;
    },
    /** Null if nothing was added yet. */
    read(): Percentiles | null {
      if (times.length === 0) return null;
      const sorted = times.toSorted((one, other) => one - other);
      const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
      return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
    },
  };
}

// The package's index also loads its push gateway, cluster and default metrics: ten times the time of these four.
const require = createRequire(import.meta.url);
const Registry = require("prom-client/lib/registry.js") as typeof prom.Registry;
const Counter = require("prom-client/lib/counter.js") as typeof prom.Counter;
const Gauge = require("prom-client/lib/gauge.js") as typeof prom.Gauge;
const Histogram = require("prom-client/lib/histogram.js") as typeof prom.Histogram;

/** A registry, and what makes metrics in it. `read` sets a metric at each scrape. */
function createRegistry() {
  const registry = new Registry();
  const registers = [registry];
  const addGauge = <L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: (gauge: prom.Gauge<L>) => void | Promise<void>,
  ): void =>
    void new Gauge<L>({
      name,
      help,
      labelNames,
      registers,
      collect() {
        return read(this);
      },
    });
  return {
    render: () => registry.metrics(),
    addCounter: <L extends string>(
      name: string,
      help: string,
      labelNames: readonly L[],
      read?: (counter: prom.Counter<L>) => void,
    ) =>
      new Counter<L>({
        name,
        help,
        labelNames,
        registers,
        ...(read && {
          collect() {
            read(this);
          },
        }),
      }),
    addHistogram: <L extends string>(
      name: string,
      help: string,
      { buckets, labelNames = [] }: { buckets: number[]; labelNames?: readonly L[] },
    ) => new Histogram<L>({ name, help, buckets, labelNames, registers }),
    addGauge,
    /** Adds gauges with one series for each row that `read` gives at a scrape. */
    addRowGauges: <T>(
      { label, read, toName }: { label: string; read: () => readonly T[]; toName(row: T): string },
      gauges: readonly [name: string, help: string, value: (row: T) => number][],
    ): void => {
      for (const [name, help, value] of gauges)
        addGauge(name, help, [label], (gauge) => {
          gauge.reset();
          for (const row of read()) gauge.set({ [label]: toName(row) }, value(row));
        });
    },
  };
}

type MetricRegistry = ReturnType<typeof createRegistry>;

const SAMPLE_MS = 20;

/** The process itself: memory, processor time, event-loop delay. Returns how to end the measuring. */
function addProcess({ addCounter, addGauge }: MetricRegistry): () => void {
  const delay = monitorEventLoopDelay({ resolution: SAMPLE_MS });
  // Node reports the whole time between two samples, the planned wait included.
  const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - SAMPLE_MS / 1e3);
  delay.enable();
  addGauge(
    "rouse_event_loop_delay_seconds",
    "Delay of the event loop since the last scrape.",
    ["quantile"],
    (gauge) => {
      gauge.set({ quantile: "0.5" }, seconds(delay.percentile(50)));
      gauge.set({ quantile: "0.99" }, seconds(delay.percentile(99)));
      gauge.set({ quantile: "1" }, seconds(delay.max));
      delay.reset();
    },
  );
  addGauge("process_resident_memory_bytes", "Resident memory.", [], (gauge) =>
    gauge.set(process.memoryUsage.rss()),
  );
  addCounter("process_cpu_seconds_total", "Processor time, user and system.", [], (counter) => {
    const { user, system } = process.cpuUsage();
    counter.reset();
    counter.inc((user + system) / 1e6);
  });
  addGauge("process_start_time_seconds", "Start of the process, since the epoch.", [], (gauge) =>
    gauge.set(performance.timeOrigin / 1000),
  );
  return () => void delay.disable();
}

/** The use of a model by a run; `mapping` is empty for a run without one. */
export interface ModelUse {
  agent: string;
  mapping: string;
  model: string;
  inputTokens?: number | undefined;
  cachedInputTokens?: number | undefined;
  cacheWriteTokens?: number | undefined;
  outputTokens?: number | undefined;
  costUsd?: number | undefined;
}

const OWN_PATHS = ["wake", "agent"];
const OTHER = "other";
/** A label of agents, mappings, models or channels has at most so many values. */
const MAX_VALUES = 100;
const ANSWER_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];
const RUN_BUCKETS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800];
/** The longest wait for the store, in milliseconds. Its gauges are left out after that, since scrapers wait ten seconds in total. */
const COUNTS_MS = 3000;
const WAIT_BUCKETS = [0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1800];

/** Bounds the values of a label: further ones count as `other`. */
function createBound(): (value: string) => string {
  const known = new Set<string>();
  return (value) => {
    if (known.size < MAX_VALUES) known.add(value);
    return known.has(value) ? value : OTHER;
  };
}

/** Returns what the store reads, or undefined if that fails or takes too long: its gauges are left out then. A counter of this process shows that. */
async function readInTime<T>(read: () => Promise<T>): Promise<T | undefined> {
  const late = new Promise<undefined>((done) =>
    setTimeout(() => done(undefined), COUNTS_MS).unref(),
  );
  return Promise.race([read().catch(() => undefined), late]);
}

/** The counters and histograms that count as something happens. */
const createInstruments = ({ addCounter, addHistogram }: MetricRegistry) => ({
  hooks: addCounter("rouse_hooks_total", "Hooks by path and outcome.", ["path", "outcome"]),
  answers: addHistogram("rouse_hook_answer_seconds", "Time from a hook's arrival to its answer.", {
    buckets: ANSWER_BUCKETS,
    labelNames: ["outcome"],
  }),
  acknowledged: addCounter(
    "rouse_failed_events_acknowledged_total",
    "Events that failed and whose sender will not send them again, because it was answered 200.",
    ["path"],
  ),
  lost: addCounter(
    "rouse_lost_requests_total",
    "Requests that were refused and that their sender does not send again, by path and reason.",
    ["path", "reason"],
  ),
  refusals: addCounter("rouse_refusals_total", "Callers that were refused, by reason.", ["reason"]),
  signatures: addCounter(
    "rouse_signatures_total",
    "Signatures that fitted, by path and by which of its secrets.",
    ["path", "secret"],
  ),
  waits: addHistogram("rouse_queue_wait_seconds", "Time that runs waited before they started.", {
    buckets: WAIT_BUCKETS,
  }),
  runs: addHistogram("rouse_run_seconds", "Time of runs by how they ended.", {
    buckets: RUN_BUCKETS,
    labelNames: ["status"],
  }),
  deliveries: addCounter("rouse_deliveries_total", "Deliveries by channel and how they ended.", [
    "channel",
    "status",
  ]),
});

/** Counts tokens and costs by agent, mapping and model. */
function createUsageCounters({ addCounter }: MetricRegistry): (use: ModelUse) => void {
  const labelNames = ["agent", "mapping", "model"] as const;
  const tokens = addCounter(
    "rouse_tokens_total",
    "Tokens that runs used; kind is input, cached_input and cache_write (parts of input) or output.",
    [...labelNames, "kind"],
  );
  const costs = addCounter(
    "rouse_cost_usd_total",
    "Known costs of runs, in US dollars.",
    labelNames,
  );
  const unpriced = addCounter(
    "rouse_unpriced_runs_total",
    "Runs that used a model whose price is unknown: rouse_cost_usd_total lacks them.",
    labelNames,
  );
  const [boundAgent, boundMapping, boundModel] = [createBound(), createBound(), createBound()];
  return ({
    inputTokens = 0,
    cachedInputTokens = 0,
    cacheWriteTokens = 0,
    outputTokens = 0,
    costUsd,
    ...use
  }) => {
    const labels = {
      agent: boundAgent(use.agent),
      mapping: boundMapping(use.mapping),
      model: boundModel(use.model),
    };
    tokens.inc({ ...labels, kind: "input" }, inputTokens);
    tokens.inc({ ...labels, kind: "cached_input" }, cachedInputTokens);
    tokens.inc({ ...labels, kind: "cache_write" }, cacheWriteTokens);
    tokens.inc({ ...labels, kind: "output" }, outputTokens);
    if (costUsd === undefined) unpriced.inc(labels);
    else costs.inc(labels, costUsd);
  };
}

/** Everything that the gateway counts. All calls are cheap enough for every request; times are seconds. */
export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the counters and histograms of one gateway, in a registry of its own. */
export function createMetrics() {
  const registry = createRegistry();
  const { addGauge, addRowGauges } = registry;
  const endProcess = addProcess(registry);
  const { hooks, answers, acknowledged, lost, refusals, signatures, waits, runs, deliveries } =
    createInstruments(registry);
  const [boundChannel, boundReason] = [createBound(), createBound()];
  const recent = {
    answers: createRecentTimes(),
    waits: createRecentTimes(),
    runs: createRecentTimes(),
  };
  let paths = new Set(OWN_PATHS);

  return {
    /** Sets the hook paths that may be a label; all others count as `other`. `wake` and `agent` are always among them. */
    setPaths(configured: readonly string[]): void {
      paths = new Set([...OWN_PATHS, ...configured]);
      // The series begins at 0: the first failure of a path has to be an increase.
      for (const path of configured) {
        acknowledged.inc({ path }, 0);
        lost.inc({ path, reason: "body_too_large" }, 0);
      }
    },
    /** Adds gauges that are read at each scrape, by names such as `runs.queued`. */
    watchCounts: (read: () => Promise<Record<string, number>>): void =>
      addGauge(
        "rouse_store_rows",
        "Rows of the store by kind and state.",
        ["kind", "state"],
        async (gauge) => {
          const counts = await readInTime(read);
          gauge.reset();
          for (const [name, count] of Object.entries(counts ?? {})) {
            const [kind = name, state = "all"] = name.split(".");
            gauge.set({ kind, state }, count);
          }
        },
      ),
    /** `read`: how long the oldest body has been kept beyond retention, in milliseconds. */
    watchBodies: (read: () => Promise<number>): void =>
      addGauge(
        "rouse_store_bodies_overdue_seconds",
        "How long the oldest body whose runs have ended has been kept beyond hooks.retention.",
        [],
        async (gauge) => {
          const overdue = await readInTime(read);
          gauge.reset();
          // No value is better than an old one.
          if (overdue === undefined) gauge.remove();
          else gauge.set(overdue / 1000);
        },
      ),
    /** Reads the health of the channels at each scrape. */
    watchChannels: (read: () => readonly { id: string; ok: boolean }[]): void =>
      addRowGauges({ label: "channel", read, toName: ({ id }) => id }, [
        [
          "rouse_channel_up",
          "Whether a channel could be reached when it was looked at last.",
          ({ ok }) => (ok ? 1 : 0),
        ],
      ]),
    /** Reads how the MCP servers do at each scrape. Idle ones are left out. */
    watchMcpServers(
      read: () => readonly { name: string; state: string; tools: number; losses: number }[],
    ): void {
      const readUsed = () => read().filter(({ state }) => state !== "idle");
      addRowGauges({ label: "server", read: readUsed, toName: ({ name }) => name }, [
        [
          "rouse_mcp_server_up",
          "Whether an MCP server is connected.",
          ({ state }) => (state === "connected" ? 1 : 0),
        ],
        ["rouse_mcp_server_tools", "The tools that an MCP server lists.", ({ tools }) => tools],
        [
          "rouse_mcp_server_losses",
          "How often the connection to an MCP server was lost since the config was loaded.",
          ({ losses }) => losses,
        ],
      ]);
    },
    watchBreakers: (read: () => readonly { of: string; state: string; waiting: number }[]): void =>
      addRowGauges({ label: "of", read, toName: ({ of }) => of }, [
        [
          "rouse_breaker_open",
          "Whether calls of a model or a channel are held back.",
          ({ state }) => (state === "closed" ? 0 : 1),
        ],
        [
          "rouse_breaker_waiting",
          "Runs or deliveries that wait for a model or a channel at this gateway.",
          ({ waiting }) => waiting,
        ],
      ]),
    hookAnswered(answer: { path: string; outcome: string; seconds: number }): void {
      const { path, outcome, seconds } = answer;
      hooks.inc({ path: paths.has(path) ? path : OTHER, outcome });
      answers.observe({ outcome }, seconds);
      recent.answers.add(seconds);
    },
    /** A mapping failed, and the sender was answered 200 because it disables hooks that answer with errors. */
    failureAcknowledged: (path: string): void => acknowledged.inc({ path }),
    refused: (reason: string): void => refusals.inc({ reason: boundReason(reason) }),
    /** Counts a refused request that its sender does not send again. Only for paths of the config. */
    requestLost: (labels: { path: string; reason: string }): void => lost.inc(labels),
    /** A signature fitted; `secret` is which of the path's secrets, from 0. */
    signed: (labels: { path: string; secret: number }): void => signatures.inc(labels),
    runStarted({ waitSeconds }: { waitSeconds: number }): void {
      waits.observe(waitSeconds);
      recent.waits.add(waitSeconds);
    },
    runEnded({ status, seconds }: { status: string; seconds: number }): void {
      runs.observe({ status }, seconds);
      recent.runs.add(seconds);
    },
    /** A run has used a model. `costUsd` is absent if the price is unknown. */
    modelUsed: createUsageCounters(registry),
    deliveryEnded: ({ channel, status }: { channel: string; status: string }): void =>
      deliveries.inc({ channel: boundChannel(channel), status }),
    /** The newest times of answers, of waits before a start, and of runs. */
    latencies: () => ({
      answers: recent.answers.read(),
      waits: recent.waits.read(),
      runs: recent.runs.read(),
    }),
    /** Renders everything in Prometheus' text format. */
    render: registry.render,
    /** Ends the measuring of the event loop. */
    close: endProcess,
  };
}
