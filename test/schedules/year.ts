/** The schedules of a year in three time zones, and when they are due: worked out here from the offsets of the zones alone. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A time without a gateway. */
export interface Downtime {
  from: number;
  to: number;
}

interface Zone {
  name: string;
  /** When the offset from UTC changes, and what it is from then on, in minutes. */
  changes: readonly (readonly [at: string, minutes: number])[];
}

const BERLIN: Zone = {
  name: "Europe/Berlin",
  changes: [
    ["2025-10-26T01:00:00Z", 60],
    ["2026-03-29T01:00:00Z", 120],
    ["2026-10-25T01:00:00Z", 60],
  ],
};
const NEW_YORK: Zone = {
  name: "America/New_York",
  changes: [
    ["2025-11-02T06:00:00Z", -300],
    ["2026-03-08T07:00:00Z", -240],
    ["2026-11-01T06:00:00Z", -300],
  ],
};
const LORD_HOWE: Zone = {
  name: "Australia/Lord_Howe",
  changes: [
    ["2025-10-04T15:30:00Z", 660],
    ["2026-04-04T15:00:00Z", 630],
    ["2026-10-03T15:30:00Z", 660],
  ],
};

/** The moment of a local time: the first of two; the end of the gap for one that is skipped. `local` is the time as if in UTC. */
function toMoment({ changes }: Zone, local: number): number {
  for (const [index, [at, minutes]] of changes.entries()) {
    const from = Date.parse(at);
    const to = Date.parse(changes[index + 1]?.[0] ?? "2100-01-01T00:00:00Z");
    const moment = local - minutes * MINUTE;
    if (moment < from) return from;
    if (moment < to) return moment;
  }
  throw new Error("the zone has no such time");
}

interface YearSchedule {
  id: string;
  config: object;
  catchUp: "once" | "all" | "none";
  due(from: number, to: number): number[];
}

/** Each Sunday at some minutes of its day. */
function sundays(zone: Zone, minutes: readonly number[]): YearSchedule["due"] {
  return (from, to) => {
    const times = new Set<number>();
    for (let day = Math.floor(from / DAY) * DAY - DAY; day < to + DAY; day += DAY)
      if (new Date(day).getUTCDay() === 0)
        for (const minute of minutes) times.add(toMoment(zone, day + minute * MINUTE));
    return [...times].filter((time) => time > from && time <= to).toSorted((a, b) => a - b);
  };
}

export const YEAR: readonly YearSchedule[] = [
  {
    id: "berlin",
    config: { cron: "30 2 * * SUN", timezone: BERLIN.name, catchUp: "all" },
    catchUp: "all",
    due: sundays(BERLIN, [150]),
  },
  {
    id: "new-york",
    config: { cron: "30 1,2 * * SUN", timezone: NEW_YORK.name },
    catchUp: "once",
    due: sundays(NEW_YORK, [90, 150]),
  },
  {
    id: "lord-howe",
    config: { cron: "*/45 2 * * SUN", timezone: LORD_HOWE.name, catchUp: "none" },
    catchUp: "none",
    due: sundays(LORD_HOWE, [120, 165]),
  },
  {
    id: "steady",
    config: { every: "40h", catchUp: "all" },
    catchUp: "all",
    due: (from, to) =>
      Array.from(
        { length: Math.floor((to - from) / (40 * HOUR)) },
        (_, n) => from + (n + 1) * 40 * HOUR,
      ),
  },
  {
    id: "once",
    config: { at: "2026-03-29T02:30", timezone: BERLIN.name },
    catchUp: "once",
    due: (from, to) => [Date.parse("2026-03-29T01:00:00Z")].filter((at) => at > from && at <= to),
  },
];

export const getDue = (from: number, to: number): { id: string; at: number }[] =>
  YEAR.flatMap(({ id, due }) => due(from, to).map((at) => ({ id, at }))).toSorted(
    (a, b) => a.at - b.at,
  );

/** The due times that fire, and how many of each schedule are skipped. */
export function getExpected(from: number, to: number, downtimes: readonly Downtime[]) {
  const skipped = new Map<string, number>();
  const fired = YEAR.flatMap(({ id, catchUp, due }) => {
    const times = due(from, to);
    const isMissed = (time: number, down: Downtime): boolean => time > down.from && time <= down.to;
    const left = downtimes.flatMap((down) => {
      const missed = times.filter((time) => isMissed(time, down));
      return catchUp === "all" ? [] : catchUp === "once" ? missed.slice(0, -1) : missed;
    });
    skipped.set(id, left.length);
    return times
      .filter((time) => !left.includes(time))
      .map((time) => `${id} ${new Date(Math.floor(time / 1_000) * 1_000).toISOString()}`);
  });
  return { fired: fired.toSorted(), skipped };
}
