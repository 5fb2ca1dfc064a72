/** A load generator in a process of its own: raw keep-alive HTTP/1.1 over loopback, so that it costs less than what it measures. */
import { connect } from "node:net";

export interface LoadJob {
  port: number;
  path: string;
  body: string;
  token: string;
  connections: number;
  ms: number;
}
export interface LoadResult {
  requests: number;
  /** Answers that are no 2xx. */
  errors: number;
  ms: number;
}

function runLoad(job: LoadJob): Promise<LoadResult> {
  const head = `POST ${job.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${job.token}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(job.body)}\r\n\r\n`;
  const request = Buffer.from(head + job.body);
  const started = performance.now();
  const result: LoadResult = { requests: 0, errors: 0, ms: 0 };
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(job.port, "127.0.0.1", () => socket.write(request));
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
        if (performance.now() - started < job.ms) socket.write(request);
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
