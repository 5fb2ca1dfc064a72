import { GuardError } from "./values.ts";

/**
 * Currencies whose smallest unit is not a hundredth (ISO 4217), by how many decimals they have. `Intl` has the decimals of
 * everyday prices instead, which are fewer: none for HUF, IDR or COP.
 */
const CURRENCIES: readonly [decimals: number, codes: string][] = [
  [0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"],
  [3, "BHD IQD JOD KWD LYD OMR TND"],
  [4, "CLF UYW"],
];
const DECIMALS = new Map(CURRENCIES.flatMap(([decimals, codes]) => codes.split(" ").map((code) => [code, decimals])));
const MAX_DECIMALS = 18;

const isMissing = (value: unknown): boolean => value === undefined || value === null || value === "";

/** The decimals of a currency: those of `exceptions`, else those of ISO 4217. */
function getDecimals(code: string, exceptions: Record<string, unknown>): number {
  const decimals = Object.hasOwn(exceptions, code) ? exceptions[code] : (DECIMALS.get(code) ?? 2);
  if (Number.isInteger(decimals) && Number(decimals) >= 0 && Number(decimals) <= MAX_DECIMALS) return Number(decimals);
  throw new GuardError(`gives $formatMoney decimals that are not a whole number from 0 to ${MAX_DECIMALS}`);
}

/**
 * Writes an amount of a currency's smallest unit, such as 2200 cents, as `22.00 EUR`; undefined without an amount or a
 * currency. Works on the digits, so that no amount is rounded.
 * @param exceptions decimals by upper-case code, for senders that differ from ISO 4217
 */
export function formatMoney(minorUnits: unknown, currency: unknown, exceptions: unknown): string | undefined {
  if (isMissing(minorUnits) || isMissing(currency)) return undefined;
  const amount = Number.isSafeInteger(minorUnits) ? String(minorUnits) : minorUnits;
  const [, sign, digits] = (typeof amount === "string" && /^(-?)(\d+)$/.exec(amount)) || [];
  if (digits === undefined) throw new GuardError("gives $formatMoney an amount that is not a whole number");
  if (typeof currency !== "string") throw new GuardError("gives $formatMoney a currency that is not text");
  const code = currency.toUpperCase();
  const decimals = getDecimals(code, (exceptions ?? {}) as Record<string, unknown>);
  const padded = digits.padStart(decimals + 1, "0");
  const whole = padded.slice(0, padded.length - decimals);
  return `${sign}${whole}${decimals > 0 ? `.${padded.slice(-decimals)}` : ""} ${code}`;
}
