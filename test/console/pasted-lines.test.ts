import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import JSON5 from "json5";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { createCli } from "../cli/world.ts";
import { TOKEN, type World } from "../e2e/world.ts";
import { NO_BROWSER } from "./browser.ts";
import { createModelWorld, type ModelWorld } from "./model-world.ts";
import { useConsole } from "./use-console.ts";

const PROGRAM = resolve(import.meta.dirname, "../../bin/rouse.js");
/** Goes into the config. */
const IS_CONFIG = /^\w+: \{/;
/** As `rouse init` writes it, and with a name that a shell would take apart. */
const FILES = { "the owner's token": TOKEN };
const HOOKS = { path: "/in", token: { file: "the owner's token" } };

/** All lines that a page says to paste: those in boxes, and commands in its sentences. */
async function readLines(page: Page): Promise<string[]> {
  const boxes = await page.locator("pre.command").allInnerTexts();
  const words = await page.locator("main code, dialog code").allInnerTexts();
  return [...boxes, ...words.filter((text) => /^(?:rouse|curl) /.test(text))];
}

interface Pasted {
  status: number | null;
  output: string;
}

/** Runs a script in a shell in the folder of the gateway, and says hello to what asks. */
function runShell(script: string, { dir }: World): Promise<Pasted> {
  const env = { PATH: process.env["PATH"] ?? "", HOME: dir, EDITOR: "true" };
  const child = spawn("bash", ["-c", script], { cwd: dir, env });
  child.stdin.on("error", () => undefined).end("Hello\n");
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (text) => (output += String(text)));
  return new Promise((done) => child.on("close", (status) => done({ status, output })));
}

/**
 * Pastes a line into a shell. A command alone gets its arguments from the shell and runs in this process; a pipe, and what asks,
 * run the program.
 */
async function paste(line: string, world: World): Promise<Pasted> {
  if (!line.startsWith("rouse ") || /[|&;<>]|^rouse chat/.test(line))
    return runShell(`rouse() { "${process.execPath}" "${PROGRAM}" "$@"; }; ${line}`, world);
  const shown = await runShell(`rouse() { printf '%s\\0' "$@"; }; ${line}`, world);
  const cli = await createCli(world.dir);
  const { code, out, err } = await cli.rouse(shown.output.split("\0").slice(0, -1));
  return { status: code, output: out + err };
}

/** Adds a part of a config to a copy of it, which is then checked. */
function pasteConfig(line: string, world: World): Promise<Pasted> {
  const read = (text: string) => JSON5.parse<Record<string, object>>(text);
  const config = read(readFileSync(join(world.dir, "rouse.json5"), "utf8"));
  for (const [name, part] of Object.entries(read(`{ ${line} }`)))
    config[name] = { ...config[name], ...part };
  world.write("pasted.json5", config);
  return paste("rouse config validate --config pasted.json5", world);
}

async function expectToWork(lines: Iterable<string>, world: World): Promise<void> {
  const failed: unknown[] = [];
  for (const line of new Set(lines)) {
    const { status, output } = await (IS_CONFIG.test(line) ? pasteConfig : paste)(line, world);
    if (status !== 0 || (line.startsWith("curl") && !output.includes(`"ok":true`)))
      failed.push({ line, status, output });
  }
  expect(failed).toEqual([]);
}

/** The lines that an empty page offers, by their beginnings. */
const EMPTY: readonly (readonly [page: string, ...lines: string[]])[] = [
  ["overview", "curl -sS", "rouse runs --usage --by model"],
  ["live", "curl -sS"],
  ["events", "curl -sS"],
  ["failures", "rouse failures"],
  ["runs", "curl -sS"],
  ["approvals", "rouse approvals --all"],
  ["approvals?show=rules", "rouse approvals decide --help"],
  ["mappings", "rouse presets"],
  ["documents", "echo "],
  ["documents?q=nothing's+here", "rouse knowledge --search"],
  ["chat", "rouse chat"],
  ["sessions", "rouse chat"],
  ["deliveries", "rouse channels"],
  ["refusals", "rouse events --refused"],
  ["system/gateway", "hooks: {", "mcp: {"],
  ["system/agents"],
  ["system/schedules", "rouse schedules"],
  ["system/channels", "rouse people", "rouse people"],
  ["system/memory", "rouse memory"],
  ["system/mappings", "rouse hooks"],
  ["system/keys", "rouse keys create web"],
  ["system/doctor"],
];

/** A gateway with a model, so that a chat is answered. */
const createPastedWorld = (mappings: readonly object[]): Promise<ModelWorld> =>
  createModelWorld({ files: FILES, config: { hooks: { ...HOOKS, mappings } } });

describe.skipIf(NO_BROWSER)("the lines that pages say to paste", () => {
  describe("of an empty gateway", () => {
    const { world, page, show } = useConsole(() => createPastedWorld([]));
    it("work as they are pasted", async () => {
      const lines: string[] = [];
      for (const [name, ...wanted] of EMPTY) {
        await page.goto("about:blank");
        await show(`#/${name}`);
        const shown = page.locator("main pre.command");
        for (const line of wanted) await shown.filter({ hasText: line }).first().waitFor();
        await page.locator("main .skeleton").first().waitFor({ state: "detached" });
        lines.push(...(await readLines(page)));
      }
      expect(new Set(lines.filter((line) => line.startsWith("curl"))).size).toBe(1);
      expect(lines.find((line) => line.startsWith("curl"))).toContain(`${world.url}/in/agent `);
      await expectToWork(lines, world);
      const { events } = (await world.admin("/admin/v1/events")).body as {
        events: { path: string }[];
      };
      expect(events.map(({ path }) => path)).toEqual(["agent"]);
    }, 300_000);
  });

  describe("of a gateway with work", () => {
    const { world, page, context, show } = useConsole(() =>
      createPastedWorld([
        { id: "order", match: { path: "shop" }, messageTemplate: "Order {{id}}" },
        { id: "never", match: { path: "never" }, messageTemplate: "Never" },
        {
          id: "crm",
          match: { path: "crm" },
          messageTemplate: "{{id}}",
          auth: { scheme: "notion", secret: "pending" },
        },
      ]),
    );
    it("work as they are pasted", async () => {
      const open = async (hash: string): Promise<void> => {
        await page.goto("about:blank");
        await show(`#/${hash}`);
      };
      const lines: string[] = [];
      const keep = async (line: string): Promise<void> => {
        await page.locator("pre.command, code", { hasText: line }).first().waitFor();
        lines.push(...(await readLines(page)));
      };
      const post = async (body: string | Uint8Array, type: string): Promise<string> =>
        (await world.post("/in/shop", body, { "content-type": type })).body.eventId as string;
      const text = await post(
        JSON.stringify({ id: "it's 7", note: 'a "b" $HOME `c`' }),
        "application/json",
      );
      const binary = await post(
        Buffer.from("caf\u00e9", "latin1"),
        "text/plain; charset=iso-8859-1",
      );
      await context.grantPermissions(["clipboard-read", "clipboard-write"]);
      for (const id of [text, binary]) {
        await open(`events/${id}`);
        await page.getByRole("button", { name: "Copy as curl" }).click();
        await page.getByText("Copied the curl command.").waitFor();
        lines.push(await page.evaluate<string>("navigator.clipboard.readText()"));
      }
      await page.getByRole("button", { name: "Edit and replay" }).click();
      await keep("rouse events replay");
      await open("mappings/never");
      await keep("rouse hooks test");
      await open("system/mappings");
      await page.getByRole("button", { name: "Secrets that came" }).click();
      await keep("rouse hooks crm --accept");
      await open("system/gateway");
      await keep("rouse backup --store");
      await open("chat");
      await page.getByLabel("Message").fill("Hello");
      await page.keyboard.press("Enter");
      await keep("--session");
      for (const hash of ["overview", "system/doctor"]) {
        await open(hash);
        await page.locator("main .skeleton").first().waitFor({ state: "detached" });
        lines.push(...(await readLines(page)));
      }
      await expectToWork(lines, world);
    }, 300_000);
  });
});

describe.skipIf(NO_BROWSER)("an empty page", () => {
  const gateway = { publicUrl: "https://hooks.example.com" };
  const { world, page, show } = useConsole({ config: { gateway, hooks: { enabled: false } } });
  it("says that hooks are turned off, and later names the address that senders use", async () => {
    await show("#/events");
    await page.getByText("Hooks are turned off: set hooks.enabled").waitFor();
    expect(await page.locator("main pre.command").count()).toBe(0);
    await world.reload({ gateway });
    await page.goto("about:blank");
    await show("#/live");
    await page
      .locator("pre.command", { hasText: "curl -sS https://hooks.example.com/hooks/agent " })
      .waitFor();
  });
});
