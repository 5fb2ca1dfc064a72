import { existsSync } from "node:fs";
import { chromium, type Browser, type BrowserContext } from "playwright-core";

/** The time that tests wait for a page, in milliseconds: longer than busy cores need. */
export const PATIENCE_MS = 60_000;
/** The paths of Debian's packages; `CHROMIUM` names another one. The shell without windows takes half of the processor's time. */
const PACKAGED = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"] as const;
const EXECUTABLE =
  process.env["CHROMIUM"] ?? PACKAGED.find((path) => existsSync(path)) ?? PACKAGED[1];

/** True if there is no browser, so that tests in a browser are left out. With `TEST_CHROMIUM_REQUIRED` they run, and fail. */
export const NO_BROWSER =
  !existsSync(EXECUTABLE) && process.env["TEST_CHROMIUM_REQUIRED"] === undefined;
if (NO_BROWSER)
  console.log(
    `tests in a browser are left out: there is no ${EXECUTABLE} (apt-get install chromium)`,
  );

let browser: Promise<Browser> | undefined;

async function launch(): Promise<Browser> {
  const launched = await chromium.launch({
    executablePath: EXECUTABLE,
    // Tests send signals to gateways in this process, and Playwright would take them for its own.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    args: "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split(
      " ",
    ),
  });
  // One that crashed fails the file that it was open for, and not all that follow in this process.
  launched.on("disconnected", () => (browser = undefined));
  return launched;
}

/**
 * Shortens the waits of pages of a second or more to a tenth: how often a list is refreshed is no matter of these tests. A sentence
 * that is shown for six seconds stays that long: on a busy machine the test would look when it is gone.
 */
const shortenWaits = `
  const wait = window.setTimeout.bind(window), repeat = window.setInterval.bind(window);
  const shorter = (ms) => (ms >= 1000 && ms <= 30000 ? ms / 10 : ms);
  window.setTimeout = (run, ms, ...args) => wait(run, ms < 6000 ? shorter(ms) : ms, ...args);
  window.setInterval = (run, ms, ...args) => repeat(run, shorter(ms), ...args);
`;

/**
 * Opens a context of its own in the headless Chromium of this process, which is started once: files of tests that share a process
 * share it. It ends with the process. It reaches nothing but what the test opens.
 */
export async function openBrowser(): Promise<{ context: BrowserContext; close(): Promise<void> }> {
  browser ??= launch();
  const context = await (await browser).newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  await context.addInitScript(shortenWaits);
  return { context, close: () => context.close() };
}
