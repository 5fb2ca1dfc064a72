import type { Clock } from "../core/clock.ts";

/** A secret that a request brought to a path whose secret is still `pending`. It has no effect until the operator accepts it. */
export interface SecretCandidate {
  /** Identifies the candidate on its path. Never reused. */
  id: number;
  address: string;
  /** When it was last received, in milliseconds since the epoch. */
  at: number;
  secret: string;
}

/** Candidates of one path, and of one address there: anyone may send one. */
const MAX_CANDIDATES = 10;
const MAX_OF_ADDRESS = 3;
const MAX_LENGTH = 512;

/** The candidates of all paths, in memory alone. */
export class SecretCandidates {
  readonly #paths = new Map<string, SecretCandidate[]>();
  readonly #clock: Pick<Clock, "now">;
  #ids = 0;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Adds a candidate. The oldest of its address makes room, or, if the path has too many, the oldest of the address with most. */
  add(path: string, address: string, secret: string): void {
    if (secret.length > MAX_LENGTH) return;
    const known = this.#paths.get(path) ?? [];
    this.#paths.set(path, known);
    const same = known.find((one) => one.address === address && one.secret === secret);
    if (same) {
      same.at = this.#clock.now();
      return;
    }
    known.push({ id: ++this.#ids, address, at: this.#clock.now(), secret });
    const groups = [...Map.groupBy(known, (one) => one.address).values()];
    const largest = groups.toSorted((a, b) => b.length - a.length)[0] ?? [];
    if (largest.length > MAX_OF_ADDRESS || known.length > MAX_CANDIDATES) known.splice(known.indexOf(largest[0] as SecretCandidate), 1);
  }

  /** The candidates of a path, oldest first. */
  of(path: string): readonly SecretCandidate[] {
    return this.#paths.get(path) ?? [];
  }
}
