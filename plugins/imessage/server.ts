import { neverConnected } from "#plugin";
/** A BlueBubbles server, as both directions reach it. */
export interface Server {
  url: string;
  password: string;
  fetch: typeof fetch;
  now(): number;
}

/** The envelope of every answer. The error's text stands in `error` by the manual, in `message` by the server's source. */
export interface Answer {
  status: number;
  /** What a proxy in between asks for. */
  retryAfterMs: number | undefined;
  /** Undefined where the answer was not the server's JSON. */
  body: { data?: unknown; error?: { type?: string; error?: string; message?: string } } | undefined;
}

/** A request that got no answer. Carries the code alone: messages quote the address, and the password is in it. */
export class NoAnswer extends Error {
  readonly code: string;
  /** Whether the request may have got there. */
  readonly written: boolean;

  constructor(code: string) {
    super(code);
    this.name = "NoAnswer";
    this.code = code;
    this.written = !neverConnected(code);
  }
}

/** Calls the server; `body` makes it a POST. Throws nothing but `NoAnswer`. */
export async function call({ url, password, fetch }: Server, path: string, signal: AbortSignal, body?: object): Promise<Answer> {
  try {
    const response = await fetch(`${url}/api/v1/${path}?password=${encodeURIComponent(password)}`, {
      ...(body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
      // Nobody else gets the text or the password.
      redirect: "manual",
      signal,
    });
    const text = await response.text();
    const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
    return { status: response.status, retryAfterMs: seconds >= 0 ? seconds * 1000 : undefined, body: parse(text) };
  } catch (error) {
    const { cause, code, name } = (error ?? {}) as { cause?: { code?: unknown }; code?: unknown; name?: unknown };
    const found = [cause?.code, code, name].find((part) => typeof part === "string");
    throw new NoAnswer(typeof found === "string" ? found : "error");
  }
}

function parse(text: string): Answer["body"] {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** What to change, for the answers that say so. */
export function complaint(status: number): string {
  if (status === 401 || status === 403) return "the server does not take the password: check channels.imessage.password";
  if (status >= 300 && status < 500) return `the server's address answered ${status}: check channels.imessage.url`;
  return `the server answered ${status}`;
}

/** Whether the server is there and takes the password. */
export async function probe(server: Server, signal: AbortSignal): Promise<{ ok: true } | { ok: false; message: string }> {
  try {
    const { status, body } = await call(server, "ping", signal);
    if (status === 200 && body) return { ok: true };
    return { ok: false, message: status === 200 ? "the address is not that of a BlueBubbles server" : complaint(status) };
  } catch (error) {
    return { ok: false, message: `the server cannot be reached (${error instanceof NoAnswer ? error.code : "error"})` };
  }
}
