import { spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startProgram } from "../e2e/program.ts";
import { FILES, writePage } from "./page.ts";
import { ownFolder, until } from "./support.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "token-of-the-page-0123456789";

/** A user's project with the files of the page. */
function createProject(): string {
  const dir = ownFolder();
  writeFileSync(join(dir, "package.json"), '{ "private": true, "type": "module" }');
  writePage(dir);
  mkdirSync(join(dir, "node_modules", "@hono"), { recursive: true });
  symlinkSync(ROOT, join(dir, "node_modules", "rouse"));
  for (const name of ["hono", "@hono/node-server"])
    symlinkSync(join(ROOT, "node_modules", name), join(dir, "node_modules", name));
  return dir;
}

const freePort = (): Promise<number> =>
  new Promise((done) => {
    const server = createServer().listen(0, () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => done(port));
    });
  });

describe("docs/library.md", () => {
  it("has these files", () =>
    expect(FILES.map(({ name }) => name)).toEqual([
      "gateway.ts",
      "node-http.ts",
      "hono.ts",
      "app/hooks/[...path]/route.ts",
      "orders.ts",
    ]));

  it.each(["node-http.ts", "hono.ts"])(
    "shows a server that works as it stands: %s",
    async (name) => {
      const port = await freePort();
      const program = await startProgram(
        process.execPath,
        ["--conditions=rouse-source", "--disable-warning=ExperimentalWarning", name],
        {
          cwd: createProject(),
          env: { PORT: String(port), HOOK_TOKEN: TOKEN },
        },
      );
      onTestFinished(() => program.kill());
      expect(await (await fetch(`${program.url}/`)).text()).toBe("a page of your own\n");
      const send = (token: string) =>
        fetch(`${program.url}/hooks/agent`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          body: JSON.stringify({ message: "a hook through the page's server" }),
        });
      expect((await send("wrong")).status).toBe(401);
      const answer = await send(TOKEN);
      const { runId } = (await answer.json()) as { runId: string };
      expect(answer.status).toBe(202);
      await until(() =>
        /reply to everybody: .*a hook through the page's server/s.test(program.output()),
      );
      await until(() => program.output().includes(`${runId} succeeded`));
      expect(await program.stop()).toBe(0);
    },
  );

  it("shows how an event is handed over without HTTP", async () => {
    const program = spawn(
      process.execPath,
      ["--conditions=rouse-source", "--disable-warning=ExperimentalWarning", "orders.ts"],
      {
        cwd: createProject(),
        env: { ...process.env, HOOK_TOKEN: TOKEN },
      },
    );
    onTestFinished(() => void program.kill("SIGKILL"));
    let output = "";
    program.stdout.on("data", (text: Buffer) => (output += text.toString()));
    const [, runId] = await until(() => /^accepted: (run_\w+)$/m.exec(output) ?? undefined);
    await until(
      () =>
        /reply to everybody: .*Order 7 was paid/s.test(output) &&
        output.includes(`${runId} succeeded`),
    );
  });
});
