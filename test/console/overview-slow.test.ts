import { beforeAll, describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

/** Each panel: what it asks for, its region, and what it shows of an empty store. */
const PANELS = [
  ["/admin/v1/activity?since=1h", "Waiting", "Nothing waits."],
  ["/admin/v1/events?limit=6", "Newest hooks", "No hook has come in yet."],
  [
    "/admin/v1/failures?status=open&limit=5",
    "Failures",
    "Nothing has failed in the last seven days",
  ],
  ["/admin/v1/channels", "Channels", "configured"],
  ["/admin/v1/findings", "Mappings", "shows no problem"],
  ["/admin/v1/doctor", "Doctor", "no model for main"],
  ["/admin/v1/usage?by=day&since=14d", "Tokens and cost a day", "No run has ended"],
] as const;

describe.skipIf(NO_BROWSER)("the overview while one answer is slow", () => {
  const { page, show, region } = useConsole({ config: { channels: { console: {} } } });

  let slow = "";
  let answered = Promise.resolve();
  // One route for all tests: a browser that is asked to stop and to begin intercepting loses requests on a busy machine.
  beforeAll(() =>
    page.route("**/admin/v1/**", async (route) => {
      const { pathname, search } = new URL(route.request().url());
      if (`${pathname}${search}` === slow) await answered;
      await route.continue().catch(() => undefined);
    }),
  );

  it.each([
    ...PANELS.map(([path, name]) => [path, name] as const),
    ["/admin/v1/status", "Channels"] as const,
  ])("shows all but what waits for %s", async (path, held) => {
    let answer = (): void => {};
    answered = new Promise<void>((resolve) => (answer = resolve));
    slow = path;
    try {
      await page.goto("about:blank");
      await show("#/overview");
      const shown = ([, name, words]: (typeof PANELS)[number]) =>
        region(name).getByText(words).first().waitFor();
      await Promise.all(PANELS.filter(([, name]) => name !== held).map(shown));
      if (slow !== "/admin/v1/status")
        await page.getByText("all that it needs can be reached").waitFor();
      // The slow one says that it loads; what is there does not move when it comes.
      const box = held === "Waiting" ? page.locator("main") : region(held);
      await box.locator(".skeleton").waitFor();
      for (const [, name, words] of PANELS)
        if (name === held)
          expect(await page.locator("main").getByText(words).count(), name).toBe(0);
      answer();
      await Promise.all(PANELS.map(shown));
      await expect.poll(() => page.locator("main .skeleton").count()).toBe(0);
    } finally {
      answer();
    }
  });
});
