import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createCli } from "../cli/world.ts";
import { createWorld } from "../e2e/world.ts";

const page = readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8");
const dirs = ["a", "b"].map((name) => mkdtempSync(join(tmpdir(), `rouse-operations-${name}-`)));
afterAll(() => dirs.forEach((dir) => rmSync(dir, { recursive: true, force: true })));

it("docs/operations.md: reading takes no longer than ten minutes", () => {
  expect(page.split(/\s+/).filter((word) => /[a-z]/i.test(word)).length).toBeLessThan(2_000);
});

it("a backup made as the page says, and restored as it says, has what ended and carries out what waited", async () => {
  const [from = "", to = ""] = dirs;
  /** The first command of the page that begins so, with folders of the test in place of the page's. */
  const run = async (begin: string): Promise<string> => {
    const command = new RegExp(`^rouse (${begin} .+)$`, "m").exec(page)?.[1] ?? "";
    const args = command
      .replaceAll("/backups", to)
      .replace("/etc/rouse", join(to, "restored"))
      .replace("/root/passphrase", join(to, "passphrase"))
      .split(" ");
    const { code, out, err } = await (await createCli(from)).rouse(args);
    expect([command, code, err]).toEqual([command, 0, err]);
    return out + err;
  };
  writeFileSync(join(to, "passphrase"), "of the page's example");
  const agent = (message: string) => ({ message, deliver: false, wakeMode: "next-heartbeat" });
  const old = await createWorld({ dir: from });
  const ended = (await old.post("/hooks/agent", agent("first"))).body.runId as string;
  expect((await old.endedRun(ended)).status).toBe("succeeded");
  await old.stop();
  const accepting = await createWorld({ dir: from, workers: false });
  const waiting = (await accepting.post("/hooks/agent", agent("second"))).body.runId as string;
  await run("backup");
  const after = (await accepting.post("/hooks/agent", agent("after the copy"))).body
    .runId as string;
  await accepting.stop();

  expect(await run("restore")).toContain(page.match(/two would do the same work[^.]*\./)?.[0]);
  const restored = await createWorld({ dir: join(to, "restored") });
  try {
    expect((await restored.get(`/hooks/runs/${ended}`)).body.run).toMatchObject({
      status: "succeeded",
    });
    expect((await restored.endedRun(waiting)).status).toBe("succeeded");
    expect((await restored.get(`/hooks/runs/${after}`)).status).toBe(404);
  } finally {
    await restored.stop();
  }
});
