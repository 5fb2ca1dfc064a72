import type { Endpoint } from "../../config/endpoints.ts";
import { MAX_RETRY_AFTER_MS, type CallOutcome } from "../../core/breaker.ts";
import { RouseError } from "../../core/errors.ts";
import { getHeaderWait } from "../../core/http/retry-after.ts";
import { toWellFormed } from "../../core/text.ts";

/** Errors of the account or of the moment: they say nothing about the request. */
const NOT_THE_REQUEST = new Set([401, 402, 403, 404, 405, 407, 408, 409, 425, 429]);

/** An endpoint gave no usable answer. */
export class EndpointError extends RouseError {
  /** The outcome of the failed call for the endpoint's breaker. */
  readonly outcome: CallOutcome;
  /** True if the endpoint refuses this very request: another attempt would be refused, too. */
  readonly isRefused: boolean;
  readonly #headers: Record<string, string>;

  constructor(
    message: string,
    outcome: CallOutcome,
    {
      headers = {},
      isRefused = false,
      cause,
    }: { headers?: Record<string, string>; isRefused?: boolean; cause?: unknown } = {},
  ) {
    super({ code: "internal", message }, { cause });
    this.outcome = outcome;
    this.isRefused = isRefused;
    this.#headers = headers;
  }

  /** Returns the wait that the endpoint asks for, in milliseconds; 0 if it asks for none. */
  getRetryAfterMs(now: number): number {
    return Math.min(getHeaderWait(this.#headers, now) ?? 0, MAX_RETRY_AFTER_MS);
  }
}

/** The options of a request besides its body. */
export interface EndpointCall extends Omit<Endpoint, "headers"> {
  headers?: Record<string, string>;
  fetch: typeof fetch;
  /** The name of the endpoint in messages: "the embedding endpoint". */
  title: string;
}

async function readText(response: Response, maxBytes: number, title: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.byteLength;
    if (bytes > maxBytes)
      throw new EndpointError(`${title} answered with more than ${maxBytes} bytes`, "answered");
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

/** Advice after an error that names a reason. */
const ADVICE: Readonly<Record<number, string>> = {
  401: ": check the provider's key",
  403: ": check the provider's key, and what it may do",
  404: ": check the provider's address, and the name of the model",
  429: ": it is asked too often",
};

function toStatusError(response: Response, title: string): EndpointError {
  const { status, headers } = response;
  const outcome = status === 429 ? "busy" : status >= 500 || status === 408 ? "away" : "answered";
  const isRefused = status >= 400 && status < 500 && !NOT_THE_REQUEST.has(status);
  return new EndpointError(`${title} answered ${status}${ADVICE[status] ?? ""}`, outcome, {
    headers: Object.fromEntries(headers),
    isRefused,
  });
}

/**
 * Posts JSON to a method of an endpoint (`/embeddings`) and reads the answer, at most `maxBytes` of it.
 * @throws EndpointError if there is no answer, or one that is an error, too long or not JSON.
 */
export async function postJson(
  { baseUrl, apiKey, headers = {}, fetch: request, title }: EndpointCall,
  path: string,
  body: unknown,
  { signal, maxBytes }: { signal: AbortSignal; maxBytes: number },
): Promise<unknown> {
  try {
    const response = await request(`${baseUrl.replace(/\/+$/, "")}${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        ...headers,
      },
      body: JSON.stringify(toWellFormed(body)),
      signal,
    });
    if (response.ok) return JSON.parse(await readText(response, maxBytes, title));
    await response.body?.cancel();
    throw toStatusError(response, title);
  } catch (error) {
    if (error instanceof EndpointError) throw error;
    if (error instanceof SyntaxError)
      throw new EndpointError(`${title} answered with something else than JSON`, "answered", {
        cause: error,
      });
    const isTimeout =
      signal.aborted && (signal.reason as { name?: unknown } | undefined)?.name === "TimeoutError";
    if (signal.aborted && !isTimeout)
      throw new EndpointError(`${title} was not asked to the end`, "none", { cause: error });
    const message = isTimeout
      ? `${title} gave no answer in time`
      : `${title} cannot be reached: check its address, and whether it runs`;
    throw new EndpointError(message, "away", { cause: error });
  }
}
