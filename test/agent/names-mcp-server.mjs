// An MCP server whose tools have the names of NAMES, a list in JSON. Each says under which name it was called.
import { createInterface } from "node:readline";

const tools = JSON.parse(process.env.NAMES).map((name) => ({
  name,
  inputSchema: { type: "object", properties: {} },
}));
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "names", version: "1" },
  }),
  "tools/list": () => ({ tools }),
  "tools/call": ({ name }) => ({ content: [{ type: "text", text: `called ${name}` }] }),
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = answers[method]?.(params);
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result: result ?? {} })}\n`);
});
