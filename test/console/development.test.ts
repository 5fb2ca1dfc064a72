import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { expect, it } from "vitest";
import { createWorld } from "../e2e/world.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";

const ROOT = resolve(import.meta.dirname, "../..");

it.skipIf(NO_BROWSER)(
  "`npm run console` shows the page from its sources, with the gateway that ROUSE_URL names behind it",
  async () => {
    const world = await createWorld({});
    const browser = await openBrowser();
    const child = spawn(
      process.execPath,
      [`${ROOT}/node_modules/vite/bin/vite.js`, "console", "--port", "0", "--host", "127.0.0.1"],
      {
        cwd: ROOT,
        env: { PATH: process.env["PATH"] ?? "", ROUSE_URL: world.url },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    try {
      let output = "";
      const url = await new Promise<string>((resolve, reject) => {
        child.on("exit", (code) => reject(new Error(`vite ended with ${code}: ${output}`)));
        child.stdout.on("data", (chunk) => {
          output += stripVTControlCharacters(String(chunk));
          const found = /http:\/\/127\.0\.0\.1:\d+\/console\//.exec(output);
          if (found) resolve(found[0]);
        });
      });
      const page = await browser.context.newPage();
      await page.goto(`${url}#/refusals`);
      const field = page.getByLabel("Gateway token");
      await field.fill(world.gateway.operatorToken);
      await field.press("Enter");
      await page.getByText("No request was rejected since the gateway started.").waitFor();
      await fetch(`${world.url}/hooks/wake`, { method: "POST" });
      await page.reload();
      await page
        .getByRole("region", { name: "Refused requests" })
        .getByRole("cell", { name: "wake" })
        .waitFor();
      expect(await page.locator('script[src*="@vite/client"]').count()).toBe(1);
    } finally {
      child.kill();
      if (child.exitCode === null) await once(child, "exit");
      await browser.close();
      await world.stop();
    }
  },
);
