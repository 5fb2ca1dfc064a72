/**
 * The least that can stand before a model server: it passes the request on, and the answer as it comes. Below `/client` the
 * provider's official client does so, chunk by chunk.
 */
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import OpenAI from "openai";

const [target = ""] = process.argv.slice(2);
const app = new Hono();
app.post("/client/:kind/*", async (c) => {
  const client = new OpenAI({ baseURL: `${target}/${c.req.param("kind")}/v1`, apiKey: "none" });
  const chunks = await client.chat.completions.create({
    ...(await c.req.json<OpenAI.ChatCompletionCreateParamsStreaming>()),
    stream: true,
  });
  return streamSSE(c, async (stream) => {
    for await (const chunk of chunks) await stream.writeSSE({ data: JSON.stringify(chunk) });
    await stream.writeSSE({ data: "[DONE]" });
  });
});
app.post("/*", async (c) => {
  const answer = await fetch(target + c.req.path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: await c.req.text(),
  });
  return new Response(answer.body, {
    status: answer.status,
    headers: { "content-type": answer.headers.get("content-type") ?? "" },
  });
});
serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) =>
  console.log(`listens on http://127.0.0.1:${port}`),
);
