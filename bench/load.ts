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
  /** Ends earlier, after so many requests. */
  requests?: number;
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
  /** 99 of 100 answers came within so many milliseconds. */
  p99: number;
}

function runLoad(job: LoadJob): Promise<LoadResult> {
  const head = (more = ""): string =>
    `POST ${job.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${job.token}\r\nContent-Type: application/json\r\n${more}Content-Length: ${Buffer.byteLength(job.body)}\r\n\r\n`;
  const fixed = Buffer.from(head() + job.body);
  const body = Buffer.from(job.body);
  const at = body.indexOf(MARK);
  let number = Math.floor(performance.timeOrigin) * 1000;
  const next = (): Buffer => {
    if (!job.sign) return fixed;
    body.write(String(number++).padStart(MARK.length, "0"), at, "latin1");
    const signature = createHmac("sha256", job.sign.secret).update(body).digest("hex");
    return Buffer.concat([Buffer.from(head(`${job.sign.header}: ${job.sign.prefix}${signature}\r\n`)), body]);
  };
  const most = job.requests ?? Infinity;
  const started = performance.now();
  const times: number[] = [];
  let sent = 0;
  let errors = 0;
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      let sentAt = 0;
      const send = (): void => {
        sent++;
        const request = next();
        sentAt = performance.now();
        socket.write(request);
      };
      const socket = connect(job.port, "127.0.0.1", send);
      socket.setNoDelay(true);
      let received = "";
      socket.on("data", (chunk) => {
        received += chunk.toString("latin1");
        const end = received.indexOf("\r\n\r\n");
        if (end < 0) return;
        const length = /content-length: (\d+)/i.exec(received.slice(0, end))?.[1];
        const chunked = length === undefined && received.endsWith("0\r\n\r\n");
        if (!chunked && received.length < end + 4 + Number(length ?? Infinity)) return;
        const now = performance.now();
        times.push(now - sentAt);
        if (received.charCodeAt(9) !== 0x32) errors++;
        received = "";
        if (now - started < job.ms && sent < most) send();
        else {
          socket.destroy();
          resolve();
        }
      });
      socket.on("error", () => resolve());
      socket.on("close", () => resolve());
    });
  return Promise.all(Array.from({ length: Math.min(job.connections, most) }, one)).then(() => {
    const ms = performance.now() - started;
    const p99 = times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? 0;
    return { requests: times.length, errors, ms, p99 };
  });
}

process.on("message", (job: LoadJob) => {
  void runLoad(job).then((result) => process.send?.(result));
});
