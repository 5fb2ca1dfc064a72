import { join } from "node:path";
import type { Page } from "playwright-core";

/** Takes pictures of a page in both themes at the widths of a desk and a phone, if `ROUSE_SHOTS` names a folder for them. */
export async function shoot(page: Page, name: string): Promise<void> {
  const folder = process.env["ROUSE_SHOTS"];
  if (folder === undefined) return;
  const before = page.viewportSize();
  for (const colorScheme of ["light", "dark"] as const)
    for (const width of [1280, 390]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(300);
      await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`) });
    }
  if (before) await page.setViewportSize(before);
}
