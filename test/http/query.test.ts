import { expect, it } from "vitest";
import { parseSince } from "../../src/http/admin/query.ts";

const now = Date.UTC(2026, 0, 31, 12);

it.each([
  ["90m", now - 5_400_000],
  ["2d", now - 172_800_000],
  ["2026-01-31T08:00:00Z", Date.UTC(2026, 0, 31, 8)],
  ["2026-01-31T08:00", Date.UTC(2026, 0, 31, 8)],
  ["2026-01-31", Date.UTC(2026, 0, 31)],
  ["2026-01-31T08:00+02:00", Date.UTC(2026, 0, 31, 6)],
  ["1769860800000", 1_769_860_800_000],
  ["2026", undefined],
  ["10", undefined],
  ["soon", undefined],
  ["", undefined],
])("`since`: %j is read as a duration or a time", (text, expected) =>
  expect(parseSince(text, now)).toBe(expected),
);
