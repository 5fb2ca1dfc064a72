import { oneLine, renderSpan } from "../core/text.ts";

// Control characters, and those that change the direction of text: a hook's text must not steer the terminal, nor look like other text.
const CONTROL =
  // oxlint-disable-next-line no-control-regex -- control characters are what goes
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Extended_Pictographic}/u;
const NARROW = /[\p{Mark}\p{Format}]/u;

/** Text of unknown origin in a form that a terminal only shows: line breaks and tabs stay, all other controls go. Every command's output passes here. */
export function printable(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(CONTROL, "");
}

/** One JSON document whose texts a terminal only shows: what `printable` removes stands there as an escape. */
export function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    CONTROL,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The same on one line. */
export function cell(text: string): string {
  return printable(oneLine(text));
}

function charWidth(char: string): number {
  if (NARROW.test(char)) return 0;
  return WIDE.test(char) ? 2 : 1;
}

/** Columns that a text takes in a terminal. */
export function width(text: string): number {
  // oxlint-disable-next-line no-control-regex -- plain ASCII has as many columns as characters
  if (/^[\u0020-\u007e]*$/.test(text)) return text.length;
  let columns = 0;
  for (const char of text) columns += charWidth(char);
  return columns;
}

/** Cuts at so many columns, with an ellipsis. */
export function fit(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  let kept = "";
  let used = 0;
  for (const char of text) {
    used += charWidth(char);
    if (used > columns - 1) break;
    kept += char;
  }
  return `${kept}…`;
}

const two = (value: number): string => String(value).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** A local time, short: `14:03:22` today, `Nov 20 14:03` this year, else `2025-11-20`. `–` for none. */
export function shortTime(iso: string | null, now: number): string {
  if (iso === null) return "–";
  const at = new Date(iso);
  const today = new Date(now);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (at.toDateString() === today.toDateString()) return `${clock}:${two(at.getSeconds())}`;
  if (at.getFullYear() === today.getFullYear())
    return `${MONTHS[at.getMonth()]} ${two(at.getDate())} ${clock}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** A local time in full: `2025-11-20 14:03:22`. */
export function localTime(time: string | number): string {
  const at = new Date(time);
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  return `${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":")}`;
}

/** A time in a zone, to the minute: `2025-11-20 14:03`. `–` for none. */
export function zonedTime(iso: string | null, timeZone: string): string {
  if (iso === null) return "–";
  const date = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
  return new Intl.DateTimeFormat("sv-SE", {
    ...date,
    hour: "2-digit",
    minute: "2-digit",
    timeZone,
  }).format(new Date(iso));
}

/** The zone of local times. */
export const localZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** `1.4 s`, `3 min`, `2 h`: the time between two points, or `–`. */
export function renderDuration(from: string | null, to: string | null): string {
  if (from === null || to === null) return "–";
  return renderSpan((Date.parse(to) - Date.parse(from)) / 1000);
}

/** `12.3 MB`. */
export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

/** A word as a shell takes it whole, whatever is in it. */
export function shellWord(text: string): string {
  return /^[\w.:/@=-]+$/.test(text) ? text : `'${printable(text).replaceAll("'", `'\\''`)}'`;
}

/** `$1.23`, `unknown`, or `$1.23 + unknown` if the price of a part is unknown. */
export function renderCost(costUsd: number | null | undefined, unpricedRuns = 0): string {
  if (costUsd === null || costUsd === undefined) return unpricedRuns > 0 ? "unknown" : "–";
  const digits = costUsd === 0 || costUsd >= 1 ? 2 : 4;
  return `$${costUsd.toFixed(digits)}${unpricedRuns > 0 ? " + unknown" : ""}`;
}

/** Digits of a bar, from none to the most of the line. */
const BARS = "▁▂▃▄▅▆▇█";

/** Draws counts as one character each. */
export function renderSpark(values: readonly number[]): string {
  const most = Math.max(1, ...values);
  return values
    .map((value) => (value === 0 ? "·" : BARS[Math.ceil((value / most) * (BARS.length - 1))]))
    .join("");
}
