import { readFileSync } from "node:fs";

function read(): string {
  // The built package lies one folder deeper than the sources.
  for (const up of ["../..", "../../.."]) {
    try {
      const found = JSON.parse(
        readFileSync(new URL(`${up}/package.json`, import.meta.url), "utf8"),
      ) as { name?: string; version?: string };
      if (found.name === "rouse" && found.version) return found.version;
    } catch {
      // Not there: one folder further up.
    }
  }
  return "0";
}

/** The version of the installed package. */
export const VERSION = read();
