import { usage } from "./failure.ts";

const SECONDS = { s: 1, m: 60, h: 3600 };

/** Reads a number from 1. */
export function readCount(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw usage(`--${name} ${text}: write a number from 1`);
  return Number(text);
}

/** Reads `5/s`, `30/m` or `100/h` as a number for a second. */
export function readRate(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, count, unit = "s"] = /^(\d+(?:\.\d+)?)(?:\/([smh]))?$/.exec(text.trim()) ?? [];
  if (count === undefined || Number(count) === 0)
    throw usage(`--rate ${text}: write how many in a second, a minute or an hour, such as 5/s`);
  return Number(count) / SECONDS[unit as keyof typeof SECONDS];
}
