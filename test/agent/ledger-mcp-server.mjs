// An MCP server over standard input and output that writes down, in the file LEDGER, each call and cancellation that reaches it.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const write = (entry) =>
  appendFileSync(process.env.LEDGER, `${JSON.stringify({ pid: process.pid, ...entry })}\n`);
const send = (message) =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
/** The head of a PNG of 7 by 7 pixels. */
const PNG = Buffer.from("89504e470d0a1a0a0000000d494844520000000700000007", "hex");
const inputSchema = { type: "object", properties: {} };
const names = ["mark", "hang", "die", "grow", "text", "picture", "sound"];
const tools = names.map((name) => ({
  name,
  inputSchema,
  annotations: { readOnlyHint: name === "text" },
}));
const text = (words) => ({ content: [{ type: "text", text: words }] });

const calls = {
  mark: () => text("marked"),
  hang: () => undefined,
  die: () => process.exit(1),
  grow() {
    tools.push({ name: "grown", inputSchema });
    send({ method: "notifications/tools/list_changed" });
    return text("grown");
  },
  grown: () => text("new"),
  text: () => text(`BEGIN ${"0123456789 ä 😀\n".repeat(Number(process.env.LINES ?? 1))}END`),
  picture: () => ({
    content: [
      { type: "text", text: "a picture" },
      {
        type: "image",
        mimeType: "image/png",
        data: Buffer.concat([PNG, Buffer.alloc(Number(process.env.BYTES ?? 32) - 24, 7)]).toString(
          "base64",
        ),
      },
    ],
  }),
  sound: () => ({ content: [{ type: "audio", mimeType: "audio/wav", data: "AAAA" }] }),
};
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: "ledger", version: "1" },
  }),
  "tools/list": () => ({ tools }),
  "tools/call"({ name, _meta }) {
    write({ call: name, key: _meta?.idempotencyKey });
    return calls[name]();
  },
};
write({ started: true });
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "notifications/cancelled") write({ cancelled: params.requestId });
  if (id === undefined) return;
  const result = answers[method]?.(params);
  if (result !== undefined) send({ id, result });
});
