/** Reads streamed chat answers in a process of its own: raw HTTP/1.1 over loopback, so that it costs less than what it measures. */
import { connect } from "node:net";

/** In each answer of the model server. */
export const TOKENS = 200;

export interface StreamJob {
  port: number;
  path: string;
  body: string;
  token: string;
  connections: number;
  ms: number;
}
export interface StreamResult {
  answers: number;
  /** Answers that are not whole. */
  errors: number;
  tokens: number;
  /** Median from the request to the first word, in milliseconds. */
  firstMs: number;
  ms: number;
}

function runStreams(job: StreamJob): Promise<StreamResult> {
  const request = Buffer.from(
    `POST ${job.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${job.token}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(job.body)}\r\n\r\n${job.body}`,
  );
  const started = performance.now();
  const firsts: number[] = [];
  const result: StreamResult = { answers: 0, errors: 0, tokens: 0, firstMs: 0, ms: 0 };
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      let sent = 0;
      let first = 0;
      let received = "";
      const send = (): void => {
        received = "";
        first = 0;
        sent = performance.now();
        socket.write(request);
      };
      const socket = connect(job.port, "127.0.0.1", send);
      socket.setNoDelay(true);
      socket.on("data", (data) => {
        received += data.toString("latin1");
        if (first === 0 && received.includes("word0")) first = performance.now();
        if (!received.endsWith("0\r\n\r\n")) return;
        const tokens = (received.match(/ word\d/g) ?? []).length;
        result.answers++;
        result.tokens += tokens;
        if (tokens !== TOKENS || !received.includes("data: [DONE]")) result.errors++;
        firsts.push(first - sent);
        if (performance.now() - started < job.ms) return send();
        socket.destroy();
        resolve();
      });
      socket.on("error", () => resolve());
      socket.on("close", () => resolve());
    });
  return Promise.all(Array.from({ length: job.connections }, one)).then(() => {
    const sorted = firsts.toSorted((a, b) => a - b);
    return {
      ...result,
      firstMs: sorted[Math.floor(sorted.length / 2)] ?? 0,
      ms: performance.now() - started,
    };
  });
}

process.on("message", (job: StreamJob) => {
  void runStreams(job).then((result) => process.send?.(result));
});
