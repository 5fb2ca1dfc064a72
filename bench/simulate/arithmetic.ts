/** Computes the load of each part at a rate, from costs, with the parts that are overloaded and the rate from which on they are. */
import { getCost, type CostsFile, type Known } from "./costs.ts";
import type { Scenario } from "./model.ts";
import { createZipf, toPartition } from "./random.ts";

/** Assumptions about the load and the machines. They are printed with every result. */
export const ASSUMED = {
  /** One in ten hooks begins a run; the others wake, are skipped, repeat or are collected. */
  runsPerHook: 0.1,
  turnSeconds: 5,
  /** Half of the hooks carry a session key of their sender's; the others get a session of their own. */
  keyedShare: 0.5,
  /** Zipf's exponent: how unequal senders are. */
  skew: 1,
  keysPerHook: 100,
  mostKeys: 1_000_000,
  /** Processors of a database, and what its clients may hold open. */
  cores: 8,
  connections: 500,
  /** Connections that a gateway holds to each database. */
  pool: 10,
  /** Turns at the same time in one gateway. */
  turnsPerGateway: 64,
  /** The planned use of a part, at most. */
  full: 0.6,
  heartbeatSeconds: 5,
  eventsPerHeartbeat: 50,
  bursts: { factor: 4, seconds: 0.5, share: 0.05 },
  /** `store.retention`, and the disk of a database, in bytes. */
  retentionDays: 30,
  diskBytes: 8e12,
  retryAfter: 5,
  failureSeconds: 30,
} as const;

export interface Priced {
  acceptCpu: Known;
  gatewayRunCpu: Known;
  commitCpu: Known;
  commitLog: Known;
  keyCpu: Known;
  keyLog: Known;
  runCpu: Known;
  runLog: Known;
  flush: Known;
  logSpeed: Known;
  roundTrip: Known;
  kept: Known;
}

export const price = (file: CostsFile): Priced => ({
  acceptCpu: getCost(file, "postgres.gatewayAcceptCpu"),
  gatewayRunCpu: getCost(file, "postgres.gatewayRunCpu"),
  commitCpu: getCost(file, "postgres.commitCpu"),
  commitLog: getCost(file, "postgres.commitLog"),
  keyCpu: getCost(file, "postgres.keyCpu"),
  keyLog: getCost(file, "postgres.keyLog"),
  runCpu: getCost(file, "postgres.runCpu"),
  runLog: getCost(file, "postgres.runLog"),
  flush: getCost(file, "disk.flush"),
  logSpeed: getCost(file, "disk.logSpeed"),
  roundTrip: getCost(file, "network.roundTrip"),
  kept: getCost(file, "postgres.bytesPerHook"),
});

/** The share of a part that a rate uses. Over 1 the part breaks. */
export interface Load {
  part: string;
  load: number;
  /** Hooks a second from which on it breaks, the rest as it is; all loads here grow with the rate. */
  breaksAt: number;
  from: Known[];
  /** False if a cost is missing: nothing can be said. */
  known: boolean;
  remedy: string;
}

/** Machines for a rate, so that none is fuller than planned. */
export interface UnitOfWork {
  rate: number;
  partitions: number;
  acceptors: number;
  workers: number;
  turns: number;
}

const keysFor = (rate: number): number => Math.min(ASSUMED.mostKeys, rate * ASSUMED.keysPerHook);
const remote = (partitions: number): number => 1 - 1 / partitions;

/** Seconds of a database's processors, and bytes of its log, for one hook with its share of a run. */
function perHook(
  { commitCpu, commitLog, keyCpu, keyLog, runCpu, runLog }: Priced,
  partitions: number,
): { cpu: number; bytes: number } {
  const { runsPerHook } = ASSUMED;
  return {
    cpu: commitCpu.value + remote(partitions) * keyCpu.value + runsPerHook * runCpu.value,
    bytes: commitLog.value + remote(partitions) * keyLog.value + runsPerHook * runLog.value,
  };
}

export function planFor(rate: number, priced: Priced, partitions?: number): UnitOfWork {
  const { full, runsPerHook, turnSeconds, turnsPerGateway, cores } = ASSUMED;
  const turns = rate * runsPerHook * turnSeconds;
  const workers = Math.max(
    1,
    Math.ceil(turns / full / turnsPerGateway),
    Math.ceil((rate * runsPerHook * priced.gatewayRunCpu.value) / full),
  );
  // Processors and log have to do for the fullest database; the disk for the mean, since it can be made larger for one.
  const disks = (rate * 86_400 * ASSUMED.retentionDays * priced.kept.value) / ASSUMED.diskBytes;
  const fits = (count: number): boolean => {
    if (disks / count > full) return false;
    const { cpu, bytes } = perHook(priced, count);
    const busiest = (rate / count) * hottest(rate, count);
    return (
      (busiest * cpu) / cores <= full &&
      (priced.logSpeed.value === 0 || (busiest * bytes) / priced.logSpeed.value <= full)
    );
  };
  let count = partitions ?? 1;
  while (partitions === undefined && !fits(count) && count < 4096) count++;
  return {
    rate,
    partitions: count,
    acceptors: Math.max(1, Math.ceil((rate * priced.acceptCpu.value) / full)),
    workers,
    turns,
  };
}

/** The bytes that all databases keep together. */
export const keptBytes = ({ rate }: UnitOfWork, { kept }: Priced): number =>
  rate * 86_400 * ASSUMED.retentionDays * kept.value;

/** Seconds until half of everything has moved to as many partitions again, at half the speed of each log. */
export const doublingSeconds = (plan: UnitOfWork, priced: Priced): number =>
  keptBytes(plan, priced) / 2 / plan.partitions / (priced.logSpeed.value / 2);

/** The share of hooks that reserve their event's key in another partition: a commit and a round trip more. */
export const remoteShare = ({ partitions }: UnitOfWork): number => remote(partitions);

const hottestByPlan = new Map<string, number>();
/** The fullest partition's hooks against the mean, from the keys' shares and where their hashes lie. */
function hottest(rate: number, partitions: number): number {
  const name = `${keysFor(rate)}/${partitions}`;
  const known = hottestByPlan.get(name);
  if (known !== undefined) return known;
  const shares = new Float64Array(partitions).fill((1 - ASSUMED.keyedShare) / partitions);
  const keys = zipfFor(rate);
  for (let key = 0; key < keys.keys; key++) {
    const at = toPartition(key, partitions);
    shares[at] = (shares[at] as number) + ASSUMED.keyedShare * keys.share(key);
  }
  const found = Math.max(...shares) * partitions;
  hottestByPlan.set(name, found);
  return found;
}

const zipfs = new Map<number, ReturnType<typeof createZipf>>();
function zipfFor(rate: number): ReturnType<typeof createZipf> {
  const keys = keysFor(rate);
  const made = zipfs.get(keys) ?? createZipf(keys, ASSUMED.skew);
  zipfs.set(keys, made);
  return made;
}

/** All parts of a plan, the one that breaks first at the top. */
export function getLoads(plan: UnitOfWork, priced: Priced): Load[] {
  const { rate, partitions, acceptors, workers } = plan;
  const {
    cores,
    connections,
    pool,
    runsPerHook,
    turnSeconds,
    keyedShare,
    heartbeatSeconds,
    eventsPerHeartbeat,
  } = ASSUMED;
  const { cpu, bytes } = perHook(priced, partitions);
  const busiest = (rate / partitions) * hottest(rate, partitions);
  const {
    commitCpu,
    commitLog,
    keyCpu,
    keyLog,
    runCpu,
    runLog,
    logSpeed,
    acceptCpu,
    gatewayRunCpu,
  } = priced;
  const moreThanOne = partitions > 1;
  const load = (part: string, value: number, from: Known[], remedy: string): Load => ({
    part,
    load: value,
    breaksAt: rate / value,
    from,
    known: from.every(({ kind }) => kind !== "missing"),
    remedy,
  });
  return [
    load(
      "main session: one heartbeat after the other",
      (rate * runsPerHook * heartbeatSeconds) / eventsPerHeartbeat,
      [],
      "summaries of many runs in one event, or a main session for each partition",
    ),
    load(
      "hottest session key: one turn after the other",
      rate * keyedShare * runsPerHook * zipfFor(rate).share(0) * turnSeconds,
      [],
      "`coalesce` on that hook, or a finer key; no number of partitions helps",
    ),
    load(
      "processors of the fullest database",
      (busiest * cpu) / cores,
      [commitCpu, ...(moreThanOne ? [keyCpu] : []), runCpu],
      "more partitions",
    ),
    load(
      "log of the fullest database",
      logSpeed.value === 0 ? 0 : (busiest * bytes) / logSpeed.value,
      [commitLog, ...(moreThanOne ? [keyLog] : []), runLog, logSpeed],
      "more partitions, or a faster disk for the log",
    ),
    load(
      "connections of one database",
      ((acceptors + workers) * pool) / connections,
      [acceptCpu, gatewayRunCpu],
      "a pooler before each database, or workers that belong to one partition",
    ),
    load(
      "disk of the fullest database",
      (keptBytes(plan, priced) / partitions / ASSUMED.diskBytes) * hottest(rate, partitions),
      [priced.kept],
      "a shorter `store.retention`, then more partitions",
    ),
  ].toSorted((a, b) => a.breaksAt - b.breaksAt);
}

/** The plan as something that can be simulated. */
export function buildScenario(
  plan: UnitOfWork,
  priced: Priced,
  seed: number,
  seconds: number,
  failure: Scenario["failure"],
): Scenario {
  const { runsPerHook, turnSeconds, keyedShare, skew, cores, bursts, retryAfter, full } = ASSUMED;
  const { rate, partitions, acceptors, turns } = plan;
  return {
    seed,
    rate,
    seconds,
    warmUp: failure ? failure.from / 2 : seconds / 4,
    bursts,
    gateways: acceptors,
    partitions,
    cores,
    service: "exponential",
    acceptCpu: priced.acceptCpu.value,
    commitCpu: priced.commitCpu.value,
    keyCpu: priced.keyCpu.value,
    runCpu: priced.runCpu.value,
    commitBytes: priced.commitLog.value,
    keyBytes: priced.keyLog.value,
    runBytes: priced.runLog.value,
    flushSeconds: priced.flush.value,
    logBytesPerSecond: priced.logSpeed.value === 0 ? Infinity : priced.logSpeed.value,
    roundTrip: priced.roundTrip.value,
    keys: keysFor(rate),
    skew,
    keyedShare,
    runsPerHook,
    turnSeconds,
    places: Math.ceil((turns / partitions / full) * hottest(rate, partitions)),
    retryAfter,
    failure,
  };
}
