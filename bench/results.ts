/** Writes results to `bench/results.json` and as Markdown. docs/performance.md has its figures from there. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, totalmem } from "node:os";
import { join } from "node:path";
import { table } from "../scripts/options.ts";
import type { Row } from "./measure.ts";

/** The circumstances of a measurement: machine, time and commit. */
export interface Circumstances {
  date: string;
  /** With `-dirty` if what is measured had changes. */
  commit: string;
  cpus: number;
  cpuModel: string;
  memoryGb: number;
  node: string;
  /** Of the last 1, 5 and 15 minutes, before the first row: what else the machine had to do. */
  loadAverage: number[];
  /** The timing of rows, for those that have rounds. */
  rounds?: number;
  seconds?: number;
}

/** One run of a benchmark, with what it measured by section of the page. */
export interface Run extends Circumstances {
  sections: Record<string, Row[]>;
}

const ROOT = join(import.meta.dirname, "..");
const FILE = join(import.meta.dirname, "results.json");

export const readRuns = (): Run[] =>
  (JSON.parse(readFileSync(FILE, "utf8")) as { runs: Run[] }).runs;

/** The folders and files that decide what is measured. */
const MEASURED = [
  "bench",
  "bin",
  "console",
  "mappings",
  "package.json",
  "package-lock.json",
  "plugins",
  "src",
];

const git = (...args: string[]): string =>
  execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();

export function getCircumstances(): Circumstances {
  const changed = git("status", "--porcelain", "--", ...MEASURED, ":!bench/results.json");
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: git("rev-parse", "--short", "HEAD") + (changed === "" ? "" : "-dirty"),
    cpus: cpus().length,
    cpuModel: cpus()[0]?.model ?? "unknown",
    memoryGb: Math.round(totalmem() / 2 ** 30),
    node: process.versions.node,
    loadAverage: loadavg().map((load) => Number(load.toFixed(1))),
  };
}

/** Puts the sections of a run in the place of what was measured of them before. */
export function writeRun(run: Run): void {
  if (Object.keys(run.sections).length === 0) return;
  const runs = readRuns().map(({ sections, ...rest }) => ({
    ...rest,
    sections: Object.fromEntries(
      Object.entries(sections).filter(([name]) => !(name in run.sections)),
    ),
  }));
  const kept = runs.filter(({ sections }) => Object.keys(sections).length > 0);
  writeFileSync(FILE, `${JSON.stringify({ runs: [...kept, run] }, null, 2)}\n`);
}

const renderDate = (date: string): string =>
  new Date(date).toLocaleDateString("en-GB", {
    day: "numeric",
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });

export const renderMachine = (run: Circumstances): string =>
  `${run.cpus} × ${run.cpuModel}, ${run.memoryGb} GB, Node ${run.node}`;

export function renderCircumstances({
  date,
  commit,
  cpus: count,
  loadAverage: [load = 0],
  rounds,
  seconds,
}: Circumstances): string {
  const busy = load > count / 2 ? " (busy with other work)" : "";
  const how =
    rounds === undefined
      ? ""
      : `, ${rounds} rounds${seconds === undefined ? "" : ` of ${seconds} s`}`;
  return `${renderDate(date)}, commit \`${commit}\`, load average before ${load.toFixed(1)}${busy}${how}`;
}

function renderValue({ value, unit }: Row): string {
  const digits = unit === undefined || unit === "s" ? 2 : unit === "ms" && value < 10 ? 1 : 0;
  return `${value.toFixed(digits)}${unit === undefined ? "" : ` ${unit}`}`;
}

const renderPair = (pair: readonly (number | undefined)[] = [], digits = 0): string =>
  pair.flatMap((one) => (one === undefined ? [] : [one.toFixed(digits)])).join(" / ");

/** Rows as a table, without the columns that none of them has, and their notes below it. */
export function renderRows(rows: readonly Row[]): string {
  const echoes = rows.every(({ plain }) => plain !== undefined);
  const columns: [head: string, read: (row: Row) => string][] = [
    ["row", ({ row }) => row],
    ["connections", ({ connections }) => String(connections ?? "")],
    [echoes ? "of the durable echo" : "measured", renderValue],
    ["of the plain echo", ({ plain }) => plain?.toFixed(2) ?? ""],
    ["CPU µs", ({ cpuMicros }) => renderPair(cpuMicros)],
    ["p99 ms", ({ p99 }) => renderPair(p99, 1)],
    // Hardly ever does a request fail.
    ["failed", ({ errors = 0 }) => (errors === 0 ? "" : String(errors))],
  ];
  const shown = columns.filter(([, read]) => rows.some((row) => read(row) !== ""));
  const notes = rows.flatMap(({ row, note }) => (note === undefined ? [] : [`- ${row}: ${note}`]));
  const lines = table([
    shown.map(([head]) => head),
    ...rows.map((row) => shown.map(([, read]) => read(row))),
  ]);
  return notes.length === 0 ? lines : `${lines}\n\n${[...new Set(notes)].join("\n")}`;
}
