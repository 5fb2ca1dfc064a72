import { execFile } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { expectDocumented } from "../http/conformance.ts";
import { FIXTURES } from "../knowledge/world.ts";
import { DESK, documentsWorld } from "./documents.ts";

const PAGE = readFileSync(join(resolve(import.meta.dirname, "../.."), "docs/knowledge.md"), "utf8");

it("docs/knowledge.md: every curl on the page works", async () => {
  const world = await documentsWorld();
  copyFileSync(join(FIXTURES, "libreoffice.pdf"), join(world.dir, "handbook.pdf"));
  try {
    const commands = [...PAGE.matchAll(/^```sh\n([^]*?)^```$/gm)]
      .flatMap(([, text]) => (text ?? "").replaceAll(/\\\n\s*/g, " ").split("\n"))
      .filter((line) => line.startsWith("curl"));
    const answers: Record<string, unknown>[] = [];
    for (const command of commands) {
      const env = { PATH: process.env["PATH"] ?? "", ROUSE_API_KEY: DESK };
      const own = `${command.replaceAll("http://127.0.0.1:7420", world.url)} -w '\n%{http_code}'`;
      const { stdout } = await promisify(execFile)("bash", ["-c", own], { cwd: world.dir, env });
      const [, body = "", status] = /^([^]*)\n(\d+)$/.exec(stdout) ?? [];
      const path = /7420(\/[^\s"?]+)/.exec(command)?.[1] ?? "";
      expectDocumented(
        / -[dF] /.test(command) ? "POST" : "GET",
        path,
        Number(status),
        JSON.parse(body),
      );
      expect([command, status]).toEqual([command, "200"]);
      answers.push(JSON.parse(body) as Record<string, unknown>);
    }
    expect(answers).toHaveLength(4);
    expect(answers[0]).toMatchObject({
      status: "ready",
      title: "Handbook",
      metadata: { team: "desk" },
      external_id: "handbook",
      agent_ids: ["ops"],
    });
    expect(answers[2]).toMatchObject({
      data: [
        { filename: "hours.md", text: expect.stringContaining("The desk opens at nine.") },
        {},
      ],
    });
  } finally {
    await world.close();
  }
});
