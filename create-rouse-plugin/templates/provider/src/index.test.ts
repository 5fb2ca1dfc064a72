import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { testProvider } from "rouse/testing";
import plugin from "./index.ts";

const REPLY = "It rains.";

async function readBody(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  return body;
}

/** A server that answers as Acme does. */
async function startVendor() {
  const requests: { headers: IncomingMessage["headers"]; body: string }[] = [];
  let status = 200;
  const server = createServer((request, response) => {
    void readBody(request).then((body) => {
      requests.push({ headers: request.headers, body });
      const type = { "content-type": "application/json" };
      if (status !== 200) return response.writeHead(status, type).end('{"error":{"message":"no"}}');
      if (!(JSON.parse(body) as { stream?: boolean }).stream)
        return response.writeHead(200, type).end(
          JSON.stringify({
            choices: [
              { index: 0, finish_reason: "stop", message: { role: "assistant", content: REPLY } },
            ],
          }),
        );
      const pieces = [
        { delta: { content: "It " } },
        { delta: { content: "rains." }, finish_reason: "stop" },
      ];
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const piece of pieces)
        response.write(`data: ${JSON.stringify({ choices: [{ index: 0, ...piece }] })}\n\n`);
      return response.end("data: [DONE]\n\n");
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const fail = (next: number): void => void (status = next);
  return { baseUrl, requests, fail, close: () => void server.close() };
}

for (const provider of plugin.providers ?? [])
  testProvider(provider.type, async () => {
    const { baseUrl, requests, fail, close } = await startVendor();
    const settings = { name: "acme", baseUrl, apiKey: "secret-key-0123", headers: {} };
    const { baseUrl: _, ...wrong } = settings;
    return {
      provider,
      settings,
      wrong,
      model: "big",
      reply: REPLY,
      requests: () => requests,
      fail,
      close,
    };
  });
