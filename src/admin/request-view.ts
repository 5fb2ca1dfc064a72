import type { StoredRequest } from "../store/types.ts";

/** Renders a body as text if it is UTF-8, else as base64. */
function renderBody(bytes: Uint8Array | null): {
  body: string | null;
  encoding: "utf8" | "base64";
} {
  if (bytes === null) return { body: null, encoding: "utf8" };
  try {
    return { body: new TextDecoder("utf-8", { fatal: true }).decode(bytes), encoding: "utf8" };
  } catch {
    return { body: Buffer.from(bytes).toString("base64"), encoding: "base64" };
  }
}

/** Renders what is kept of a request. */
export function requestView(request: StoredRequest) {
  const { method, headers, query, contentType, body } = request;
  return { method, contentType: contentType ?? null, headers, query, ...renderBody(body) };
}
