import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { expect } from "vitest";
import { channelContract, type Fault } from "../contract/channel.ts";
import { load, userFolder } from "./support.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PAGE = readFileSync(join(ROOT, "docs/plugins.md"), "utf8");
const CODE = /```ts\n([^]*?)```/.exec(PAGE)?.[1] ?? "";

interface Message {
  to: string;
  text: string;
}

async function bodyOf(request: IncomingMessage): Promise<{ text: string }> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return JSON.parse(text) as { text: string };
}

const STATUS: Partial<Record<Fault, number>> = { "rate-limited": 429, unavailable: 503, "bad-credential": 401, "no-such-recipient": 404 };

/** The far side of the page's plugin. */
async function acmeServer(): Promise<{ server: Server; url: string; arrived: Message[]; fail: (fault: Fault) => void }> {
  const arrived: Message[] = [];
  let fault: Fault | undefined;
  const server = createServer((request, response) => {
    if (fault === "hang") return;
    if (fault === "cut-connection") return void request.socket.destroy();
    if (fault !== undefined) return void response.writeHead(STATUS[fault] ?? 500, { "retry-after": "2" }).end("quotes body-mark-7f3a");
    void bodyOf(request).then(({ text }) => {
      arrived.push({ to: request.url?.split("/")[2] ?? "", text });
      response.end(JSON.stringify({ id: String(arrived.length) }));
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, arrived, fail: (next) => void (fault = next) };
}

channelContract("of the page", async () => {
  const { server, url, arrived, fail } = await acmeServer();
  const { dir } = userFolder({ "plugins/acme.ts": CODE });
  const { channels, issues } = await load(dir, { channels: { acme: { token: "token-4711", apiUrl: url, defaultTo: "ops" } } });
  expect(issues).toEqual([]);
  const channel = channels.get("acme")?.channel;
  if (!channel) throw new Error("the page's plugin is not there");
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return {
    channel,
    to: "ops",
    malformed: ["no room", "a/b"],
    sent: () => arrived,
    fail,
    retryAfterMs: 2000,
    secrets: ["token-4711"],
    close,
  };
});
