import type { Attachment, Channel } from "../contract/channel.ts";
import {
  ChannelError,
  classifyError,
  classifyResponse,
  retryAfter,
  sameRule,
  type ErrorRule,
  type ErrorRules,
} from "./errors.ts";

const REFUSED = {
  status: "failed",
  reason: "the file is not on a host of the vendor: it was not fetched",
} as const;

/**
 * Checks that an address is one of the vendor's. The origin of `api`, the address of the API in the config, is trusted whatever its
 * scheme; `hosts` are further ones over HTTPS alone, `*.example.com` for all below. @throws ChannelError that quotes nothing of it.
 */
export function checkFileUrl(
  address: string,
  { api, hosts = [] }: { api: string; hosts?: readonly string[] },
): URL {
  if (!URL.canParse(address)) throw new ChannelError(REFUSED);
  const url = new URL(address);
  if (url.username !== "" || url.password !== "") throw new ChannelError(REFUSED);
  if (url.origin === new URL(api).origin) return url;
  const isVendors = hosts.some((host) =>
    host.startsWith("*.") ? url.hostname.endsWith(host.slice(1)) : url.hostname === host,
  );
  if (url.protocol !== "https:" || url.port !== "" || !isVendors) throw new ChannelError(REFUSED);
  return url;
}

interface Download {
  fetch: typeof fetch;
  vendor: ErrorRules;
  headers?: Readonly<Record<string, string>>;
  signal: AbortSignal;
}

/**
 * Opens a file: its bytes, and the media type that the server states. No redirect is followed: it would take the credential along, or lead to a host that was not checked.
 * @throws ChannelError `failed` if the file is gone or the vendor refuses it.
 */
export async function openDownload(
  url: URL,
  { fetch, vendor, headers = {}, signal }: Download,
): Promise<{ body: ReadableStream<Uint8Array>; type: string }> {
  const response = await fetch(url, { headers, redirect: "manual", signal });
  const { status, body } = response;
  if (response.ok && body) return { body, type: response.headers.get("content-type") ?? "" };
  await body?.cancel();
  const { name } = vendor;
  const fail = (reason: string): ErrorRule => ({ status: "failed", reason });
  const errors = {
    ...sameRule([404, 410], fail("the file is gone")),
    ...sameRule([401, 403], fail(`${name} refused the file (${status})`)),
    ...(status < 400 && { [status]: fail(`${name} has no file at the address (${status})`) }),
  };
  const failed = { status, afterMs: retryAfter(response.headers) };
  throw new ChannelError(classifyResponse({ ...vendor, errors }, failed), failed);
}

/** A channel's `fetchFile`, of a function that opens a file or throws: its errors are classified by the vendor's rules. */
export function createFetchFile(
  vendor: ErrorRules,
  open: (file: Attachment, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>,
): NonNullable<Channel["fetchFile"]> {
  return async (file, signal) => {
    try {
      return { status: "found", body: await open(file, signal) };
    } catch (error) {
      const { status, ...failure } = classifyError(vendor, error);
      return status === "failed"
        ? { status, reason: failure.reason }
        : { status: "retry", ...failure };
    }
  };
}
