/** Seeded randomness: the same seed gives the same run. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
  /** Exponential with this mean. */
  exponential(mean: number): number;
  /** Uniform among 0 … n-1. */
  below(n: number): number;
}

/** Mulberry32 on a seed that is mixed first, so that neighbouring seeds share nothing. */
export function createRandom(seed: number): Random {
  let state = mix(seed);
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    exponential: (mean) => -mean * Math.log(1 - next()),
    below: (n) => Math.floor(next() * n),
  };
}

/** A 32-bit hash whose every bit depends on every bit of the number. */
function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
