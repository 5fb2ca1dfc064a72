import { createRequire } from "node:module";
import type * as re2 from "re2js";

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

/** Compiles a pattern. Throws a SyntaxError for lookaround and backreferences, which need more than linear time. */
function compilePattern(source: string, flags: string): re2.RE2JS {
  const { RE2JS } = load();
  const bits = toFlags(flags, RE2JS);
  if (bits === undefined) throw new SyntaxError("use no other flags than i, m, s, g and u");
  // Without what is escaped, as the `\\` of `\\10`, and without classes.
  const syntax = source.replace(/\\[^1-9k]|\[(?:\\[^]|[^\]\\])*\]/g, "");
  if (/\(\?(?:[=!]|<[=!])/.test(syntax))
    throw new SyntaxError("lookahead and lookbehind are not supported: their time has no bound");
  if (/\\(?:[1-9]|k<)/.test(syntax))
    throw new SyntaxError("backreferences are not supported: their time has no bound");
  try {
    return RE2JS.compile(RE2JS.translateRegExp(withAllSpaces(source)), bits);
  } catch {
    throw new SyntaxError("is not a valid regular expression");
  }
}

/** JSONata makes an engine of the same expression for every evaluation. */
const patterns = new WeakMap<RegExp, re2.RE2JS>();

/** A regular expression whose time grows with the text's length alone, for libraries that want something like `RegExp`. */
export class LinearRegExp {
  readonly source: string;
  readonly flags: string;
  readonly global: boolean;
  lastIndex: unknown = 0;
  readonly #pattern: re2.RE2JS;

  /** @throws SyntaxError if the pattern is not linear. */
  constructor(source: string | RegExp, flags = "") {
    this.source = typeof source === "string" ? source : source.source;
    this.flags = typeof source === "string" ? flags : source.flags;
    this.global = this.flags.includes("g");
    const known = typeof source === "string" ? undefined : patterns.get(source);
    this.#pattern = known ?? compilePattern(this.source, this.flags);
    if (typeof source !== "string") patterns.set(source, this.#pattern);
  }

  test(text: string): boolean {
    return this.#pattern.matcher(text).find();
  }

  /** Takes any value for text and for `lastIndex`, as `RegExp` does: JSONata calls it with what it was given. */
  exec(value: unknown): RegExpExecArray | null {
    const text = String(value);
    const from = this.global ? Math.max(0, Math.trunc(Number(this.lastIndex)) || 0) : 0;
    const matcher = this.#pattern.matcher(text);
    if (from > text.length || !matcher.find(from)) {
      this.lastIndex = 0;
      return null;
    }
    if (this.global) this.lastIndex = matcher.end();
    const groups = Array.from(
      { length: matcher.groupCount() },
      (_, index) => matcher.group(index + 1) ?? undefined,
    );
    return Object.assign([matcher.group() ?? "", ...groups], {
      index: matcher.start(),
      input: text,
      groups: undefined,
    }) as unknown as RegExpExecArray;
  }

  toString(): string {
    return `/${this.source}/${this.flags}`;
  }
}

/** Compiles an operator's pattern, or says what is wrong with it. */
export function compileRegex(
  source: string,
  flags = "",
): { ok: true; regex: LinearRegExp } | { ok: false; message: string } {
  try {
    return { ok: true, regex: new LinearRegExp(source, flags) };
  } catch (error) {
    return { ok: false, message: (error as SyntaxError).message };
  }
}
