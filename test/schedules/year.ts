/** The schedules of a year, and when they are due. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** A time without a gateway. */
export interface Downtime {
  from: number;
  to: number;
}

interface YearSchedule {
  id: string;
  config: object;
  catchUp: "once" | "all" | "none";
  due(from: number, to: number): number[];
}

/** Each Sunday at some minutes of its day. */
const sundays =
  (minutes: readonly number[]): YearSchedule["due"] =>
  (from, to) => {
    const times: number[] = [];
    for (let day = Math.floor(from / DAY) * DAY; day <= to; day += DAY)
      if (new Date(day).getUTCDay() === 0) times.push(...minutes.map((n) => day + n * MINUTE));
    return times.filter((time) => time > from && time <= to);
  };

export const YEAR: readonly YearSchedule[] = [
  {
    id: "last",
    config: { cron: "30 1,2 * * SUN" },
    catchUp: "once",
    due: sundays([90, 150]),
  },
  {
    id: "punctual",
    config: { cron: "*/45 2 * * SUN", catchUp: "none" },
    catchUp: "none",
    due: sundays([120, 165]),
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
