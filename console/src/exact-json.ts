/** A number that would print in other characters than it was written in: `154284075601887489`, `19.90`. */
export class WrittenNumber {
  readonly source: string;

  constructor(source: string) {
    this.source = source;
  }

  toString(): string {
    return this.source;
  }
}

/** Returns whether a value has members. */
export const isNested = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !(value instanceof WrittenNumber);

/**
 * Parses JSON with its numbers as they are written. A browser that does not say how they are written gives plain numbers.
 * @throws SyntaxError if the text is not JSON
 */
export function parseExact(text: string): unknown {
  const revive = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" && context?.source !== undefined && context.source !== String(value)
      ? new WrittenNumber(context.source)
      : value;
  return JSON.parse(text, revive);
}
