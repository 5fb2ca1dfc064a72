import type * as Numfmt from "numfmt";
import { optional } from "./types.ts";

/** The number formats that a workbook does not write out (ECMA-376 part 1, 18.8.30). */
const BUILT_IN: Readonly<Record<number, string>> = {
  1: "0",
  2: "0.00",
  3: "#,##0",
  4: "#,##0.00",
  9: "0%",
  10: "0.00%",
  11: "0.00E+00",
  12: "# ?/?",
  13: "# ??/??",
  // Each program shows these in the order of its own country.
  14: "yyyy-mm-dd",
  15: "d-mmm-yy",
  16: "d-mmm",
  17: "mmm-yy",
  18: "h:mm AM/PM",
  19: "h:mm:ss AM/PM",
  20: "h:mm",
  21: "h:mm:ss",
  22: "yyyy-mm-dd h:mm",
  37: "#,##0;(#,##0)",
  38: "#,##0;(#,##0)",
  39: "#,##0.00;(#,##0.00)",
  40: "#,##0.00;(#,##0.00)",
  45: "mm:ss",
  46: "[h]:mm:ss",
  47: "mm:ss.0",
  48: "##0.0E+0",
};
/** The format with an id that a workbook does not write out. There are some for dates in East Asian languages. */
export const getBuiltInFormat = (id: number): string | undefined =>
  (id >= 27 && id <= 36) || (id >= 50 && id <= 58) ? "yyyy-mm-dd" : BUILT_IN[id];

/** As many digits as a workbook keeps of a number. */
const PRECISION = 15;
/** Days between the first days of the two calendars of workbooks. */
const DAYS_TO_1904 = 1462;

/** Renders a number in a format as people see it. */
export type RenderNumber = (value: number, format?: string) => string;

/** Creates what renders a number in a format, which may be invalid: percentages, currencies, dates. */
export async function loadNumberFormat(is1904: boolean): Promise<RenderNumber> {
  const numfmt: typeof Numfmt = await optional("numfmt", () => import("numfmt"));
  const known = new Map<string, { pattern: string; isDate: boolean }>();
  const getFormat = (written: string): { pattern: string; isDate: boolean } => {
    let format = known.get(written);
    if (!format) {
      const pattern = numfmt.isValidFormat(written) ? written : "General";
      known.set(written, (format = { pattern, isDate: numfmt.isDateFormat(pattern) }));
    }
    return format;
  };
  return (value, written = "General") => {
    const { pattern, isDate } = getFormat(written);
    // Programs shorten long numbers to the width of the cell; people look for all digits.
    if (pattern === "General") return String(Number(value.toPrecision(PRECISION)));
    const shown = numfmt.format(pattern, isDate && is1904 ? value + DAYS_TO_1904 : value, {
      throws: false,
    });
    // A date before the calendar shows as hash signs, and a format may hide the value.
    return /^#*$/.test(shown.trim()) ? String(value) : shown;
  };
}
