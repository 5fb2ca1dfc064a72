import {
  retryAfter,
  classifyResponse,
  ChannelError,
  type ErrorResponse,
  type ErrorRules,
} from "./errors.ts";
import { parseObject } from "./kit.ts";

/** An API that takes and gives JSON. */
export interface Rest extends ErrorRules {
  fetch: typeof fetch;
  /** What every path stands behind. */
  base: string;
  headers?: Readonly<Record<string, string>>;
  /** Behind every path, as a secret in the query. */
  query?: string;
  /** What the body of an error says: the vendor's code, a wait where `Retry-After` names none, whether it may pass. */
  read?(body: unknown, response: Response): Omit<ErrorResponse, "status">;
}

/**
 * Calls an API: a GET, or with a body a POST of it as JSON, or as a form if it is one, or another method; a DELETE has no body. Returns the body of a 2xx, or undefined if it is not a
 * JSON object. Throws a `ChannelError` for any other status and the platform's error if the connection ended; neither quotes
 * an address or a body. Redirects are not followed: they would take the credential and the text along.
 */
export function createRest(
  rest: Rest,
): <T>(
  path: string,
  signal: AbortSignal,
  body?: object,
  headers?: Record<string, string>,
  method?: string,
) => Promise<T | undefined> {
  const { fetch, base, query = "", read } = rest;
  return async <T>(
    path: string,
    signal: AbortSignal,
    body?: object,
    headers: Record<string, string> = {},
    method = "POST",
  ) => {
    const isForm = body instanceof FormData;
    const content = body
      ? { method, body: isForm ? body : JSON.stringify(body) }
      : method === "DELETE" && { method };
    const response = await fetch(`${base.replace(/\/+$/, "")}/${path}${query}`, {
      ...content,
      headers: {
        ...(body && !isForm && { "content-type": "application/json" }),
        ...rest.headers,
        ...headers,
      },
      redirect: "manual",
      signal,
    });
    const answer = parseObject(await response.text());
    if (response.ok) return answer as T | undefined;
    const said = read?.(answer ?? {}, response);
    const failed = {
      ...said,
      afterMs: retryAfter(response.headers) ?? said?.afterMs,
      status: response.status,
    };
    throw new ChannelError(classifyResponse(rest, failed), failed);
  };
}
