import { createHmac } from "node:crypto";
import type { LookupAddress } from "node:dns";
import type { IncomingMessage, RequestOptions } from "node:http";
import type { Callback } from "../config/schema/limits.ts";
import { createHostList, type HostList } from "../core/http/address.ts";
import { getHeaderWait } from "../core/http/retry-after.ts";
import type { Traces } from "../core/http/trace-context.ts";
import { callbackKey } from "../core/secret.ts";
import type { Channel, OutgoingMessage, SendResult } from "../contract/channel.ts";

/** The name under which receipts on their way stand among the deliveries. No plugin can have it. */
export const CALLBACK = "callback";

export interface CallbackOptions {
  /** The callback of a mapping as the config is now; without a mapping that of the approvals. */
  getCallback(mapping: string | undefined): Callback | undefined;
  /** `hooks.callbackHosts` as it is now. */
  hosts(): readonly string[];
  clock: { now(): number };
  /** The active span, which the receiver of a receipt may continue. Absent: receipts are in no trace. */
  traces?: Pick<Traces, "current">;
}

const TIMEOUT_MS = 15_000;
const FORBIDDEN = "EFORBIDDEN";

type LookupDone = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

/** Resolves a name for the connection itself, so that what was checked is what is connected to. */
async function guardedLookup(hosts: HostList): Promise<NonNullable<RequestOptions["lookup"]>> {
  const { lookup: lookUp } = await import("node:dns");
  const lookup = (hostname: string, options: { all?: boolean }, done: LookupDone): void => {
    lookUp(hostname, { ...options, all: true }, (error, found) => {
      if (error) return done(error, "");
      if (!found.every(({ address }) => hosts.allowsAddress(address)))
        return done(Object.assign(new Error("forbidden"), { code: FORBIDDEN }), "");
      if (options.all) return done(null, found);
      done(null, found[0]?.address ?? "", found[0]?.family);
    });
  };
  return lookup as NonNullable<RequestOptions["lookup"]>;
}

/** Posts and waits for the head of the answer; its body is not read. */
async function post(url: URL, body: string, options: RequestOptions): Promise<IncomingMessage> {
  const { request: send } =
    url.protocol === "https:" ? await import("node:https") : await import("node:http");
  return new Promise((resolve, reject) => {
    const request = send(url, { ...options, method: "POST", agent: false }, (answer) => {
      answer.destroy();
      resolve(answer);
    });
    request.on("error", reject);
    request.end(body);
  });
}

function toSendResult(answer: IncomingMessage, now: number): SendResult {
  const status = answer.statusCode ?? 0;
  const reason = `the address answered ${status}`;
  const afterMs = getHeaderWait(answer.headers, now);
  if (status >= 200 && status < 300) return { status: "sent" };
  if (status === 408 || status === 429 || status >= 500)
    return { status: "retry", reason, ...(afterMs && { afterMs }) };
  return {
    status: "failed",
    reason: status >= 300 && status < 400 ? `${reason}: redirects are not followed` : reason,
  };
}

/**
 * Posts receipts, signed by Standard Webhooks (https://www.standardwebhooks.com, `v1`): the id is the same for every
 * try. Goes to listed hosts alone, and to no private address that is not listed. A message's `thread` is the mapping; a question has none.
 */
export function createCallbackChannel({
  getCallback,
  hosts,
  clock,
  traces,
}: CallbackOptions): Channel {
  const send = async (
    { text, thread, idempotencyKey }: OutgoingMessage,
    signal: AbortSignal,
  ): Promise<SendResult> => {
    const callback = getCallback(thread);
    const key = callback && callbackKey(callback.secret);
    if (!callback || !key)
      return { status: "failed", reason: "the config has no callback for it any more" };
    const list = createHostList(hosts());
    const url = new URL(callback.url);
    if (!list.allows(url.hostname))
      return { status: "failed", reason: "its host is not in hooks.callbackHosts" };
    const id = idempotencyKey.split(".")[0] ?? idempotencyKey;
    const timestamp = Math.floor(clock.now() / 1000);
    const signature = createHmac("sha256", key)
      .update(`${id}.${timestamp}.${text}`)
      .digest("base64");
    const headers = {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      "user-agent": "Rouse",
      "webhook-id": id,
      "webhook-timestamp": String(timestamp),
      "webhook-signature": `v1,${signature}`,
      ...traces?.current(),
    };
    const until = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    try {
      return toSendResult(
        await post(url, text, { headers, signal: until, lookup: await guardedLookup(list) }),
        clock.now(),
      );
    } catch (error) {
      const { code = "error" } = error as { code?: string };
      if (code === FORBIDDEN)
        return {
          status: "failed",
          reason: "its host leads to a private address, which hooks.callbackHosts does not list",
        };
      return {
        status: "retry",
        reason: until.aborted ? "no answer in time" : `no connection (${code})`,
      };
    }
  };
  return { send };
}
