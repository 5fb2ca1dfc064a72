import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { createWorld, TOKEN } from "../e2e/world.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const PROGRAM = resolve(import.meta.dirname, "../../bin/rouse.js");
/** What an empty page says to paste, by its beginning. It is pasted into a shell, in the folder of the gateway. */
const PAGES: readonly (readonly [page: string, ...lines: string[]])[] = [
  ["overview", "curl -sS", "rouse usage --by model"],
  ["live", "curl -sS"],
  ["events", "curl -sS"],
  ["failures", "rouse failures list"],
  ["runs", "curl -sS"],
  ["approvals", "rouse approvals list --all"],
  ["approvals?show=rules", "rouse approvals approve --help"],
  ["mappings", "rouse presets list"],
  ["documents", "echo "],
  ["sessions", "rouse chat"],
  ["deliveries", "rouse channels list"],
  ["refusals", "rouse events refused"],
  ["system/gateway", "hooks: {", "mcp: {"],
  ["system/mappings", "rouse hooks list"],
  ["system/keys", "rouse keys create web"],
  ["system/channels", "rouse pairing list"],
];
/** Goes into the config, or asks for what is typed. */
const NOT_A_COMMAND = /^(?:\w+: \{|rouse chat\b)/;

describe.skipIf(NO_BROWSER)("the line that an empty page says to paste", () => {
  const { world, page } = useConsole({ config: { hooks: { path: "/in", enabled: true } } });

  const run = (line: string): Promise<{ line: string; status: number; output: string }> =>
    new Promise((done) => {
      const env = { PATH: process.env["PATH"] ?? "", HOME: world.dir, ROUSE_HOOK_TOKEN: TOKEN };
      const script = `rouse() { "${process.execPath}" "${PROGRAM}" "$@"; }; ${line}`;
      execFile("bash", ["-c", script], { cwd: world.dir, env }, (error, stdout, stderr) =>
        done({ line, status: error ? Number(error.code ?? 1) : 0, output: `${stdout}${stderr}` }),
      );
    });

  it("works as it is pasted", async () => {
    const lines = new Set<string>();
    for (const [name, ...wanted] of PAGES) {
      await page.goto("about:blank");
      await page.goto(`${world.url}/console#/${name}`);
      const shown = page.locator("main pre.command");
      for (const line of wanted) await shown.filter({ hasText: line }).first().waitFor();
      for (const line of await shown.allInnerTexts()) lines.add(line);
    }
    const commands = [...lines].filter((line) => !NOT_A_COMMAND.test(line));
    expect(commands.filter((line) => line.startsWith("curl"))).toEqual([
      `curl -sS ${world.url}/in/agent -H "authorization: Bearer $ROUSE_HOOK_TOKEN" -H "content-type: application/json" -d '{"message":"Say hello"}'`,
    ]);
    expect(commands.length).toBeGreaterThan(10);
    for (const command of commands) {
      const { line, status, output } = await run(command);
      expect({ line, status, output: status === 0 ? "" : output }).toEqual({
        line,
        status: 0,
        output: "",
      });
      if (line.startsWith("curl")) expect(JSON.parse(output)).toMatchObject({ ok: true });
    }
    const events = async () =>
      ((await world.admin("/admin/v1/events")).body.events as { path: string }[]).map(
        ({ path }) => path,
      );
    expect(await events()).toEqual(["agent"]);
  }, 300_000);
});

describe.skipIf(NO_BROWSER)(
  "an empty page of a gateway behind a public address, or without hooks",
  () => {
    const open = async (config: object) => createWorld({ config });

    describe("with gateway.publicUrl", () => {
      const { world, page } = useConsole(() =>
        open({ gateway: { publicUrl: "https://hooks.example.com" } }),
      );
      it("names the address that senders use", async () => {
        await page.goto(`${world.url}/console#/live`);
        await page
          .locator("pre.command", { hasText: "curl -sS https://hooks.example.com/hooks/agent " })
          .waitFor();
      });
    });

    describe("with hooks.enabled false", () => {
      const { world, page } = useConsole(() => open({ hooks: { enabled: false } }));
      it("says that hooks are turned off", async () => {
        await page.goto(`${world.url}/console#/events`);
        await page.getByText("Hooks are turned off: set hooks.enabled").waitFor();
        expect(await page.locator("main pre.command").count()).toBe(0);
      });
    });
  },
);
