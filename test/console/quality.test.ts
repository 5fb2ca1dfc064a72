import type { BrowserContext, Page, Response } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PAGES as REGISTRY } from "../../console/src/pages.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";
import {
  EVERY_LOOK,
  examine,
  examineStates,
  expectSound,
  expectSoundAt,
  fillWorld,
  hasFolder,
  MAPPINGS,
  ONE_LOOK,
  THEMES,
} from "./quality.ts";
import { watchRequests } from "./requests.ts";

const PAGES = REGISTRY.filter((entry) => hasFolder(entry) && entry.section !== "Development");
/** The pages whose rows have a detail. */
const DETAILED = new Set([
  "live",
  "events",
  "failures",
  "runs",
  "approvals",
  "documents",
  "sessions",
  "deliveries",
]);
/** Longer than the time after which a page asks again. */
const REFRESH_MS = 6000;
const FIRST_LOAD_BYTES = 45 * 1024;
/** The browser's own line about an answer that the test itself made fail. */
const OWN_FAILURE = /^Failed to load resource/;

it("console: every page of the registry is tested", () => {
  expect(REGISTRY.filter((entry) => !hasFolder(entry)).map(({ name }) => name)).toEqual([]);
});

/** A gateway, a browser that is signed in to it, and a clock that the test moves. */
function useConsole(fill: boolean): {
  world: World;
  page: Page;
  context: BrowserContext;
  problems: string[];
} {
  const opened = {} as {
    world: World;
    page: Page;
    context: BrowserContext;
    problems: string[];
    close(): Promise<void>;
  };
  beforeAll(async () => {
    opened.world = await createWorld({ config: { hooks: { mappings: fill ? MAPPINGS : [] } } });
    if (fill) await fillWorld(opened.world);
    const browser = await openBrowser();
    opened.context = browser.context;
    // The count of open approvals waits for news for 20 s, and is what notices a session that has ended, or another version.
    // A route that the browser ended meanwhile, because its page was left, has nothing to go on with.
    await browser.context.route(/\/approvals\/count/, (route) =>
      route.continue({ url: getShortWait(route.request().url()) }).catch(() => undefined),
    );
    Object.assign(opened, await openConsole(browser.context, opened.world));
    opened.close = async () => {
      await browser.close();
      await opened.world.stop();
    };
    await opened.page.clock.install();
  });
  afterAll(() => opened.close());
  return opened;
}

/** Waits for news a second at most. */
const getShortWait = (url: string): string => url.replace(/wait=\d+/, "wait=1");
const watched = new WeakMap<Page, ReturnType<typeof watchRequests>>();

/** Opens a page, if asked to from nothing, and waits until it has asked for all that it shows. */
async function open(page: Page, world: World, hash: string, fresh = false): Promise<void> {
  let requests = watched.get(page);
  if (!requests) watched.set(page, (requests = watchRequests(page)));
  if (fresh) await page.goto("about:blank");
  requests.forget();
  await page.goto(`${world.url}/console${hash}`);
  const shown = REGISTRY.find(({ name }) => hash === `#/${name}`);
  await expect.poll(() => page.title()).toBe(`${shown?.title} · Rouse`);
  await page.locator("main h1, main [role=alert]").first().waitFor();
  await requests.settled();
  // Live has what it shows once it says whether it is connected, after a second at the latest.
  const isLive = hash === "#/live";
  await page.clock.runFor(isLive ? 1500 : 300);
  if (isLive) await page.locator(".page-head .status", { hasNotText: "connecting" }).waitFor();
  // The page of the components always shows one.
  if (hash !== "#/components")
    await page.locator("main .skeleton").first().waitFor({ state: "detached" });
}

describe.skipIf(NO_BROWSER)("an empty store", () => {
  const console = useConsole(false);
  it.each(PAGES)("$name says what it would show", async ({ name }) => {
    const { page, world, problems } = console;
    problems.length = 0;
    await open(page, world, `#/${name}`);
    // The parts that say so are on the page of the components.
    await (name === "overview" ? examine(page, EVERY_LOOK) : expectSound(page));
    await expectSoundAt(page, 390);
    expect(problems).toEqual([]);
  });

  it("#/components shows every component in its states, in both themes together", async () => {
    const { page, world, problems } = console;
    problems.length = 0;
    await open(page, world, "#/components");
    await examine(page, ONE_LOOK);
    expect(await page.getByRole("navigation", { name: "Pages" }).innerText()).not.toContain(
      "Components",
    );
    const background = (theme: string) =>
      page.evaluate(
        `getComputedStyle(document.querySelector('[aria-label="${theme} theme"]')).backgroundColor`,
      );
    expect([await background("light"), await background("dark")]).toEqual([
      "rgb(255, 255, 255)",
      "rgb(15, 17, 21)",
    ]);
    await examineStates(page);
    for (const theme of ["light", "dark"]) {
      const group = page.getByRole("group", { name: `${theme} theme` });
      await group.getByRole("button", { name: "Show a toast" }).click();
      await page.getByText("Replayed 3 events.").first().waitFor();
      await group.getByRole("button", { name: "Open a dialog" }).click();
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    expect(problems).toEqual([]);
  });

  it("is small at the first load, and loads no editor then", async () => {
    const { page, world } = console;
    const loaded: Promise<number>[] = [];
    const count = (response: Response): void => {
      if (response.url().includes("/console"))
        loaded.push(
          response
            .request()
            .sizes()
            .then((sizes) => sizes.responseBodySize),
        );
    };
    page.on("response", count);
    await (await page.context().newCDPSession(page)).send("Network.clearBrowserCache");
    await open(page, world, "#/overview", true);
    page.off("response", count);
    const sizes = await Promise.all(loaded);
    expect(sizes.filter((size) => size > 1000).length).toBeGreaterThan(1);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(FIRST_LOAD_BYTES);
  });
});

describe.skipIf(NO_BROWSER)("a filled store", () => {
  const console = useConsole(true);
  it.each(PAGES)("$name shows it, with the detail of a row, as text only", async ({ name }) => {
    const { page, world, problems } = console;
    problems.length = 0;
    await open(page, world, `#/${name}`);
    await examine(page, name === "overview" ? EVERY_LOOK : THEMES);
    await expectSoundAt(page, 390);
    await page.keyboard.press("j");
    const detail = page.locator(".split.open > .detail").first();
    if (DETAILED.has(name)) {
      await detail.locator("h2, [role=alert]").first().waitFor();
      await detail.locator(".skeleton").first().waitFor({ state: "detached" });
      await examine(page, ONE_LOOK, ".split.open > .detail");
      await expectSoundAt(page, 320);
    }
    expect(problems).toEqual([]);
  });

  it.each(PAGES)("$name says what failed, and recovers from it", async ({ name }) => {
    const { page, world, problems } = console;
    const answer = {
      error: {
        code: "store_unavailable",
        message: "The store does not answer. Look at store.url.",
      },
    };
    await page.route("**/admin/v1/**", (route) => route.fulfill({ status: 503, json: answer }));
    try {
      problems.length = 0;
      await open(page, world, `#/${name}`, true);
      // The error looks the same on each page, so one page is examined in every look.
      await (name === "overview" ? examine(page, EVERY_LOOK) : expectSound(page));
      const reason = page
        .locator("main")
        .getByText("The store does not answer. Look at store.url.");
      const said = reason.or(page.locator("main").getByText("Not loaded, for the same reason."));
      await said.first().waitFor();
      // One cause is stated once, however many panels it fails.
      expect(await reason.count()).toBe(1);
      if (name !== "live")
        expect(await page.locator("main .failed").first().innerText()).toContain(
          "The store does not answer.",
        );
      const failed = await said.count();
      if (name === "live") await page.getByText("It tries again by itself every second.").waitFor();
      await page.unrouteAll({ behavior: "wait" });
      // Live goes on by itself. Elsewhere the button is for its panel, and a page may have more of them that failed.
      if (name !== "live") await page.getByRole("button", { name: "Try again" }).first().click();
      await page.locator("main h1").first().waitFor();
      await expect.poll(() => said.count()).toBeLessThan(failed);
      if (name === "live")
        await page
          .getByRole("region", { name: "Live events" })
          .locator("tbody tr[data-id]")
          .first()
          .waitFor();
      expect(problems.filter((text) => !OWN_FAILURE.test(text))).toEqual([]);
    } finally {
      await page.unrouteAll({ behavior: "wait" });
    }
  });

  it.each(PAGES)(
    "$name keeps what it shows while the gateway is away, and continues by itself",
    async ({ name }) => {
      const { page, world, problems } = console;
      problems.length = 0;
      await open(page, world, `#/${name}`);
      const before = await page.locator("main").innerText();
      await page.route("**/admin/v1/**", (route) => route.abort());
      try {
        await page.clock.fastForward(REFRESH_MS);
        const banner = page.getByText("The gateway has not answered since");
        await banner.waitFor();
        // Times go on, so words are compared without them.
        const words = (text: string) =>
          new Set(text.split(/[\s\d]+/).filter((word) => word.length > 3));
        const shown = words(await page.locator("main").innerText());
        expect([...words(before)].filter((word) => !shown.has(word))).toEqual([]);
        // The banner is the same on each page.
        await (name === "overview" ? examine(page, ONE_LOOK) : expectSound(page));
        await page.unrouteAll({ behavior: "wait" });
        await page.clock.fastForward(REFRESH_MS);
        await banner.waitFor({ state: "detached" });
        expect(problems.filter((text) => !OWN_FAILURE.test(text))).toEqual([]);
      } finally {
        await page.unrouteAll({ behavior: "wait" });
      }
    },
  );
});
