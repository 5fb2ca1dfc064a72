import { connect, type Socket } from "node:net";

/** A connection on which a test writes what it likes: clients of HTTP repair or refuse what others send. */
export interface RawConnection {
  socket: Socket;
  /** Writes bytes and returns the next whole answer: its head and its body. */
  ask(text: string): Promise<string>;
  /** All that came, once the gateway has closed the connection. */
  ended: Promise<string>;
}

/** Cuts the first whole answer off; undefined if there is more to come. */
function takeAnswer(text: string): string | undefined {
  const head = text.indexOf("\r\n\r\n") + 4;
  if (head < 4) return undefined;
  const length = /^content-length: (\d+)/im.exec(text.slice(0, head))?.[1];
  const end = head + Number(length ?? 0);
  return text.length < end ? undefined : text.slice(0, end);
}

export async function openConnection(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname.replace(/^\[|\]$/g, ""));
  let all = "";
  let read = 0;
  const ended = new Promise<string>((resolve) => socket.on("close", () => resolve(all)));
  socket.on("data", (chunk) => (all += chunk.toString()));
  // The end of a connection is what some tests wait for, however it comes.
  socket.on("error", () => undefined);
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  return {
    socket,
    ended,
    async ask(text) {
      if (text !== "") socket.write(text);
      for (;;) {
        const answer = takeAnswer(all.slice(read));
        if (answer !== undefined) {
          read += answer.length;
          return answer;
        }
        if (socket.destroyed) throw new Error(`the connection ended after: ${all.slice(read)}`);
        await new Promise<void>((resolve) => {
          const done = (): void => {
            socket.off("data", done).off("close", done);
            resolve();
          };
          socket.on("data", done).on("close", done);
        });
      }
    },
  };
}

/** Sends raw text over one connection, and returns all that comes back until the gateway closes it. */
export async function speak(url: string, text: string): Promise<string> {
  const { socket, ended } = await openConnection(url);
  socket.write(text);
  return ended;
}

/** The text of a POST. */
export const post = (path: string, body: string, headers: Record<string, string> = {}): string => {
  const all = {
    host: "127.0.0.1",
    "content-type": "application/json",
    ...(!headers["transfer-encoding"] && { "content-length": String(Buffer.byteLength(body)) }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
};

export const statusOf = (answer: string): number => Number(answer.split(" ")[1]);
export const headerOf = (answer: string, name: string): string | undefined =>
  new RegExp(`^${name}: (.*)\\r$`, "im").exec(answer.slice(0, answer.indexOf("\r\n\r\n") + 2))?.[1];
