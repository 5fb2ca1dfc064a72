import { readBody } from "./kit.ts";

export interface Hook {
  /** The end of the path; other addresses below the channel's are 404. */
  path?: string;
  /**
   * Returns whether the caller may post at all, as far as the headers tell: asked before anything of the body is read.
   */
  admits?(headers: Headers): boolean;
  /** Returns whether the body is signed. */
  signed?(raw: Buffer, headers: Headers): boolean;
  /** The longest body, in bytes. Default: 1 MiB. */
  most?: number;
  /** The body is a form, whose field of this name holds the object. */
  field?: string;
  /** The body is a form, whose fields are the object. */
  form?: boolean;
  /** Methods besides POST that the plugin answers itself. */
  also?: string;
}

const MAX_BODY = 1_048_576;

/** An answer in plain text. */
export function textResponse(
  status: number,
  text: string,
  headers: Record<string, string> = {},
): Response {
  return new Response(text, {
    status,
    headers: {
      "content-type": "text/plain; charset=utf-8",
      "x-content-type-options": "nosniff",
      ...headers,
    },
  });
}

const challenge = (scheme: "Bearer" | "Signature"): Record<string, string> => ({
  "www-authenticate": `${scheme} realm="rouse"`,
});

/**
 * The body of what a vendor posted, a JSON object, or how to answer what is none, is too long or is not the vendor's.
 * `body` holds nothing for JSON that is no object.
 */
export async function parseWebhook<T>(
  request: Request,
  { path, admits, signed, most = MAX_BODY, field, form = false, also }: Hook,
): Promise<{ ok: true; body: Partial<T> } | { ok: false; response: Response }> {
  const refuse = (status: number, text: string, headers?: Record<string, string>) =>
    ({ ok: false, response: textResponse(status, text, headers) }) as const;
  if (path !== undefined && !new URL(request.url).pathname.endsWith(path))
    return refuse(404, "not found");
  if (request.method !== "POST") {
    const allow = also === undefined ? "POST" : `${also}, POST`;
    return refuse(405, `only ${allow}`, { allow });
  }
  if (admits && !admits(request.headers))
    return refuse(401, "the credential is missing or wrong", challenge("Bearer"));
  const raw = await readBody(request, most);
  if (raw === undefined) return refuse(413, "the body is too large");
  if (signed && !signed(raw, request.headers))
    return refuse(401, "the signature does not match", challenge("Signature"));
  try {
    const text = raw.toString("utf8");
    if (form)
      return { ok: true, body: Object.fromEntries(new URLSearchParams(text)) as Partial<T> };
    const body: unknown = JSON.parse(
      field === undefined ? text : (new URLSearchParams(text).get(field) ?? ""),
    );
    return { ok: true, body: typeof body === "object" && body !== null ? body : {} };
  } catch {
    return refuse(400, "the body is not JSON");
  }
}
