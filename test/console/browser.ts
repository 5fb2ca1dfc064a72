import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type BrowserContext } from "playwright-core";

/** Where Debian's package puts it; `CHROMIUM` names another one. */
const EXECUTABLE = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

/**
 * Whether tests in a browser are left out because there is none. Where all checks run (`TEST_CHROMIUM_REQUIRED`) they are
 * not: they fail there.
 */
export const NO_BROWSER = !existsSync(EXECUTABLE) && process.env["TEST_CHROMIUM_REQUIRED"] === undefined;
if (NO_BROWSER) console.log(`tests in a browser are left out: there is no ${EXECUTABLE} (apt-get install chromium)`);

/** Opens a headless Chromium with a profile of its own. It reaches nothing but what the test opens. */
export async function openBrowser(): Promise<{ context: BrowserContext; close(): Promise<void> }> {
  const profile = mkdtempSync(join(tmpdir(), "rouse-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: EXECUTABLE,
    args: "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split(
      " ",
    ),
  });
  return {
    context,
    async close() {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}
