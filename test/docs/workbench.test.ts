import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, TOKEN, type CliWorld } from "../cli/world.ts";

/** The blocks of the page are run in their order, and their output has the lines that follow them. */
const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/workbench.md"), "utf8");
const blocks = [...PAGE.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
  ([, language = "", text = ""]) => ({ language, text: text.trimEnd() }),
);
const configs = blocks.filter(({ language }) => language === "json5");

let cli: CliWorld;
let gateway: StartedGateway;
beforeAll(async () => {
  cli = await createCli();
  await mkdir(resolve(cli.dir, "mappings"), { recursive: true });
  await cli.write("rouse.json5", configs[0]?.text.replace("{", "{ gateway: { port: 0 },") ?? "");
  await cli.write("mappings/returns.json5", configs[1]?.text ?? "");
  gateway = await createGateway({ cwd: cli.dir, env: { ROUSE_HOOK_TOKEN: TOKEN }, workers: false });
  await gateway.start();
});
afterAll(async () => {
  await gateway.stop();
  await cli.close();
});

async function post(line: string): Promise<string> {
  const body = /-d '(.*)'/.exec(line)?.[1] ?? "";
  const path = /127\.0\.0\.1:7420(\S+)/.exec(line)?.[1] ?? "";
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const answer = await gateway.fetch(
    new Request(`http://127.0.0.1${path}`, { method: "POST", headers, body }),
  );
  return answer.headers.get("x-request-id") ?? "";
}

it("docs/workbench.md goes from an unmatched event to a mapping that takes the next one", async () => {
  let event = "";
  let printed = "";
  const ran: string[] = [];
  for (const { language, text } of blocks) {
    if (language === "") for (const line of text.split("\n")) expect(printed).toContain(line);
    if (language !== "sh") continue;
    printed = "";
    for (const line of text.split("\n")) {
      ran.push(line);
      if (line.startsWith("curl ")) {
        event = await post(line);
        continue;
      }
      const [, ...args] = line.replace("$EVENT", event).split(" ");
      const { code, out, err } = await cli.rouse(args, { env: { ROUSE_HOOK_TOKEN: TOKEN } });
      expect([line, code, code === 0 ? "" : err]).toEqual([line, 0, ""]);
      printed += out;
      if (line.includes("enable refund.event --yes")) {
        expect(readFileSync(resolve(cli.dir, "mappings/refund.json"), "utf8")).not.toContain(
          "shadow",
        );
        event = await post(ran.find((one) => one.startsWith("curl ")) ?? "");
        const { out: shown } = await cli.rouse(`explain ${event} --json`, {
          env: { ROUSE_HOOK_TOKEN: TOKEN },
        });
        expect(JSON.parse(shown)).toMatchObject({
          explanation: { event: { outcome: "accepted" } },
        });
      }
    }
  }
  expect(ran).toHaveLength(9);
});

it("the mapping of the page works as it is written", async () => {
  await cli.write("return.json", { type: "return", id: 7, customer: { name: "Ann" } });
  const { code, out } = await cli.rouse("hooks test shop.return --payload return.json");
  expect([code, out]).toEqual([0, expect.stringContaining("⟦Ann⟧ sends order ⟦7⟧ back")]);
});
