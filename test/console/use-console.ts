import type { BrowserContext, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";
import { openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";

type Made = World & { close?(): Promise<void> };

interface UseOptions {
  /** Tests cause browser errors on purpose, by requests that fail. By default each test fails for a browser error. */
  hasFailures?: boolean;
}

export interface Console<W extends World> {
  readonly world: W;
  readonly page: Page;
  readonly context: BrowserContext;
  /** The errors of the browser in this test. The test may remove them. */
  readonly problems: string[];
  /** Opens an address of the page, such as `#/runs`, and waits until it shows these words. */
  show(hash: string, words?: string): Promise<void>;
  /** The part of the page with this name. */
  region(name: string): Locator;
}

/** The text of an element in one line. */
export const getText = async (element: Locator): Promise<string> =>
  (await element.innerText()).replaceAll(/\s+/g, " ");

/** Stands for what `get` returns, which is there only while tests are executed. */
export const standIn = <T extends object>(get: () => T | undefined): T =>
  new Proxy({} as T, {
    get(_, name) {
      const target = get();
      if (!target) throw new Error("the console is open only while tests are executed");
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function"
        ? (value as (...of: unknown[]) => unknown).bind(target)
        : value;
    },
  });

/**
 * Gives the tests of a suite a gateway and a browser that is signed in to its console, and closes both behind them. `make`
 * makes the gateway, or has its options.
 */
export function useConsole<W extends Made = World>(
  make: WorldOptions | (() => Promise<W>),
  { hasFailures = false }: UseOptions = {},
): Console<W> {
  let world: W | undefined;
  let browser: Awaited<ReturnType<typeof openBrowser>> | undefined;
  let page: Page | undefined;
  const problems: string[] = [];
  const open = async (): Promise<void> => {
    world = typeof make === "function" ? await make() : ((await createWorld(make)) as W);
    browser = await openBrowser();
    const opened = await openConsole(browser.context, world, problems);
    page = opened.page;
  };
  const close = async (): Promise<void> => {
    await browser?.close();
    await (world?.close?.() ?? world?.stop());
    browser = world = page = undefined;
  };
  if (!hasFailures) afterEach(() => expect(problems.splice(0)).toEqual([]));
  beforeAll(open, 120_000);
  afterAll(close);
  const shown: Console<W> = {
    world: standIn(() => world),
    page: standIn(() => page),
    context: standIn(() => browser?.context),
    problems,
    async show(hash, words) {
      await shown.page.goto(`${shown.world.url}/console${hash}`);
      if (words === undefined) return;
      await shown.page.locator("main").getByText(words).filter({ visible: true }).first().waitFor();
    },
    region: (name) => shown.page.getByRole("region", { name, exact: true }),
  };
  return shown;
}
