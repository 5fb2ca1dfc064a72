import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "../core/log.ts";
import type { Snapshot } from "../intake/types.ts";
import { type Rejections, renderThrown } from "./errors.ts";
import type { AnswerHook } from "./hooks.ts";
import { type HttpAnswer, NO_HOST, readHeaders, writeBody } from "./transport.ts";

/** Takes a request of Node's server and answers it; false if the request is not for it, and untouched. */
export type DirectHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;

export interface DirectHooksDeps {
  answer: AnswerHook;
  snapshot(): Snapshot;
  rejections: Pick<Rejections, "note">;
  log: Logger;
}

/** Addresses that mean what their characters say, whatever parses them. */
const PLAIN_ADDRESS = /^(?:\/[\w-]+)+\/?(?:\?[\w=&%+~.-]*)?$/;
const PLAIN_HOST = /^[\w.-]+(?::\d{1,5})?$/;

/** True if the message has a body that was not read to its end. */
export function isUnread({ headers, complete }: IncomingMessage): boolean {
  const hasBody =
    headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
  return hasBody && !complete;
}

/** Writes an answer: head and body in one piece. */
function write(incoming: IncomingMessage, outgoing: ServerResponse, answer: HttpAnswer): void {
  const { status, headers } = answer;
  const body = writeBody(answer);
  if (isUnread(incoming)) headers["connection"] = "close";
  if (body !== null) headers["content-length"] = String(Buffer.byteLength(body));
  outgoing.writeHead(status, headers);
  outgoing.end(body ?? undefined);
}

/**
 * Creates what answers a `POST` below the hooks' base path straight from Node's server. `Request`, `Response` and routing
 * say nothing that the message does not, and cost one in twelve of the hooks a second (`npm run bench -- --row wake` without
 * this file). Every other request, and every unusual address, takes the way of all others, with the same answer.
 */
export function createDirectHooks({
  answer,
  snapshot,
  rejections,
  log,
}: DirectHooksDeps): DirectHandler {
  return (incoming, outgoing) => {
    const { method, url = "" } = incoming;
    const { host = NO_HOST } = incoming.headers;
    const base = snapshot().config.hooks.path;
    if (method !== "POST" || !url.startsWith(base) || url[base.length] !== "/") return false;
    if (!PLAIN_ADDRESS.test(url) || !PLAIN_HOST.test(host)) return false;
    const end = url.indexOf("?");
    const path = url.slice(base.length + 1, end < 0 ? undefined : end).replace(/\/$/, "");
    const peer = incoming.socket.remoteAddress;
    const request = {
      method,
      path,
      url: { origin: `http://${host}`, target: url },
      headers: readHeaders(incoming),
      body: incoming,
      peer,
    };
    void answer(request)
      .catch((error: unknown) => renderThrown(error, log))
      .then((answered) => {
        const describe = () => ({
          method,
          url: `http://${host}${url}`,
          peer,
          forwardedFor: request.headers["x-forwarded-for"],
        });
        rejections.note(answered.status, answered.reason, describe);
        write(incoming, outgoing, answered);
      })
      // An error that is not caught here would end the process.
      .catch((error: unknown) => {
        renderThrown(error, log);
        outgoing.destroy();
      });
    return true;
  };
}
