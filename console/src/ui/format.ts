const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "numeric",
  minute: "2-digit",
});
const YEAR = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const NUMBER = new Intl.NumberFormat();
const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** In seconds: from then on the year says more than the hour. */
const HALF_A_YEAR = 15_768_000;

/** The time with date, seconds and the name of the reader's zone. */
export const exactTime = (iso: string): string => EXACT.format(new Date(iso));

/** The time relative to now: `now`, `12 s ago`, `in 3 min`; from a day on, the date. */
export function relativeTime(iso: string, now = Date.now()): string {
  const ms = now - Date.parse(iso);
  const seconds = Math.round(Math.abs(ms) / 1000);
  if (seconds < 1) return "now";
  const amount =
    seconds < 60
      ? `${seconds} s`
      : seconds < 3600
        ? `${Math.round(seconds / 60)} min`
        : seconds < 86_400
          ? `${Math.round(seconds / 3600)} h`
          : null;
  if (amount === null) return (seconds < HALF_A_YEAR ? DAY : YEAR).format(new Date(iso));
  return ms > 0 ? `${amount} ago` : `in ${amount}`;
}

/** The time of the day, `12:04:11`. */
export const clockTime = (iso: string): string => CLOCK.format(new Date(iso));

const HOUR = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const DATE = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "numeric",
});

/** A time as it stands under a chart that begins at `first`: with the date if the chart spans more than a day. */
export const axisTime = (iso: string, first: string): string =>
  (Date.now() - Date.parse(first) > 25 * 3_600_000 ? DATE : HOUR).format(new Date(iso));

/** A length of time in ms, such as `320 ms`, `4.2 s`, `3 min 20 s`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** The duration; `not ended` without an end. */
export const elapsed = (from: string, to: string | null | undefined): string =>
  to ? duration(Date.parse(to) - Date.parse(from)) : "not ended";

export const number = (value: number): string => NUMBER.format(value);
/** `1.2K`, for axes and counts in small places. */
export const shortNumber = (value: number): string => SHORT.format(value);

/** A size in bytes as `21 KB`. */
export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  return value < 1024 * 1024
    ? `${(value / 1024).toFixed(value < 10_240 ? 1 : 0)} KB`
    : `${(value / 1024 / 1024).toFixed(1)} MB`;
}

/** `1 event`, `2 events`; `show` renders the count. */
export const plural = (count: number, one: string, many = `${one}s`, show = number): string =>
  `${show(count)} ${count === 1 ? one : many}`;

/**
 * Text as it is safe to show: characters that are hidden or change the direction of text are shown by their code, so that
 * what came in cannot look like something else. The joiner between two pictures makes one of them, and hides nothing.
 */
export function visibleText(text: string): string {
  return text.replaceAll(
    /(?![\t\n]|(?<=\p{Extended_Pictographic}[\ufe0f\p{Emoji_Modifier}]*)\u200d\p{Extended_Pictographic})[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}
