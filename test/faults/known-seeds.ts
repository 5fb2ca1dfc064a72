/** Seeds that have found defects: what was wrong, the faults that the seed draws from, and its number. */
export interface KnownSeed {
  defect: string;
  fault: string;
  seed: number;
}

/** Those that make runs wait for their provider, and what can disturb that. */
const WAITS =
  "kill,kill at commit,suspend,slow machine,disk full,provider limits once,hanging provider,slow provider,channel away,channel loses answers,channel hangs";

export const KNOWN_SEEDS: readonly KnownSeed[] = [
  { defect: "jobs of one key run beside each other", fault: "slow provider", seed: 1 },
  { defect: "jobs that a crash cut off stay held", fault: "kill", seed: 2 },
  { defect: "a result is not committed again", fault: "disk full", seed: 5 },
  { defect: "suspects of a crash start beside others", fault: "poison", seed: 14 },
  { defect: "work without a delay waits for a wall time", fault: "clock back", seed: 5 },
  {
    defect: "delays do not follow a clock that is set back",
    fault: "clock back,provider limits once,channel away",
    seed: 23,
  },
  { defect: "a breaker never opens", fault: "outage", seed: 4 },
  { defect: "Retry-After has no bound", fault: "provider limits for a day", seed: 20 },
  { defect: "a run is given up after six tries", fault: "partial outage", seed: 33 },
  {
    defect: "a run does not look for earlier ones of its session that wait",
    fault: WAITS,
    seed: 7,
  },
  {
    defect: "a decision counts only where the clock says that it came after the call",
    fault: "clock back,kill,kill at commit",
    seed: 5,
  },
  { defect: "an answer that was cut fails its run", fault: "cut answers", seed: 2 },
  {
    defect: "durations are read from the wall clock",
    fault: "clock ahead,clock back,hanging provider,slow provider",
    seed: 4,
  },
  {
    defect: "starts of runs are not counted for their limits",
    fault: "slow provider,kill",
    seed: 14,
  },
  {
    defect: "runs under way are not counted for their limits",
    fault: "slow provider,kill",
    seed: 5,
  },
  {
    defect: "a run that a limit has released waits again behind others for its provider",
    fault: "partial outage,outage",
    seed: 53,
  },
];
