import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { runCommandLine } from "../../src/cli/run.ts";
import { createWorld, TOKEN } from "../e2e/world.ts";

const page = readFileSync(new URL("../../docs/operations.md", import.meta.url), "utf8");
const dirs = ["a", "b"].map((name) => mkdtempSync(join(tmpdir(), `rouse-operations-${name}-`)));
afterAll(() => dirs.forEach((dir) => rmSync(dir, { recursive: true, force: true })));

it("takes no longer than ten minutes to read", () => {
  expect(page.split(/\s+/).filter((word) => /[a-z]/i.test(word)).length).toBeLessThan(2_000);
});

it("a backup made as the page says, put in place as it says, has what ended and carries out what waited", async () => {
  const [from = "", to = ""] = dirs;
  const agent = (message: string) => ({ message, deliver: false, wakeMode: "next-heartbeat" });
  const old = await createWorld({ dir: from });
  const ended = (await old.post("/hooks/agent", agent("first"))).body.runId as string;
  await old.until(
    async () => (await old.get(`/hooks/runs/${ended}`)).body.run.status === "succeeded",
  );
  await old.stop();
  const accepting = await createWorld({ dir: from, workers: false });
  const waiting = (await accepting.post("/hooks/agent", agent("second"))).body.runId as string;
  const command = /^rouse (store backup \S+)$/m.exec(page)?.[1]?.split(" ") ?? [];
  const said: string[] = [];
  const io = {
    out: () => undefined,
    err: (text: string) => void said.push(text),
    env: {},
    cwd: from,
    now: Date.now,
    exitCode: 0,
  };
  const terminal = { in: false, out: false, err: false, columns: undefined };
  expect([await runCommandLine(command, { ...io, terminal }), said]).toEqual([
    0,
    [expect.stringMatching(/^config: /)],
  ]);
  const after = (await accepting.post("/hooks/agent", agent("after the copy"))).body
    .runId as string;
  await accepting.stop();

  const [, , placed = ""] = /^cp (\S+) (\S+)$/m.exec(page) ?? [];
  expect(placed).toMatch(/\/rouse\.db$/);
  const before = await createWorld({ dir: to, workers: false });
  await before.post("/hooks/agent", agent("of the store that is replaced"));
  await before.stop();
  copyFileSync(join(from, command.at(-1) ?? ""), join(to, ".rouse", "rouse.db"));
  for (const [, name = ""] of page.matchAll(/\/var\/lib\/rouse\/(rouse\.db-\w+)/g))
    rmSync(join(to, ".rouse", name), { force: true });
  const restored = await createWorld({ dir: to, config: { hooks: { token: TOKEN } } });
  try {
    expect((await restored.get(`/hooks/runs/${ended}`)).body.run).toMatchObject({
      status: "succeeded",
    });
    await restored.until(
      async () => (await restored.get(`/hooks/runs/${waiting}`)).body.run.status === "succeeded",
    );
    expect((await restored.get(`/hooks/runs/${after}`)).status).toBe(404);
  } finally {
    await restored.stop();
  }
});
