/** Clocks in milliseconds: time that passes, and processor time of this thread. */
export interface CpuClock {
  wall(): number;
  cpu(): number;
}

export const SYSTEM_CLOCK: CpuClock = {
  wall: () => performance.now(),
  cpu() {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  },
};

export interface CpuLimit {
  /** Starts the measurement of an evaluation. */
  start(): void;
  /** Fails with JSONata's code D1012 if the evaluation has used more processor time than the limit. */
  check(): void;
  /** Checks at every fourth call, for steps that are short. */
  checkSometimes(): void;
  /** Processor time since the start, in milliseconds; 0 if it is below the limit. */
  spent(): number;
}

/** Evaluations that start within this time start from one reading of the thread's time, which costs half a microsecond. */
const SAME_READING_MS = 1;
let lastStart: { clock: CpuClock | undefined; wall: number; cpu: number } = {
  clock: undefined,
  wall: 0,
  cpu: 0,
};

/**
 * Limits the processor time of one evaluation after the other. Time in which the machine was busy elsewhere or stood still
 * does not count.
 */
export function createCpuLimit(limitMs: number, clock: CpuClock): CpuLimit {
  let begun = 0;
  // Reading the thread's time costs several times as much as reading the clock, and never gives more than has passed.
  let nextLook = 0;
  const spent = (): number => {
    const now = clock.wall();
    if (now < nextLook) return 0;
    const used = clock.cpu() - begun;
    nextLook = now + Math.max(0, limitMs - used);
    return used;
  };
  const check = (): void => {
    if (spent() > limitMs)
      throw Object.assign(new Error("too much processor time"), { code: "D1012" });
  };
  let calls = 0;
  return {
    start() {
      const now = clock.wall();
      if (lastStart.clock !== clock || now - lastStart.wall >= SAME_READING_MS)
        lastStart = { clock, wall: now, cpu: clock.cpu() };
      begun = lastStart.cpu;
      nextLook = now + limitMs;
    },
    check,
    checkSometimes() {
      if ((++calls & 3) === 0) check();
    },
    spent,
  };
}

const MINUTE = 60_000;
const MAX_PAUSE_MS = 60 * MINUTE;

/** On a busy machine a collection of garbage exceeds the limit in one of some thousand evaluations. That is no expression's offence. */
const NEAR = 32;

export interface Offences {
  isExcluded(): boolean;
  /** Counts an evaluation in this process. */
  add(isOffence: boolean): void;
}

/**
 * Creates the record of an expression's offences against its limit. Two within a minute, and within 32 evaluations, exclude it
 * from this process for a minute, and for twice as long each further time, up to an hour.
 */
export function createOffences(clock: CpuClock): Offences {
  let last = -Infinity;
  let since = 0;
  let until = -Infinity;
  let next = MINUTE;
  return {
    isExcluded: () => until > -Infinity && clock.wall() < until,
    add(isOffence) {
      since++;
      if (!isOffence) return;
      const now = clock.wall();
      const isNear = since <= NEAR;
      since = 0;
      if (isNear && now - last < MINUTE) {
        until = now + next;
        next = Math.min(next * 2, MAX_PAUSE_MS);
        last = -Infinity;
      } else last = now;
    },
  };
}

let running = false;
const waiting = new Set<() => void>();

/**
 * Gives evaluations turns, so that the thread's time from the start of one to its end is its own. Returns a promise if
 * there is one to wait for. Every turn must end with `endTurn`; after one that waits for what never comes, the next starts
 * when the event loop has come round.
 */
export function takeTurn(): Promise<void> | undefined {
  if (!running) {
    running = true;
    return undefined;
  }
  return new Promise((resolve) => {
    const start = (): void => {
      clearImmediate(late);
      waiting.delete(start);
      running = true;
      resolve();
    };
    const late = setImmediate(start);
    waiting.add(start);
  });
}

export function endTurn(): void {
  running = false;
  for (const start of waiting) return start();
}
