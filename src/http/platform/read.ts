import { RouseError } from "../../core/errors.ts";
import type { Context } from "hono";
import type { z } from "zod";
import type { BodyLimits } from "../../core/http/body.ts";
import { collectBytes } from "../../intake/body.ts";
import { roundNumbers } from "../../core/json.ts";
import { decodePayload } from "../../core/http/payload.ts";
import { bodySource } from "../transport.ts";
import { badRequest, ProblemError, toProblem } from "./problems.ts";
import type { Snapshot } from "../../intake/types.ts";

type ZodIssue = z.core.$ZodIssue;

/** `messages[0].content[1].type`, as the official errors write it. */
function toParam(path: readonly PropertyKey[]): string | null {
  const names = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`));
  return names.join("").replace(/^\./, "") || null;
}

/** The innermost problem: of the forms that a field may have, the one that came farthest. */
function deepest(
  issue: ZodIssue,
  path: readonly PropertyKey[] = [],
): { issue: ZodIssue; path: readonly PropertyKey[] } {
  const full = [...path, ...issue.path];
  if (issue.code !== "invalid_union" || issue.errors.length === 0) return { issue, path: full };
  const inner = issue.errors.flatMap((issues) =>
    issues.slice(0, 1).map((found) => deepest(found, full)),
  );
  return inner.reduce(
    (best, next) => (next.path.length > best.path.length ? next : best),
    inner[0] ?? { issue, path: full },
  );
}

/** Describes the problem of a body, by the field that its sender has to change. */
function bodyProblem(error: z.ZodError): ReturnType<typeof badRequest> {
  const { issue, path } = deepest(error.issues[0] as ZodIssue);
  const param = toParam(path);
  // A part of a kind that Rouse does not read.
  const isContent = issue.code === "invalid_union" && /content\[\d+\]\.type$/.test(param ?? "");
  const code: unknown = isContent
    ? "unsupported_content"
    : issue.code === "custom"
      ? issue.params?.["code"]
      : undefined;
  if (typeof code === "string") return badRequest(param, `${param}: ${issue.message}`, code);
  return badRequest(param, param === null ? issue.message : `${param}: ${issue.message}`);
}

/** Leaves out what is null or not there, since both mean that a field was not sent. */
export const withoutNullish = <T extends object>(fields: T) =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as { [K in keyof T]?: NonNullable<T[K]> };

const JSON_TYPE = /^(?:application\/(?:[\w.+-]+\+)?json|text\/json)$/;

/** Reads a JSON body. Without a content type it is JSON; with another one it is refused. @throws ProblemError */
export async function readJson(
  c: Context,
  options: Pick<BodyLimits, "maxBytes" | "timeoutMs"> & { takesForms?: boolean | undefined },
): Promise<{ bytes: Buffer; value: unknown }> {
  const type = (c.req.header("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const encoding = c.req.header("content-encoding") ?? "identity";
  if ((type !== "" && !JSON_TYPE.test(type)) || encoding !== "identity") {
    const form = options.takesForms ? ", or a form as multipart/form-data" : "";
    const message = `send JSON, with the content type application/json or none${form}, and not compressed`;
    throw new RouseError({ code: "unsupported_media_type", message });
  }
  const read = await collectBytes(bodySource(c), c.req.header("content-length"), options);
  if (!read.ok) {
    const message =
      read.failure.code === "body_too_large"
        ? `the body has more than ${options.maxBytes} bytes`
        : "the body did not arrive whole and in time";
    // The rest of the body would stand before the next request on this connection.
    const headers = { connection: "close" };
    const problem = toProblem({ ...read.failure, message });
    throw new ProblemError({ ...problem, shouldRetry: false, headers });
  }
  const contentType = c.req.header("content-type");
  const parsed = decodePayload(read.bytes, { contentType, format: "json" });
  if (!parsed.ok) throw new RouseError(parsed.failure);
  if (
    read.bytes.length === 0 ||
    typeof parsed.payload !== "object" ||
    parsed.payload === null ||
    Array.isArray(parsed.payload)
  )
    throw badRequest(null, "the body must be a JSON object", "invalid_json");
  return { bytes: read.bytes, value: parsed.payload };
}

/** Members of a body that have a JSON schema, which the model gets as it was written. */
const SCHEMAS = ["parameters", "schema"];

/**
 * Reads a JSON body and checks it. By default a caller's numbers are numbers; with `numbers: "exact"` those that a number
 * cannot hold are the text of their digits.
 * @throws ProblemError
 */
export async function readCheckedBody<S extends z.ZodType>(
  c: Context,
  { config: { platform, hooks } }: Snapshot,
  schema: S,
  { numbers = "rounded", takesForms }: { numbers?: "rounded" | "exact"; takesForms?: boolean } = {},
): Promise<{ bytes: Buffer; body: z.output<S> }> {
  const limits = { maxBytes: platform.maxBodyBytes, timeoutMs: hooks.bodyTimeoutSeconds * 1000 };
  const { bytes, value } = await readJson(c, { ...limits, takesForms });
  return { bytes, body: check(schema, numbers === "exact" ? value : roundNumbers(value, SCHEMAS)) };
}

/**
 * Checks what was sent.
 * @throws ProblemError
 */
export function check<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw bodyProblem(parsed.error);
}
