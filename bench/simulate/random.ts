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
export function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** The partition of a session key: its hash, cut. */
export const toPartition = (key: number, partitions: number): number => mix(key + 1) % partitions;

/** Zipf's law over `keys` keys: the key of rank r in proportion to 1 / r^s. */
export interface Zipf {
  keys: number;
  /** The share of the key of this rank, from 0. */
  share(rank: number): number;
  draw(random: Random): number;
}

export function createZipf(keys: number, s: number): Zipf {
  const upTo = new Float64Array(keys);
  let sum = 0;
  for (let rank = 0; rank < keys; rank++) upTo[rank] = sum += (rank + 1) ** -s;
  return {
    keys,
    share: (rank) => (rank + 1) ** -s / sum,
    draw(random) {
      const wanted = random.next() * sum;
      let low = 0;
      let high = keys - 1;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((upTo[middle] as number) < wanted) low = middle + 1;
        else high = middle;
      }
      return low;
    },
  };
}
