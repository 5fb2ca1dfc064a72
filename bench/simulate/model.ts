/**
 * Hooks on their way through gateways and partitions. A hook takes a gateway's processor, then its event key is reserved in
 * the partition of that key (a second commit where that is not its home), then event and work are committed in the partition
 * of its session key, and then it is answered. Its run waits for its key and for a free place, in that partition.
 */
import {
  createArrivals,
  createCalendar,
  createFlusher,
  createStation,
  createTimes,
} from "./engine.ts";
import type { Bursts, Flusher, Station, Times } from "./engine.ts";
import { createRandom, createZipf, toPartition, type Zipf } from "./random.ts";

export interface Scenario {
  seed: number;
  /** Hooks a second, on average. */
  rate: number;
  seconds: number;
  /** The seconds before the measurement begins. */
  warmUp: number;
  bursts: Bursts | undefined;
  gateways: number;
  partitions: number;
  /** Processors of each partition's database. */
  cores: number;
  /** Service times as measured, or varying around that (exponentially: the cautious choice). */
  service: "fixed" | "exponential";
  /** Seconds of a gateway's processor to take a hook. */
  acceptCpu: number;
  /** Seconds of the database's processor for event and work; for an event key alone; for a run from start to end. */
  commitCpu: number;
  keyCpu: number;
  runCpu: number;
  /** Bytes of log for the same. */
  commitBytes: number;
  keyBytes: number;
  runBytes: number;
  flushSeconds: number;
  logBytesPerSecond: number;
  roundTrip: number;
  /** Session keys that come again, how unequal they are, and how many of the hooks have one. */
  keys: number;
  skew: number;
  keyedShare: number;
  runsPerHook: number;
  turnSeconds: number;
  /** Turns at the same time, in each partition. */
  places: number;
  /** A refused sender comes again after this, and up to as long again. */
  retryAfter: number;
  failure: { partition: number; from: number; seconds: number } | undefined;
}

export interface Outcome {
  arrived: number;
  accepted: number;
  refusals: number;
  /** Arrived, and neither accepted nor given an answer at the end, or waiting to come again. */
  underWay: number;
  runsStarted: number;
  runsWaiting: number;
  /** Two runs of one key at the same time, or one before an earlier one: has to be 0. */
  disorder: number;
  /** Work for each second there is. */
  gatewayBusy: number;
  databaseBusy: number[];
  logBusy: number[];
  accept: Times;
  start: Times;
  /** The same without keys that get more turns than one after the other can be. */
  startOfOthers: Times;
  /** The fullest partition against the mean. */
  imbalance: number;
  overfullKeys: number;
  failure: { arrived: number; refused: number; recovered: number | undefined } | undefined;
}

type Stage =
  | "arrives"
  | "at key"
  | "key done"
  | "at home"
  | "home done"
  | "turn over"
  | "flushed"
  | "sample"
  | "back";

/** A hook, its run later on, or something that happens to a partition. */
interface Item {
  stage: Stage;
  /** The partition that it is in, or goes to next. */
  partition: number;
  home: number;
  /** -1: a session of its own. */
  key: number;
  arrivedAt: number;
  triedAt: number;
  queuedAt: number;
  order: number;
  refused: boolean;
  /** The next run of the same key. */
  behind: Item | undefined;
}

interface Partition {
  processor: Station;
  log: Flusher<Item | undefined>;
  ready: Line;
  taken: number;
  hooks: number;
}

interface Line {
  push(item: Item): void;
  shift(): Item | undefined;
  length(): number;
}

function createLine(): Line {
  let items: Item[] = [];
  let head = 0;
  return {
    push: (item) => void items.push(item),
    shift() {
      const item = items[head];
      if (item) head++;
      if (head > 1024 && head * 2 > items.length) [items, head] = [items.slice(head), 0];
      return item;
    },
    length: () => items.length - head,
  };
}

const SAMPLE_SECONDS = 0.5;

class Model {
  readonly #scenario: Scenario;
  readonly #random;
  readonly #zipf: Zipf;
  readonly #calendar = createCalendar<Item>();
  readonly #arrivals;
  readonly #gateways: Station[];
  readonly #partitions: Partition[];
  /** The last run of each key that has one waiting or under way. */
  readonly #lastOfKey = new Map<number, Item>();
  readonly #runningKeys = new Set<number>();
  readonly #lastStarted = new Map<number, number>();
  readonly #accept = createTimes();
  readonly #start = createTimes();
  readonly #startOfOthers = createTimes();
  #counts = {
    arrived: 0,
    accepted: 0,
    refusals: 0,
    runsQueued: 0,
    runsStarted: 0,
    disorder: 0,
    toComeAgain: 0,
  };
  #failed = {
    arrived: 0,
    refused: 0,
    recovered: undefined as number | undefined,
    before: [] as number[],
  };
  readonly #overfull: number;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#random = createRandom(scenario.seed);
    this.#zipf = createZipf(scenario.keys, scenario.skew);
    this.#overfull = overfullKeys(scenario, this.#zipf);
    this.#arrivals = createArrivals(
      scenario.rate,
      scenario.bursts,
      createRandom(scenario.seed + 1),
    );
    this.#gateways = Array.from({ length: scenario.gateways }, () => createStation(1));
    this.#partitions = Array.from({ length: scenario.partitions }, () => ({
      processor: createStation(scenario.cores),
      log: createFlusher<Item | undefined>(scenario.flushSeconds, scenario.logBytesPerSecond),
      ready: createLine(),
      taken: 0,
      hooks: 0,
    }));
  }

  run(): Outcome {
    const { seconds, failure } = this.#scenario;
    this.#arrive(0);
    if (failure) {
      this.#calendar.at(failure.from + failure.seconds, this.#item("back", failure.partition));
      this.#calendar.at(SAMPLE_SECONDS, this.#item("sample", failure.partition));
    }
    // The first item past the end is put back, since it is still in progress.
    for (let item = this.#calendar.next(); item; item = this.#calendar.next()) {
      if (this.#calendar.now > seconds) {
        this.#calendar.at(this.#calendar.now, item);
        break;
      }
      this.#step(item, this.#calendar.now);
    }
    return this.#outcome();
  }

  #item(stage: Stage, partition: number, now = 0): Item {
    return {
      stage,
      partition,
      home: partition,
      key: -1,
      arrivedAt: now,
      triedAt: now,
      queuedAt: 0,
      order: 0,
      refused: false,
      behind: undefined,
    };
  }

  #seconds(mean: number): number {
    return this.#scenario.service === "fixed" ? mean : this.#random.exponential(mean);
  }

  #isDown(partition: number, now: number): boolean {
    const { failure } = this.#scenario;
    return (
      failure?.partition === partition &&
      now >= failure.from &&
      now < failure.from + failure.seconds
    );
  }

  #at(time: number, item: Item, stage: Stage): void {
    item.stage = stage;
    this.#calendar.at(time, item);
  }

  /** The next hook, with its key and its event's key. */
  #arrive(now: number): void {
    const { keyedShare, partitions } = this.#scenario;
    const item = this.#item("arrives", this.#random.below(partitions), this.#arrivals.next(now));
    item.key = this.#random.next() < keyedShare ? this.#zipf.draw(this.#random) : -1;
    item.home = item.key < 0 ? this.#random.below(partitions) : toPartition(item.key, partitions);
    this.#calendar.at(item.arrivedAt, item);
  }

  #step(item: Item, now: number): void {
    switch (item.stage) {
      case "arrives":
        return this.#taken(item, now);
      case "at key":
        return this.#work(item, now, item.partition, this.#scenario.keyCpu, "key done");
      case "key done":
        return this.#write(item, now, item.partition, this.#scenario.keyBytes);
      case "at home":
        return this.#work(item, now, item.home, this.#scenario.commitCpu, "home done");
      case "home done":
        return this.#write(item, now, item.home, this.#scenario.commitBytes);
      case "flushed":
        return this.#flushed(item, now);
      case "turn over":
        return this.#turnOver(item, now);
      case "sample":
        return this.#sample(item, now);
      case "back":
        return this.#pump(item.partition, now);
    }
  }

  /** A gateway takes a hook, for the first time or again. */
  #taken(item: Item, now: number): void {
    const { acceptCpu, roundTrip, gateways, failure } = this.#scenario;
    if (item.triedAt === item.arrivedAt) {
      this.#counts.arrived++;
      (this.#partitions[item.home] as Partition).hooks++;
      if (failure && now >= failure.from && now < failure.from + failure.seconds)
        this.#failed.arrived++;
      this.#arrive(now);
    } else this.#counts.toComeAgain--;
    const done = (this.#gateways[this.#random.below(gateways)] as Station).serve(
      now,
      this.#seconds(acceptCpu),
    );
    this.#at(done + roundTrip / 2, item, item.partition === item.home ? "at home" : "at key");
  }

  #work(item: Item, now: number, partition: number, cpu: number, then: Stage): void {
    if (this.#isDown(partition, now)) return this.#refuse(item, now);
    this.#at(
      (this.#partitions[partition] as Partition).processor.serve(now, this.#seconds(cpu)),
      item,
      then,
    );
  }

  #write(item: Item, now: number, partition: number, bytes: number): void {
    if (this.#isDown(partition, now)) return this.#refuse(item, now);
    this.#log(partition, now, item, bytes);
  }

  #log(partition: number, now: number, item: Item | undefined, bytes: number): void {
    const ends = (this.#partitions[partition] as Partition).log.add(now, item, bytes);
    if (ends !== undefined) this.#calendar.at(ends, this.#item("flushed", partition));
  }

  #flushed({ partition }: Item, now: number): void {
    const { items, next } = (this.#partitions[partition] as Partition).log.ended(now);
    if (next !== undefined) this.#calendar.at(next, this.#item("flushed", partition));
    for (const item of items) {
      if (!item) continue;
      if (this.#isDown(partition, now)) this.#refuse(item, now);
      else if (item.stage === "key done") this.#at(now + this.#scenario.roundTrip, item, "at home");
      else this.#accepted(item, now);
    }
  }

  #refuse(item: Item, now: number): void {
    this.#counts.refusals++;
    this.#counts.toComeAgain++;
    const { failure, retryAfter } = this.#scenario;
    if (!item.refused && failure && item.arrivedAt >= failure.from) this.#failed.refused++;
    item.refused = true;
    item.triedAt = now + retryAfter * (1 + this.#random.next());
    this.#at(item.triedAt, item, "arrives");
  }

  #accepted(item: Item, now: number): void {
    this.#counts.accepted++;
    if (item.arrivedAt >= this.#scenario.warmUp)
      this.#accept.add(now + this.#scenario.roundTrip / 2 - item.triedAt);
    if (this.#random.next() >= this.#scenario.runsPerHook) return;
    item.queuedAt = now;
    item.order = this.#counts.runsQueued++;
    if (item.key >= 0) {
      const before = this.#lastOfKey.get(item.key);
      this.#lastOfKey.set(item.key, item);
      if (before) {
        before.behind = item;
        return;
      }
    }
    (this.#partitions[item.home] as Partition).ready.push(item);
    this.#pump(item.home, now);
  }

  /** Starts what may start. */
  #pump(partition: number, now: number): void {
    if (this.#isDown(partition, now)) return;
    // A start is a commit of its own: one round trip and one flush.
    const { places, turnSeconds, warmUp, roundTrip, flushSeconds } = this.#scenario;
    const here = this.#partitions[partition] as Partition;
    while (here.taken < places) {
      const item = here.ready.shift();
      if (!item) return;
      here.taken++;
      this.#counts.runsStarted++;
      if (item.key >= 0) {
        if (this.#runningKeys.has(item.key) || item.order < (this.#lastStarted.get(item.key) ?? -1))
          this.#counts.disorder++;
        this.#runningKeys.add(item.key);
        this.#lastStarted.set(item.key, item.order);
      }
      if (item.arrivedAt >= warmUp) {
        const waited = now - item.queuedAt + roundTrip + flushSeconds;
        this.#start.add(waited);
        if (item.key < 0 || item.key >= this.#overfull) this.#startOfOthers.add(waited);
      }
      this.#at(
        now + roundTrip + flushSeconds + this.#random.exponential(turnSeconds),
        item,
        "turn over",
      );
    }
  }

  #turnOver(item: Item, now: number): void {
    const { failure, turnSeconds, runCpu, runBytes } = this.#scenario;
    // Its end cannot be written: it begins again once the partition is back.
    if (failure && this.#isDown(item.home, now))
      return this.#at(
        failure.from + failure.seconds + this.#random.exponential(turnSeconds),
        item,
        "turn over",
      );
    const here = this.#partitions[item.home] as Partition;
    here.taken--;
    here.processor.serve(now, this.#seconds(runCpu));
    this.#log(item.home, now, undefined, runBytes);
    if (item.key >= 0) {
      this.#runningKeys.delete(item.key);
      if (item.behind) here.ready.push(item.behind);
      else this.#lastOfKey.delete(item.key);
    }
    this.#pump(item.home, now);
  }

  /** Looks at how long the line is in the partition that fails, until it is as it was. */
  #sample(item: Item, now: number): void {
    const { from = 0, seconds = 0 } = this.#scenario.failure ?? {};
    const { before } = this.#failed;
    const waiting = (this.#partitions[item.partition] as Partition).ready.length();
    if (now >= this.#scenario.warmUp && now < from) before.push(waiting);
    const usual = before.reduce((sum, one) => sum + one, 0) / Math.max(1, before.length);
    if (now >= from + seconds && this.#counts.toComeAgain === 0 && waiting <= usual * 1.5 + 5)
      this.#failed.recovered ??= now - from - seconds;
    this.#calendar.at(now + SAMPLE_SECONDS, item);
  }

  #outcome(): Outcome {
    const { seconds, cores, failure, gateways } = this.#scenario;
    const { arrived, accepted, refusals, runsQueued, runsStarted, disorder } = this.#counts;
    const hooks = this.#partitions.map((partition) => partition.hooks);
    const onTheirWay = this.#calendar
      .items()
      .filter(
        ({ stage, arrivedAt, triedAt }) =>
          /^at |done$/.test(stage) || (stage === "arrives" && triedAt !== arrivedAt),
      ).length;
    const inLogs = this.#partitions
      .flatMap(({ log }) => log.items())
      .filter((item) => item !== undefined).length;
    const { before: _, ...failed } = this.#failed;
    return {
      arrived,
      accepted,
      refusals,
      underWay: onTheirWay + inLogs,
      runsStarted,
      runsWaiting: runsQueued - runsStarted,
      disorder,
      gatewayBusy:
        this.#gateways.reduce((sum, station) => sum + station.worked(), 0) / gateways / seconds,
      databaseBusy: this.#partitions.map(({ processor }) => processor.worked() / cores / seconds),
      logBusy: this.#partitions.map(({ log }) => log.writingSeconds() / seconds),
      accept: this.#accept,
      start: this.#start,
      startOfOthers: this.#startOfOthers,
      imbalance: (Math.max(...hooks) * hooks.length) / Math.max(1, arrived),
      overfullKeys: this.#overfull,
      failure: failure && failed,
    };
  }
}

/** Keys (the first so many ranks) whose turns, one after the other, do not keep up with what comes. */
export function overfullKeys(
  { rate, keyedShare, runsPerHook, turnSeconds }: Scenario,
  zipf: Zipf,
): number {
  let rank = 0;
  while (rank < zipf.keys && rate * keyedShare * runsPerHook * zipf.share(rank) * turnSeconds >= 1)
    rank++;
  return rank;
}

/** Runs a scenario from its first second to its last. The same scenario gives the same outcome. */
export const simulate = (scenario: Scenario): Outcome => new Model(scenario).run();
