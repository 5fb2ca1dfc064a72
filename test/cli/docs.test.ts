import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import JSON5 from "json5";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, shopConfig, type CliWorld } from "./world.ts";

const page = await readFile(new URL("../../docs/cli.md", import.meta.url), "utf8");
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, "gm"))].map(
    (found) => found[1] ?? "",
  );
/** `rouse start` runs until it is stopped; `live.test.ts` starts it. */
const lines = blocks("sh")
  .flatMap((block) => block.trim().split("\n"))
  .filter((line) => !line.startsWith("rouse start"));

let cli: CliWorld;
let gateway: StartedGateway;
const ids: Record<string, string> = {};

beforeAll(async () => {
  cli = await createCli();
  const config = shopConfig({
    hooks: {
      enabled: true,
      token: "documentation-token",
      mappings: [
        {
          ...JSON5.parse<object>(blocks("json5")[0] ?? ""),
          sessionKey: "hook:shop:{{payload.id}}",
        },
      ],
    },
  });
  await cli.write("rouse.json5", config);
  await cli.write("next.json5", config);
  await cli.write("order.json", { type: "order", id: 7 });
  await cli.write("refund.json", { type: "refund", id: 8 });
  await cli.write("order.txt", "type=order&id=7");
  await cli.write("hello.json", { message: "Hello" });
  gateway = await createGateway({
    cwd: cli.dir,
    env: {},
    workers: true,
  });
  await gateway.start();
  const { out } = await cli.rouse("hooks send shop --payload order.json --json");
  const { answer } = JSON.parse(out) as { answer: { eventId: string; runId: string } };
  for (const path of ["shop", "nowhere"])
    await cli.rouse(`hooks send ${path} --payload refund.json`);
  const { failures } = await cli.json<{
    failures: { id: string }[];
  }>("failures");
  Object.assign(ids, { $FAILURE: failures[0]?.id, $EVENT: answer.eventId, $RUN: answer.runId });
  while (
    (
      JSON.parse((await cli.rouse(["runs", answer.runId, "--json"])).out) as {
        run: { status: string };
      }
    ).run.status !== "succeeded"
  ) {
    await new Promise((done) => setTimeout(done, 20));
  }
});
afterAll(async () => {
  await gateway.stop();
  await cli.close();
});

it("docs/cli.md: the page has commands to run", () => expect(lines.length).toBeGreaterThan(20));

it.each(lines)("docs/cli.md: %s", async (line) => {
  const [program, ...args] = line.split(" ").map((word) => ids[word] ?? word);
  expect(program).toBe("rouse");
  const { code, err } = await cli.rouse(args);
  // Which config answered goes to standard error; nothing else does.
  expect([code, err.replace(/^config: .*\n/, "")]).toEqual([0, ""]);
});
