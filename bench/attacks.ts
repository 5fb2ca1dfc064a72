/** The attacks of `npm run attack`. Each is bounded in connections and in time, and goes to one loopback port. */
import { connect, type Socket } from "node:net";

const MIB = 2 ** 20;
const HOST = "127.0.0.1";

export interface Attack {
  name: string;
  /** An answer that must come at least once, or must never come. */
  expects?: RegExp;
  forbids?: RegExp;
  /** Opens connections until `signal` aborts; calls `answered` with what comes back. */
  run(target: Target): void;
}

export interface Target {
  port: number;
  signal: AbortSignal;
  answered(text: string): void;
}

function head(method: string, path: string, headers: Record<string, string | number>): string {
  const lines = Object.entries({ host: HOST, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return `${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`;
}

/** A connection that sends `first` immediately. A new one takes its place when it ends, after `pauseMs`. */
function keepOpen(
  { port, signal, answered }: Target,
  first: string,
  then?: (socket: Socket) => void,
  pauseMs = 20,
): void {
  if (signal.aborted) return;
  const socket = connect(port, HOST, () => {
    socket.write(first);
    then?.(socket);
  });
  socket.on("data", (chunk) => answered(chunk.toString("latin1")));
  socket.on("error", () => undefined);
  socket.on("close", () =>
    setTimeout(() => keepOpen({ port, signal, answered }, first, then, pauseMs), pauseMs),
  );
  signal.addEventListener("abort", () => socket.destroy(), { once: true });
}

/** Writes as much as the other side takes, up to `total` bytes. */
function pour(total: number): (socket: Socket) => void {
  const block = Buffer.alloc(64 * 1024, "x");
  const chunk = Buffer.concat([
    Buffer.from(`${block.length.toString(16)}\r\n`),
    block,
    Buffer.from("\r\n"),
  ]);
  return (socket) => {
    let sent = 0;
    const more = (): void => {
      while (sent < total && !socket.destroyed) {
        sent += block.length;
        if (!socket.write(chunk)) return void socket.once("drain", more);
      }
    };
    more();
  };
}

const many = (count: number, start: (index: number) => void): void => {
  for (let index = 0; index < count; index++) start(index);
};

const SIGNED = { "x-hub-signature-256": `sha256=${"0".repeat(64)}` };
const chunked = (path: string, headers: Record<string, string> = {}): string =>
  head("POST", path, { "transfer-encoding": "chunked", ...headers });
const huge = (
  name: string,
  path: string,
  expects: RegExp,
  headers?: Record<string, string>,
): Attack => ({
  name,
  expects,
  run: (target) => keepOpen(target, chunked(path, headers), pour(300 * MIB), 200),
});

/** Paths that must not reach the operator's interface. */
const DISGUISED = [
  "/hooks/../admin/v1/events",
  "/%61dmin/v1/events",
  "/hooks/%2e%2e/admin/v1/events",
  "/./metrics",
  "/hooks/..%2fmetrics",
];

export const ATTACKS: readonly Attack[] = [
  huge("300 MB to the sign-in form", "/console/session", / 413 /),
  huge("300 MB to a hook without a token", "/hooks/wake", / 401 /),
  huge("300 MB to a signed hook, signature wrong", "/hooks/signed", / 413 /, SIGNED),
  huge("300 MB to a channel's webhook", "/channels/acme/x", / 413 /),
  huge("300 MB to the platform API without a key", "/v1/chat/completions", / 401 /),
  {
    name: "512 connections that send nothing",
    run: (target) => many(512, () => keepOpen(target, "")),
  },
  {
    name: "512 connections with half a request head",
    run: (target) =>
      many(512, () => keepOpen(target, "POST /hooks/signed HTTP/1.1\r\nHost: x\r\nX-A: ")),
  },
  {
    name: "512 signed bodies declared at 25 MB that never come",
    run: (target) =>
      many(512, () =>
        keepOpen(target, head("POST", "/hooks/signed", { "content-length": 25 * MIB, ...SIGNED })),
      ),
  },
  {
    name: "512 signed bodies of 256 KB each that stop before their end",
    run: (target) =>
      many(512, () =>
        keepOpen(
          target,
          head("POST", "/hooks/signed", { "content-length": 25 * MIB, ...SIGNED }) +
            "x".repeat(256 * 1024),
        ),
      ),
  },
  {
    name: "512 webhooks of a channel that drip one byte a second",
    run: (target) =>
      many(512, () =>
        keepOpen(target, head("POST", "/channels/acme/x", { "content-length": MIB }), (socket) => {
          const timer = setInterval(() => socket.write("x"), 1000);
          socket.on("close", () => clearInterval(timer));
        }),
      ),
  },
  {
    name: "a flood of wrong tokens",
    expects: / 4(?:01|29) /,
    run: (target) =>
      many(8, () =>
        keepOpen(
          target,
          head("POST", "/hooks/agent", { authorization: "Bearer wrong", connection: "close" }),
          undefined,
          2,
        ),
      ),
  },
  {
    name: "a flood of wrong signatures over 20 KB",
    expects: / 4(?:01|29) /,
    run: (target) => {
      const body = "x".repeat(20_000);
      many(8, () =>
        keepOpen(
          target,
          head("POST", "/hooks/signed", {
            "content-length": body.length,
            connection: "close",
            ...SIGNED,
          }) + body,
          undefined,
          5,
        ),
      );
    },
  },
  {
    name: "a thousand signatures in one header",
    expects: / 4(?:01|29) /,
    run: (target) => {
      const list = Array.from({ length: 1000 }, () => "v1=00").join(",");
      const request = head("POST", "/hooks/several", {
        "content-length": 2,
        "x-pagerduty-signature": list,
        connection: "close",
      });
      many(4, () => keepOpen(target, `${request}{}`, undefined, 2));
    },
  },
  {
    name: "paths in disguise, with the gateway token",
    expects: / 404 /,
    forbids: / 200 /,
    run: (target) =>
      many(DISGUISED.length, (index) =>
        keepOpen(
          target,
          head("GET", DISGUISED[index] as string, {
            authorization: `Bearer ${GATEWAY_TOKEN}`,
            connection: "close",
          }),
          undefined,
          20,
        ),
      ),
  },
];

export const GATEWAY_TOKEN = "attack-gateway-token-0123456789";
