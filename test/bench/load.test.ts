import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { load } from "../../bench/servers.ts";

const JOB = { path: "/", body: "{}", token: "t", connections: 4, ms: 1000 };

async function withServer<T>(
  answer: RequestListener,
  work: (port: number) => Promise<T>,
): Promise<T> {
  const server = createServer(answer);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  try {
    return await work((server.address() as AddressInfo).port);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe("the load generator", () => {
  it("sends at a fixed rate, however late the answers are", async () => {
    const DELAY = 400;
    let waiting = 0;
    let most = 0;
    const answer: RequestListener = (_, response) => {
      most = Math.max(most, ++waiting);
      void sleep(DELAY).then(() => {
        waiting--;
        response.end("{}");
      });
    };
    const result = await withServer(answer, (port) => load({ ...JOB, port, perSecond: 100 }));
    expect([result.requests, result.errors]).toEqual([100, 0]);
    // A closed loop of four connections would have four at a time, and send ten in a second.
    expect(most).toBeGreaterThan(20);
    expect(result.p50).toBeGreaterThanOrEqual(DELAY);
    expect(result.p99).toBeGreaterThanOrEqual(result.p50);
  });

  it.each([
    ["at a fixed rate", { perSecond: 100 }],
    ["as fast as answers come", { requests: 100, ms: 60_000 }],
  ])("counts answers that are no 2xx and requests without one, %s", async (_, more) => {
    let seen = 0;
    const answer: RequestListener = (request, response) => {
      seen++;
      if (seen % 10 === 1) response.writeHead(503).end("{}");
      else if (seen === 50) request.socket.destroy();
      else response.writeHead(202).end("{}");
    };
    const result = await withServer(answer, (port) => load({ ...JOB, port, ...more }));
    expect([result.requests, result.errors]).toEqual([100, 11]);
  });
});
