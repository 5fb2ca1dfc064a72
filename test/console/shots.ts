import { join } from "node:path";
import type { Page } from "playwright-core";

/** Keeps what a page looks like, in both themes and at two widths, where `ROUSE_SHOTS` names a folder. */
export async function shoot(page: Page, name: string): Promise<void> {
  const folder = process.env["ROUSE_SHOTS"];
  if (!folder) return;
  const before = page.viewportSize();
  for (const width of [1280, 390])
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: width === 390 ? 844 : 800 });
      await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`) });
    }
  await page.emulateMedia({ colorScheme: null });
  if (before) await page.setViewportSize(before);
}
