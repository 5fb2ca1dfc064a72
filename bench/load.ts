/** A load generator in a process of its own: raw keep-alive HTTP/1.1 over loopback, so that it costs less than what it measures. */
import { createHmac } from "node:crypto";
import { connect } from "node:net";

export interface LoadJob {
  port: number;
  path: string;
  body: string;
  token: string;
  connections: number;
  ms: number;
  /** Makes each body another one, in place of `MARK`, and signs it (HMAC-SHA256, hex) into a header. */
  sign?: { secret: string; header: string; prefix: string };
}
/** Stands in the body where each request has a number of its own. */
export const MARK = "0000000000000000";
export interface LoadResult {
  requests: number;
  /** Answers that are no 2xx. */
  errors: number;
  ms: number;
}

function runLoad(job: LoadJob): Promise<LoadResult> {
  const head = (more = ""): string =>
    `POST ${job.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${job.token}\r\nContent-Type: application/json\r\n${more}Content-Length: ${Buffer.byteLength(job.body)}\r\n\r\n`;
  const fixed = Buffer.from(head() + job.body);
  const body = Buffer.from(job.body);
  const at = body.indexOf(MARK);
  let sent = Math.floor(performance.timeOrigin) * 1000;
  const next = (): Buffer => {
    if (!job.sign) return fixed;
    body.write(String(sent++).padStart(MARK.length, "0"), at, "latin1");
    const signature = createHmac("sha256", job.sign.secret).update(body).digest("hex");
    return Buffer.concat([Buffer.from(head(`${job.sign.header}: ${job.sign.prefix}${signature}\r\n`)), body]);
  };
  const started = performance.now();
  const result: LoadResult = { requests: 0, errors: 0, ms: 0 };
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(job.port, "127.0.0.1", () => socket.write(next()));
      socket.setNoDelay(true);
      let received = "";
      socket.on("data", (chunk) => {
        received += chunk.toString("latin1");
        const end = received.indexOf("\r\n\r\n");
        if (end < 0) return;
        const length = /content-length: (\d+)/i.exec(received.slice(0, end))?.[1];
        const chunked = length === undefined && received.endsWith("0\r\n\r\n");
        if (!chunked && received.length < end + 4 + Number(length ?? Infinity)) return;
        result.requests++;
        if (received.charCodeAt(9) !== 0x32) result.errors++;
        received = "";
        if (performance.now() - started < job.ms) socket.write(next());
        else {
          socket.destroy();
          resolve();
        }
      });
      socket.on("error", () => resolve());
      socket.on("close", () => resolve());
    });
  return Promise.all(Array.from({ length: job.connections }, one)).then(() => ({ ...result, ms: performance.now() - started }));
}

process.on("message", (job: LoadJob) => {
  void runLoad(job).then((result) => process.send?.(result));
});
