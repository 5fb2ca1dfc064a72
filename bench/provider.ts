/** A model server that streams a fixed answer: below `/paced` as fast as a quick model speaks, below `/instant` without a pause. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { TOKENS } from "./streams.ts";

const FIRST_MS = 200;
const EACH_MS = 10;

const chunk = (delta: object, finish: string | null, more: object = {}): string =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`;
const usage = { prompt_tokens: 10, completion_tokens: TOKENS, total_tokens: TOKENS + 10 };

async function answer(response: ServerResponse, isPaced: boolean): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.flushHeaders();
  const began = performance.now();
  for (let token = 0; token < TOKENS && !response.destroyed; token++) {
    const wait = began + FIRST_MS + token * EACH_MS - performance.now();
    if (isPaced && wait > 0) await sleep(wait);
    const role = token === 0 ? { role: "assistant" } : {};
    if (!response.write(chunk({ ...role, content: ` word${token}` }, null)))
      await new Promise((done) => response.once("drain", done).once("close", done));
  }
  response.end(`${chunk({}, "stop")}${chunk({}, null, { choices: [], usage })}data: [DONE]\n\n`);
}

const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => void answer(response, request.url?.startsWith("/paced") ?? false));
});
server.listen(0, "127.0.0.1", () =>
  console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`),
);
