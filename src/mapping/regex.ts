import { createRequire } from "node:module";
import type * as re2 from "re2js";

/** A regular expression whose time grows with the text's length alone. */
export interface LinearRegex {
  readonly source: string;
  test(text: string): boolean;
  /** The first match at or after `from`. */
  exec(
    text: string,
    from?: number,
  ): { match: string; start: number; end: number; groups: (string | undefined)[] } | null;
}

const require = createRequire(import.meta.url);
let library: typeof re2 | undefined;
/** Loaded when the first expression is compiled. */
const load = (): typeof re2 => (library ??= require("re2js") as typeof re2);

function toFlags(flags: string, RE2JS: typeof re2.RE2JS): number | undefined {
  let bits = 0;
  for (const flag of flags) {
    if (flag === "i") bits |= RE2JS.CASE_INSENSITIVE;
    else if (flag === "m") bits |= RE2JS.MULTILINE;
    else if (flag === "s") bits |= RE2JS.DOTALL;
    else if (flag !== "g" && flag !== "u") return undefined;
  }
  return bits;
}

/** The characters of `\s` in JavaScript. That of re2 lacks the non-breaking space and others. */
const SPACES = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff";

function withAllSpaces(source: string): string {
  let inClass = false;
  return source.replace(/\\[^]|[[\]]/g, (token) => {
    if (token === "[" || token === "]") inClass = token === "[";
    if (token === "\\s") return inClass ? SPACES : `[${SPACES}]`;
    return token === "\\S" && !inClass ? `[^${SPACES}]` : token;
  });
}

/** Compiles a pattern. Lookaround and backreferences need more than linear time and are refused. */
export function compileRegex(
  source: string,
  flags = "",
): { ok: true; regex: LinearRegex } | { ok: false; message: string } {
  const { RE2JS } = load();
  const bits = toFlags(flags, RE2JS);
  if (bits === undefined) return { ok: false, message: "use no other flags than i, m, s, g and u" };
  // Without what is escaped, as the `\\` of `\\10`, and without classes.
  const syntax = source.replace(/\\[^1-9k]|\[(?:\\[^]|[^\]\\])*\]/g, "");
  if (/\(\?(?:[=!]|<[=!])/.test(syntax))
    return {
      ok: false,
      message: "lookahead and lookbehind are not supported: their time has no bound",
    };
  if (/\\(?:[1-9]|k<)/.test(syntax))
    return { ok: false, message: "backreferences are not supported: their time has no bound" };
  let pattern: re2.RE2JS;
  try {
    pattern = RE2JS.compile(RE2JS.translateRegExp(withAllSpaces(source)), bits);
  } catch {
    return { ok: false, message: "is not a valid regular expression" };
  }
  return {
    ok: true,
    regex: {
      source,
      test: (text) => pattern.matcher(text).find(),
      exec(text, from = 0) {
        const matcher = pattern.matcher(text);
        if (from > text.length || !matcher.find(from)) return null;
        const groups: (string | undefined)[] = [];
        for (let i = 1; i <= matcher.groupCount(); i++) groups.push(matcher.group(i) ?? undefined);
        return { match: matcher.group() ?? "", start: matcher.start(), end: matcher.end(), groups };
      },
    },
  };
}

/** JSONata makes an engine of the same expression for every evaluation. */
const compiledByRegex = new WeakMap<RegExp, LinearRegex>();

/** The same for libraries that want something like `RegExp`: throws a SyntaxError on what is not linear. */
export class LinearRegExp {
  readonly source: string;
  readonly flags: string;
  readonly global: boolean;
  lastIndex: unknown = 0;
  readonly #regex: LinearRegex;

  constructor(source: string | RegExp, flags = "") {
    this.source = typeof source === "string" ? source : source.source;
    this.flags = typeof source === "string" ? flags : source.flags;
    this.global = this.flags.includes("g");
    const known = typeof source === "string" ? undefined : compiledByRegex.get(source);
    const compiled = known
      ? { ok: true as const, regex: known }
      : compileRegex(this.source, this.flags);
    if (!compiled.ok) throw new SyntaxError(compiled.message);
    this.#regex = compiled.regex;
    if (typeof source !== "string") compiledByRegex.set(source, compiled.regex);
  }

  test(text: string): boolean {
    return this.#regex.test(text);
  }

  /** Takes any value for text and for `lastIndex`, as `RegExp` does: JSONata calls it with what it was given. */
  exec(value: unknown): RegExpExecArray | null {
    const text = String(value);
    const from = this.global ? Math.max(0, Math.trunc(Number(this.lastIndex)) || 0) : 0;
    const found = this.#regex.exec(text, from);
    if (!found) {
      this.lastIndex = 0;
      return null;
    }
    if (this.global) this.lastIndex = found.end;
    return Object.assign([found.match, ...found.groups], {
      index: found.start,
      input: text,
      groups: undefined,
    }) as unknown as RegExpExecArray;
  }

  toString(): string {
    return `/${this.source}/${this.flags}`;
  }
}
