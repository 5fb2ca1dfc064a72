import type { BrowserContext, Page } from "playwright-core";
import type { World } from "../e2e/world.ts";

/** What a browser may object to that is no fault of the page: the sign-in form itself is answered 401. */
const SIGN_IN = /status of 401/;

/**
 * Opens the console and signs in. `problems` collects what the browser objects to from then on: errors of scripts, violations
 * of the policy, requests that failed. In a clone the first visit builds the page, which this waits for.
 */
export async function openConsole(
  context: BrowserContext,
  world: World,
  problems: string[] = [],
): Promise<{ page: Page; problems: string[] }> {
  const page = await context.newPage();
  problems.length = 0;
  await page.goto(`${world.url}/console`);
  await page.fill('input[name="token"]', world.gateway.operatorToken);
  await page.press('input[name="token"]', "Enter");
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  page.on("pageerror", (error) => problems.push(error.message));
  page.on(
    "console",
    (message) =>
      message.type() === "error" && !SIGN_IN.test(message.text()) && problems.push(message.text()),
  );
  return { page, problems };
}
