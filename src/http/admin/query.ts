import type { Context, Env, MiddlewareHandler, TypedResponse } from "hono";
import { z } from "zod";
import { parseDuration } from "../../config/schema/common.ts";
import type { Clock } from "../../core/clock.ts";
import { RouseError, type Issue } from "../../core/errors.ts";
import { firstIdOf } from "../../core/ids.ts";
import { decodePayload } from "../../core/http/payload.ts";
import { collectBytes } from "../../intake/body.ts";
import { bodySource } from "../transport.ts";

const MAX_LIMIT = 500;
/** The operator's requests carry little; the longest is a payload to try against the mappings. */
const LIMITS = { maxBytes: 32 * 2 ** 20, timeoutMs: 30_000 };

/**
 * A point in time: an age (`90m`, `2d`), a date in UTC (`2026-01-31`, `2026-01-31T08:00`) or in another zone that is written behind
 * it, or milliseconds since the epoch.
 * @returns milliseconds since the epoch, or undefined if it is none of them.
 */
export function parseSince(text: string, now: number): number | undefined {
  if (/^\d{11,}$/.test(text)) return Number(text);
  if (/^\d+(?:\.\d+)?\s*(?:ms|s|m|h|d)$/.test(text)) {
    const age = parseDuration(text);
    return age === undefined ? undefined : now - age;
  }
  const isWithoutZone = /[T ]\d\d:[\d:.]+$/.test(text);
  const at = /^\d{4}-\d\d/.test(text) ? Date.parse(isWithoutZone ? `${text}Z` : text) : NaN;
  return Number.isNaN(at) ? undefined : at;
}

/** The schema of a point in time; ages count back from the clock's time. */
export const since = (clock: Pick<Clock, "now">) =>
  z.string().transform((value, context) => {
    const at = parseSince(value.trim(), clock.now());
    if (at !== undefined) return at;
    context.addIssue({
      code: "custom",
      message: 'write an age such as "90m" or "2d", or a date such as "2026-01-31T08:00"',
    });
    return z.NEVER;
  });

const COUNT = `write a number from 1 to ${MAX_LIMIT}`;

/** The number of rows of a list. */
export const limit = z.coerce
  .number(COUNT)
  .int(COUNT)
  .min(1, COUNT)
  .max(MAX_LIMIT, COUNT)
  .default(50);

/** The parameters of every list. `before` is the id of the last row of the page before. */
export const page = (clock: Pick<Clock, "now">) => ({
  limit,
  before: z.string().min(1).optional(),
  idPrefix: z.string().min(1).optional(),
  since: since(clock).optional(),
});

/**
 * Turns the end of a span of time into the id below which its rows lie. With `before` the page before has ended below it
 * already.
 */
export function endAt<Q extends { before?: string | undefined; until?: number | undefined }>(
  prefix: "evt" | "run",
  { until, ...rest }: Q,
): Omit<Q, "until"> {
  return until === undefined || rest.before !== undefined
    ? rest
    : { ...rest, before: firstIdOf(prefix, until) };
}

/** `?failed`, `?failed=1`, `?failed=true`. */
export const flag = z
  .enum(["", "1", "true", "0", "false"])
  .transform((value) => value !== "0" && value !== "false");

function toIssues(error: z.ZodError, known: readonly string[]): Issue[] {
  return error.issues.flatMap((issue): Issue[] => {
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => ({
        path: key,
        message: `is not known here; use one of ${known.join(", ")}`,
      }));
    return [{ path: issue.path.join("."), message: issue.message }];
  });
}

function check<S extends z.ZodObject>(value: unknown, schema: S): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = toIssues(parsed.error, Object.keys(schema.shape));
  const [first] = issues;
  throw new RouseError({
    code: "usage",
    message: first ? `${first.path}: ${first.message}` : "the request is invalid",
    issues,
  });
}

async function readBody(c: Context): Promise<unknown> {
  const body = await collectBytes(bodySource(c), c.req.header("content-length"), LIMITS);
  if (!body.ok) throw new RouseError(body.failure);
  const parsed = decodePayload(body.bytes, { contentType: undefined, format: "json" });
  if (!parsed.ok) throw new RouseError(parsed.failure);
  return parsed.payload;
}

/** The query that a client gives: texts, and several of them for a parameter that may come several times. */
type QueryInput<T> = {
  [K in keyof T]: undefined extends T[K] ? string | string[] | undefined : string | string[];
};

type Checked<P extends string, Target extends string, In, Out> = MiddlewareHandler<
  Env,
  P,
  { in: Record<Target, In>; out: Record<Target, Out> }
>;

/**
 * Checks the query: `c.req.valid("query")` has its values. Unknown parameters are an error (`usage`), so that a wrong
 * filter never means "all".
 */
export function query<S extends z.ZodObject, P extends string>(
  schema: S,
): Checked<P, "query", QueryInput<z.input<S>>, z.output<S>> {
  return async (c, next) => {
    c.req.addValidatedData("query", check(c.req.query(), schema));
    await next();
  };
}

/** Checks a JSON body: `c.req.valid("json")` has its values. An empty body is `{}`. */
export function jsonBody<S extends z.ZodObject, P extends string>(
  schema: S,
): Checked<P, "json", z.input<S>, z.output<S>> {
  return async (c, next) => {
    c.req.addValidatedData("json", check(await readBody(c), schema));
    await next();
  };
}

/**
 * Answers `{ ok: true, … }` with what an operation returns, if anything. The type of the value is what the client reads: values
 * hold only what JSON can.
 */
export async function ok<T extends object | void>(
  c: Context,
  value: T | Promise<T>,
): Promise<TypedResponse<T extends object ? T : object, 200, "json">> {
  return c.json({ ok: true, ...(await value) }) as unknown as TypedResponse<
    T extends object ? T : object,
    200,
    "json"
  >;
}

/** Answers one JSON document a line, each made as it is read. */
export function answerLines(c: Context, source: AsyncIterable<object>): Response {
  const encoder = new TextEncoder();
  const iterator = source[Symbol.asyncIterator]();
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(`${JSON.stringify(value)}\n`));
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
  return c.body(stream, 200, { "content-type": "application/x-ndjson" });
}
