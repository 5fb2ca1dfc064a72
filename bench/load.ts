/** A load generator in a process of its own: raw keep-alive HTTP/1.1 over loopback, so that it costs less than what it measures. */
import { createHmac } from "node:crypto";
import { connect, type Socket } from "node:net";

export interface LoadJob {
  port: number;
  path: string;
  body: string;
  token: string;
  connections: number;
  ms: number;
  /** Ends earlier, after so many requests. */
  requests?: number;
  /**
   * An open loop: sends so many requests a second, each when it is due and not when another one is answered, over as many
   * connections as that takes. The time of an answer counts from when its request was due.
   */
  perSecond?: number;
  /** Makes each body another one, in place of `MARK`, and signs it (HMAC-SHA256, hex) into a header. */
  sign?: { secret: string; header: string; prefix: string };
}
/** Stands in the body where each request has a number of its own. */
export const MARK = "0000000000000000";
export interface LoadResult {
  requests: number;
  /** Answers that are no 2xx, and requests without an answer. */
  errors: number;
  ms: number;
  /** Half of the answers, and 99 of 100, came within so many milliseconds. */
  p50: number;
  p99: number;
}

/** Returns what makes the requests of a job, one after the other. */
function createRequests(job: LoadJob): () => Buffer {
  const head = (more = ""): string =>
    `POST ${job.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${job.token}\r\nContent-Type: application/json\r\n${more}Content-Length: ${Buffer.byteLength(job.body)}\r\n\r\n`;
  const fixed = Buffer.from(head() + job.body);
  const body = Buffer.from(job.body);
  const at = body.indexOf(MARK);
  let number = Math.floor(performance.timeOrigin) * 1000;
  return () => {
    if (!job.sign) return fixed;
    body.write(String(number++).padStart(MARK.length, "0"), at, "latin1");
    const signature = createHmac("sha256", job.sign.secret).update(body).digest("hex");
    return Buffer.concat([
      Buffer.from(head(`${job.sign.header}: ${job.sign.prefix}${signature}\r\n`)),
      body,
    ]);
  };
}

/** Opens a connection on which one request at a time is under way. */
function openConnection(port: number, on: { answer(ok: boolean): void; end(): void }): Socket {
  const socket = connect(port, "127.0.0.1");
  socket.setNoDelay(true);
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    const end = received.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = /content-length: (\d+)/i.exec(received.slice(0, end))?.[1];
    const chunked = length === undefined && received.endsWith("0\r\n\r\n");
    if (!chunked && received.length < end + 4 + Number(length ?? Infinity)) return;
    const ok = received.charCodeAt(9) === 0x32;
    received = "";
    on.answer(ok);
  });
  // The end follows an error, too.
  socket.on("error", () => undefined);
  socket.on("close", () => on.end());
  return socket;
}

class Answers {
  readonly #times: number[] = [];
  #errors = 0;
  #lost = 0;

  add(ms: number, ok: boolean): void {
    this.#times.push(ms);
    if (!ok) this.#errors++;
  }

  addLost(): void {
    this.#lost++;
  }

  get count(): number {
    return this.#times.length + this.#lost;
  }

  sumUp(ms: number): LoadResult {
    const times = this.#times.toSorted((a, b) => a - b);
    const quantile = (share: number): number => times[Math.floor(times.length * share)] ?? 0;
    return {
      requests: this.count,
      errors: this.#errors + this.#lost,
      ms,
      p50: quantile(0.5),
      p99: quantile(0.99),
    };
  }
}

/** Sends on each connection as soon as the request before has its answer. */
async function runClosedLoop(job: LoadJob, next: () => Buffer, answers: Answers): Promise<void> {
  const most = job.requests ?? Infinity;
  const started = performance.now();
  let sent = 0;
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      let sentAt = 0;
      let done = false;
      const send = (): void => {
        sent++;
        const request = next();
        sentAt = performance.now();
        socket.write(request);
      };
      const socket = openConnection(job.port, {
        answer(ok) {
          const now = performance.now();
          answers.add(now - sentAt, ok);
          if (now - started < job.ms && sent < most) return send();
          done = true;
          socket.destroy();
        },
        end() {
          if (!done) answers.addLost();
          resolve();
        },
      });
      socket.once("connect", send);
    });
  await Promise.all(Array.from({ length: Math.min(job.connections, most) }, one));
}

/** After the last request, answers are waited for so long. */
const PATIENCE_MS = 10_000;

/** Sends each request when it is due: on the connection that has been free for longest, or on a new one. */
async function runOpenLoop(
  job: LoadJob,
  perSecond: number,
  next: () => Buffer,
  answers: Answers,
): Promise<void> {
  const total = Math.round((perSecond * job.ms) / 1000);
  const started = performance.now();
  const free = new Set<Socket>();
  const due = new Map<Socket, number>();
  let sent = 0;
  const connectAgain = (): Socket => {
    const socket = openConnection(job.port, {
      answer(ok) {
        answers.add(performance.now() - (due.get(socket) ?? 0), ok);
        due.delete(socket);
        free.add(socket);
      },
      end() {
        free.delete(socket);
        if (due.delete(socket)) answers.addLost();
      },
    });
    return socket;
  };
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const now = performance.now();
      for (; sent < total; sent++) {
        const at = started + (sent * 1000) / perSecond;
        if (at > now) return;
        const [socket = connectAgain()] = free;
        free.delete(socket);
        due.set(socket, at);
        socket.write(next());
      }
      if (due.size > 0 && now - started < job.ms + PATIENCE_MS) return;
      clearInterval(timer);
      resolve();
    }, 1);
  });
  const open = [...free, ...due.keys()];
  due.clear();
  for (const socket of open) socket.destroy();
  while (answers.count < total) answers.addLost();
}

async function runLoad(job: LoadJob): Promise<LoadResult> {
  const answers = new Answers();
  const next = createRequests(job);
  const started = performance.now();
  if (job.perSecond === undefined) await runClosedLoop(job, next, answers);
  else await runOpenLoop(job, job.perSecond, next, answers);
  return answers.sumUp(performance.now() - started);
}

if (import.meta.main)
  process.on("message", (job: LoadJob) => {
    void runLoad(job).then((result) => process.send?.(result));
  });
