import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { EVERYTHING, findPort } from "../agent/mcp.ts";
import { createCli, TOKEN } from "../cli/world.ts";
import { createGateway } from "../gateway.ts";

const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/agents-and-tools.md"), "utf8");
const env = { ROUSE_HOOK_TOKEN: TOKEN, CRM_TOKEN: "token-of-the-crm" };

it("the commands of docs/agents-and-tools.md print what the page says", async () => {
  const cli = await createCli();
  const blocks = [...PAGE.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(([, language, text = ""]) => ({
    language,
    text: text.trimEnd(),
  }));
  // The server that npx would download is here already, and no request leaves the machine.
  const config = blocks[0]?.text
    .replace('"npx"', JSON.stringify(process.execPath))
    .replace('"-y", "@modelcontextprotocol/server-everything"', JSON.stringify(EVERYTHING))
    .replace("https://crm.example", `http://127.0.0.1:${await findPort()}`)
    .replace("{", "{ gateway: { port: 0 },");
  await cli.write("rouse.json5", config);
  const gateway = await createGateway({ cwd: cli.dir, env, workers: false });
  try {
    await gateway.start();
    let printed = "";
    for (const { language, text } of blocks) {
      if (language === "") expect(printed).toContain(text);
      if (language !== "sh") continue;
      printed = "";
      for (const line of text.split("\n")) {
        const [, ...args] = line.replaceAll("'", "").split(" ");
        const { code, out } = await cli.rouse(args, { env });
        expect([line, code]).toEqual([line, 0]);
        printed += out;
      }
    }
  } finally {
    await gateway.stop();
    await cli.close();
  }
});
