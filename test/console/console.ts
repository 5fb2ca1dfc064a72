import type { BrowserContext, Page } from "playwright-core";
import type { World } from "../e2e/world.ts";

/**
 * Opens a page of the console, signed in; the form is left out. `problems` collects what the browser objects to from then on:
 * errors of scripts, violations of the policy, requests that failed. In a clone the first visit builds the page, which this
 * waits for.
 */
export async function openConsole(
  context: BrowserContext,
  world: World,
  problems: string[] = [],
  hash = "",
): Promise<{ page: Page; problems: string[] }> {
  const page = await context.newPage();
  problems.length = 0;
  await context.request.post(`${world.url}/console/session`, {
    form: { token: world.gateway.operatorToken },
    maxRedirects: 0,
  });
  await page.goto(`${world.url}/console${hash}`);
  await page.getByRole("navigation", { name: "Pages" }).waitFor({ timeout: 100_000 });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  return { page, problems };
}
