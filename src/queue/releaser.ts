import type { Reservation, Resource } from "../store/types.ts";
import type { AdmissionDeps, Budget } from "./types.ts";

/** Runs that are released and have not started, at most, of each mapping; and all that are released together. */
const MAX_RELEASED = 200;

/** The room that budgets have, by scope; what runs are released for is taken from it. */
class Room {
  readonly #left = new Map<string, Partial<Record<Resource, number>>>();

  constructor(reservations: readonly Reservation[]) {
    for (const { scope, left } of reservations) this.#left.set(scope, { ...left });
  }

  take(budgets: readonly Budget[], count: number): void {
    for (const { scope } of budgets) {
      const left = this.#left.get(scope) ?? {};
      for (const name of ["starts", "places"] as const)
        if (left[name] !== undefined) left[name] -= count;
    }
  }

  /** Returns the resources without room for one more run. A scope that nothing is known of has none. */
  findShort({ scope }: Budget): Resource[] {
    const left = this.#left.get(scope);
    if (!left) return ["places"];
    return (Object.keys(left) as Resource[]).filter((name) => (left[name] ?? 0) < 1);
  }

  isOpen(budgets: readonly Budget[]): boolean {
    return budgets.every((budget) => this.findShort(budget).length === 0);
  }
}

export interface Released {
  /** Runs are parked still. */
  waits: boolean;
  /** More could be released in the same pass. */
  more: boolean;
  /** The resources that runs wait for, by scope. */
  short: Map<string, Set<Resource>>;
  /** The mappings whose runs wait. */
  mappings: readonly string[];
}

interface ReleaserParts extends AdmissionDeps {
  /** Reads what is left of budgets. */
  findRoom(budgets: readonly Budget[]): Promise<Reservation[]>;
}

/** Releases parked runs while their limits have room: one of each mapping in turn, the oldest of each mapping first. */
export function createReleaser({
  usage,
  snapshot,
  findRoom,
}: ReleaserParts): () => Promise<Released> {
  /** The mapping that was served last comes last. */
  const served = new Map<string, number>();
  let turn = 0;

  const share = (
    lanes: readonly { mapping: string; budgets: readonly Budget[]; most: number }[],
    room: Room,
  ): Map<string, number> => {
    const counts = new Map<string, number>();
    let open = lanes.toSorted(
      (a, b) => (served.get(a.mapping) ?? 0) - (served.get(b.mapping) ?? 0),
    );
    for (let total = 0; total < MAX_RELEASED && open.length > 0;) {
      open = open.filter(
        ({ mapping, budgets, most }) => (counts.get(mapping) ?? 0) < most && room.isOpen(budgets),
      );
      for (const { mapping, budgets } of open) {
        if (total >= MAX_RELEASED || !room.isOpen(budgets)) break;
        counts.set(mapping, (counts.get(mapping) ?? 0) + 1);
        room.take(budgets, 1);
        served.set(mapping, ++turn);
        total++;
      }
    }
    return counts;
  };

  return async () => {
    const known = await usage.lanes();
    const lanes = known.lanes.map((lane) => {
      const budgets = snapshot().budgets.of(lane.mapping === "" ? undefined : lane.mapping);
      return { ...lane, budgets, most: Math.max(0, MAX_RELEASED - lane.released) };
    });
    const waiting = lanes.filter(({ waits }) => waits);
    if (waiting.length === 0) {
      served.clear();
      return { waits: known.parked > 0, more: false, short: new Map(), mappings: [] };
    }
    const budgets = [
      ...new Map(
        waiting.flatMap((lane) => lane.budgets.map((budget) => [budget.scope, budget])),
      ).values(),
    ];
    const room = new Room(budgets.length === 0 ? [] : await findRoom(budgets));
    for (const { budgets: of, released } of lanes) room.take(of, released);
    const wanted = [...share(waiting, room)].map(([mapping, count]) => ({ mapping, count }));
    const released = wanted.length === 0 ? [] : await usage.release(wanted);
    const total = released.reduce((sum, n) => sum + n, 0);
    const emptied = new Set(
      wanted.filter(({ count }, n) => (released[n] ?? 0) < count).map(({ mapping }) => mapping),
    );
    const left = waiting.filter(({ mapping }) => !emptied.has(mapping));
    const short = new Map<string, Set<Resource>>();
    for (const budget of left.flatMap((lane) => lane.budgets))
      short.set(budget.scope, new Set(room.findShort(budget)));
    // Of what a mapping has no more of, others may have.
    return {
      waits: true,
      more: total >= MAX_RELEASED || (emptied.size > 0 && left.length > 0),
      short,
      mappings: left.map(({ mapping }) => mapping),
    };
  };
}
