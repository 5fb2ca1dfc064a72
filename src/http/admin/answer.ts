import type { Context, TypedResponse } from "hono";
import type { Failure } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { failureResponse } from "../errors.ts";

/** Answers a failure of an admin route. */
export const failureAnswer = (c: Context, failure: Failure): Response =>
  failureResponse(c, failure, newId("req"));

/**
 * Answers `{ ok: true, … }` with what an operation returns, if anything. The type of the value is what the client reads: values
 * hold only what JSON can.
 */
export async function jsonAnswer<T extends object | void>(
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
