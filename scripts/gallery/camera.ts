import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { watchRequests } from "../../test/console/requests.ts";

export interface Look {
  width: number;
  height: number;
  theme: "light" | "dark";
}

/** A laptop and a phone, each in both themes. */
const LOOKS: readonly Look[] = [
  [1280, 800],
  [390, 844],
].flatMap(([width = 0, height = 0]) =>
  (["light", "dark"] as const).map((theme) => ({ width, height, theme })),
);

/** A picture: its name, and the way to the state of its page. */
export interface Scene {
  name: string;
  hash: string;
  /** Comes before the page is opened. */
  before?(page: Page): Promise<unknown>;
  /** Brings the open page into its state. */
  arrange?(page: Page): Promise<void>;
}

/** Takes a scene in each width and theme. */
export type Camera = (scene: Scene) => Promise<void>;

/** Signs in to the console, and returns what takes pictures of it into a folder. */
export async function openCamera(
  context: BrowserContext,
  url: string,
  token: string,
  folder: string,
): Promise<Camera> {
  const first = await context.newPage();
  await first.goto(`${url}/console`);
  await first.fill('input[name="token"]', token);
  await first.press('input[name="token"]', "Enter");
  // In a clone, the first visit builds the page.
  await first.getByRole("navigation", { name: "Pages" }).waitFor();
  await first.close();
  await context.clock.install();
  return async ({ name, hash, before, arrange }) => {
    // The routes that a scene sets end with its page.
    const page = await context.newPage();
    const requests = watchRequests(page);
    try {
      for (const { width, height, theme } of LOOKS) {
        await page.unrouteAll({ behavior: "ignoreErrors" });
        await page.setViewportSize({ width, height });
        await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
        await page.goto("about:blank");
        requests.forget();
        await before?.(page);
        await page.goto(`${url}/console${hash}`);
        await arrange?.(page);
        await page.locator("main h1, main [role=alert], form").first().waitFor();
        await requests.settled();
        // The page of the components always shows one.
        if (name !== "components")
          await page.locator("main .skeleton").first().waitFor({ state: "detached" });
        await page.screenshot({ path: join(folder, `${name}-${width}-${theme}.png`) });
      }
    } finally {
      await page.close();
    }
  };
}
