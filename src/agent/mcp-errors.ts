/** Whether a status says that the server does not know the session: a server that was restarted answers 404, or 400. */
export const isGone = (status: number): boolean => status === 404 || status === 400;

/** Codes of errors before a connection was established: nothing was sent. */
const NOT_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  "ENOENT",
  "EACCES",
  "NOT_CONNECTED",
]);

interface Details {
  code?: unknown;
  status?: unknown;
  cause?: unknown;
  message: string;
}

/** The older transport has the status only in its message. */
function getStatus({ status, message }: Details): number | undefined {
  if (typeof status === "number") return status;
  const found = /\(HTTP (\d{3})\)/.exec(message)?.[1];
  return found === undefined ? undefined : Number(found);
}

function getCode(error: unknown): string | undefined {
  const { code, cause, message } = error as Details;
  if (typeof code === "string") return code;
  if (message === "Not connected") return "NOT_CONNECTED";
  return cause instanceof Error ? getCode(cause) : undefined;
}

/** Whether a request failed before it was sent. */
export const isNotSent = (error: unknown): boolean =>
  error instanceof Error && NOT_SENT.has(getCode(error) ?? "");

/** Whether a call may have been carried out although it failed with this error. */
export function isOutcomeUnknown(error: unknown): boolean {
  if (!(error instanceof Error)) return true;
  const status = getStatus(error);
  // A server that answers 503 has rejected the request.
  if (status !== undefined) return status >= 500 && status !== 503;
  const code = getCode(error);
  if (code === "CONNECTION_CLOSED" || code === "REQUEST_TIMEOUT" || code === "SEND_FAILED")
    return true;
  return error instanceof TypeError && !isNotSent(error);
}

/** Describes for the operator why a server cannot be reached. Quotes no text of the server. */
export function describeProblem(error: unknown): string {
  if (error instanceof Response) return `the session is gone (HTTP ${error.status})`;
  if (!(error instanceof Error)) return "it cannot be reached";
  const status = getStatus(error);
  if (status !== undefined)
    return status === 401 || status === 403
      ? `it refuses the credentials (HTTP ${status})`
      : `HTTP ${status}`;
  const code = getCode(error);
  if (code === "ENOENT") return "its program or its folder does not exist (ENOENT)";
  if (code === "REQUEST_TIMEOUT" || error.name === "TimeoutError")
    return "it did not answer in time";
  if (code === "CONNECTION_CLOSED" || error.message === "closed")
    return "the connection was closed, or the program ended";
  return code === undefined
    ? "it does not speak MCP as expected"
    : `it cannot be reached (${code.slice(0, 60)})`;
}
