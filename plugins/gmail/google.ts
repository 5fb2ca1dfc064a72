import type { AuthClient } from "google-auth-library";
import { networkCode } from "#channel-kit";
import type { GmailConfig } from "./config.ts";
import { GmailProblem } from "./problem.ts";

/** A failed call to Google. Quotes nothing of the answer but Google's own codes. */
export class GoogleError extends GmailProblem {
  readonly status: number | undefined;
  /** `revoked`: nothing works before the owner consents again. */
  readonly kind:
    | "revoked"
    | "disabled"
    | "forbidden"
    | "notFound"
    | "exists"
    | "transient"
    | "other";

  constructor(message: string, kind: GoogleError["kind"], status?: number) {
    super(message);
    this.name = "GoogleError";
    this.kind = kind;
    this.status = status;
  }
}

interface ErrorBody {
  error_description?: string;
  error?:
    | string
    | {
        status?: string;
        message?: string;
        errors?: { reason?: string }[];
        details?: { reason?: string; metadata?: { service?: string; consumer?: string } }[];
      };
}

/** Codes of Google are words; anything else is not repeated. */
const word = (text: string | undefined): string | undefined =>
  text !== undefined && /^[\w.-]{1,80}$/.test(text) ? text : undefined;

const API_NAMES: Record<string, string> = {
  "gmail.googleapis.com": "the Gmail API",
  "pubsub.googleapis.com": "the Pub/Sub API",
};

function disabled(service: string, project: string | undefined): GoogleError {
  const where = project === undefined ? "" : `?project=${project}`;
  const flag = project === undefined ? "" : ` --project ${project}`;
  return new GoogleError(
    `${API_NAMES[service] ?? service} is not enabled: run \`gcloud services enable ${service}${flag}\`, or enable it at https://console.cloud.google.com/apis/library/${service}${where}`,
    "disabled",
    403,
  );
}

const LIMITS = new Set([
  "rateLimitExceeded",
  "userRateLimitExceeded",
  "quotaExceeded",
  "dailyLimitExceeded",
  "RATE_LIMIT_EXCEEDED",
]);

function ofToken(code: string, account: string, description = ""): GoogleError | undefined {
  switch (code) {
    case "invalid_grant":
      return new GoogleError(
        /JWT|email/i.test(description)
          ? `Google does not take the service account's key for ${account}: check that this mailbox is there, that the key was not deleted, and that the clock of this machine is right`
          : `the grant for ${account} was revoked: run \`rouse webhooks gmail setup\` again`,
        "revoked",
      );
    case "unauthorized_client":
      return new GoogleError(
        `the service account may not act for ${account}: add its client id and the scope ${GMAIL_SCOPE} under https://admin.google.com/ac/owl/domainwidedelegation`,
        "forbidden",
      );
    case "invalid_client":
    case "deleted_client":
      return new GoogleError(
        "Google does not know the OAuth client: download its JSON file again and name it with --credentials",
        "revoked",
      );
    default:
      return undefined;
  }
}

/** Turns whatever a call threw into an error that says what to change. */
export function googleError(error: unknown, what: string, account: string): unknown {
  if (error instanceof GoogleError) return error;
  const { response, name } = error as {
    response?: { status?: number; data?: unknown };
    name?: string;
  };
  if (name === "AbortError") return error;
  const status = response?.status;
  const body = (
    typeof response?.data === "object" && response.data !== null ? response.data : {}
  ) as ErrorBody;
  if (typeof body.error === "string") {
    const known = ofToken(body.error, account, body.error_description);
    if (known) return known;
  }
  if (status === undefined)
    return new GoogleError(
      `${what}: no answer (${word(networkCode(error) ?? name) ?? "error"})`,
      "transient",
    );
  return toGoogleError(status, body, what);
}

/** Returns the error of an answer, by its status and Google's codes. */
function toGoogleError(status: number, { error }: ErrorBody, what: string): GoogleError {
  const told = typeof error === "object" ? error : undefined;
  const reasons = [...(told?.details ?? []), ...(told?.errors ?? [])].flatMap(
    ({ reason }) => word(reason) ?? [],
  );
  const off = told?.details?.find(({ reason }) => reason === "SERVICE_DISABLED");
  if (off)
    return disabled(
      word(off.metadata?.service) ?? "gmail.googleapis.com",
      word(off.metadata?.consumer?.replace(/^projects\//, "")),
    );
  const token = typeof error === "string" ? word(error) : undefined;
  const shown = [status, word(told?.status) ?? reasons[0] ?? token]
    .filter((part) => part !== undefined)
    .join(" ");
  // Gmail has no code of its own for a second watch of a mailbox.
  const kind = /call \/stop/.test(told?.message ?? "") ? "exists" : getErrorKind(status, reasons);
  return new GoogleError(`${what}: Google answered ${shown}`, kind, status);
}

function getErrorKind(status: number, reasons: readonly string[]): GoogleError["kind"] {
  // A token that was taken back is 401 as well; asking for the next one tells.
  if (
    status === 401 ||
    status === 408 ||
    status === 429 ||
    status >= 500 ||
    reasons.some((reason) => LIMITS.has(reason))
  )
    return "transient";
  if (status === 403) return "forbidden";
  if (status === 404) return "notFound";
  return status === 409 ? "exists" : "other";
}

export const GMAIL_SCOPE = "https://www.googleapis.com/auth/gmail.readonly";
export const PUBSUB_SCOPE = "https://www.googleapis.com/auth/pubsub";

export interface GoogleCall {
  method?: "GET" | "POST" | "PUT";
  query?: Record<string, string | readonly string[] | undefined>;
  body?: unknown;
  signal?: AbortSignal;
  timeoutMs?: number;
  /** The action, for the error's message. */
  what: string;
}

/** The REST interfaces that are used. Paths are below `/gmail/v1/users/me/` and `/v1/`. */
export interface Google {
  gmail<T>(path: string, call: GoogleCall): Promise<T>;
  pubsub<T>(path: string, call: GoogleCall): Promise<T>;
}

/** The identities of the calls: a service account acts for the mailbox towards Gmail, and as itself towards Pub/Sub. */
export interface Clients {
  gmail: AuthClient;
  pubsub: AuthClient;
}

const TIMEOUT_MS = 60_000;

/** The REST interfaces of Google, called by these clients. */
export function createGoogle(
  { account, endpoints }: Pick<GmailConfig, "account" | "endpoints">,
  clients: Clients,
): Google {
  const call = async <T>(
    client: AuthClient,
    base: string,
    path: string,
    options: GoogleCall,
  ): Promise<T> => {
    const { method = "GET", query = {}, body, signal, timeoutMs = TIMEOUT_MS, what } = options;
    const url = new URL(base.replace(/\/$/, "") + path);
    for (const [key, value] of Object.entries(query))
      for (const one of Array.isArray(value) ? value : value === undefined ? [] : [value])
        url.searchParams.append(key, String(one));
    const limit = AbortSignal.timeout(timeoutMs);
    try {
      const answer = await client.request<T>({
        url,
        method,
        responseType: "json",
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
        ...(body === undefined ? {} : { data: body }),
      });
      return answer.data;
    } catch (error) {
      if (signal?.aborted) throw error;
      if (limit.aborted)
        throw new GoogleError(`${what}: no answer within ${timeoutMs / 1000} s`, "transient");
      throw googleError(error, what, account ?? "");
    }
  };
  return {
    gmail: (path, options) =>
      call(clients.gmail, endpoints.gmail, `/gmail/v1/users/me/${path}`, options),
    pubsub: (path, options) => call(clients.pubsub, endpoints.pubsub, `/v1/${path}`, options),
  };
}
