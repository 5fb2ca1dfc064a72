import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from "vitest";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";
import { openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";
import { standIn } from "./use-console.ts";

export const CONFIG = `{
  gateway: { port: 0 },
  hooks: {
    enabled: true,
    token: "test-hook-token-0123456789",
    mappings: [
      // Orders of the shop.
      {
        id: "order", // orders
        match: { path: "shop", payload: { type: "order", total: { $gte: 100 } } },
        messageTemplate: "Order {{id}} of {{total}}",
      },
      { id: "rest", match: { path: "shop", payload: { type: "refund" } }, messageTemplate: "{{id}}" },
    ],
  },
}
`;

/** The workbench in one browser. */
export interface BenchPage {
  page: Page;
  problems: string[];
  /** Opens a page of the console that has an editor. */
  open(address: string): Promise<void>;
  pane(name: string): Locator;
  /** Replaces a text of the line that has `line`, of several words the last one. */
  change(line: string, from: string, to: string): Promise<void>;
  line(text: string): Locator;
  button(name: string): Locator;
  /** Opens the dialog that saves, and waits for what it has checked. */
  openSave(): Promise<Locator>;
  /** Saves the text that is in the editor. */
  save(): Promise<void>;
  close(): Promise<void>;
}

/** The selected text around an element. The editor is in a shadow root, which has a selection of its own. */
const readSelection = (element: { getRootNode(): unknown }): string =>
  String((element.getRootNode() as { getSelection(): unknown }).getSelection());

type BenchWorld = World & {
  readConfig(): string;
  order(total: number): Promise<{ eventId: string; runId?: string }>;
};

/** A gateway with the config above, in whose folder the mappings are. */
async function createBenchWorld(options: WorldOptions): Promise<BenchWorld> {
  const world = await createWorld(options);
  return {
    ...world,
    readConfig: () => readFileSync(join(world.dir, "rouse.json5"), "utf8"),
    order: async (total) =>
      (await world.post("/hooks/shop", { type: "order", id: 7, total })).body as {
        eventId: string;
        runId?: string;
      },
  };
}

/** Makes the gateway of an earlier test as if it were new: its process that compares is kept, and starts once a file. */
async function renew(world: World, config: string): Promise<void> {
  for (const folder of ["mappings", "tests"])
    rmSync(join(world.dir, folder), { recursive: true, force: true });
  const db = new DatabaseSync(join(world.dir, ".rouse", "rouse.db"));
  db.exec("DELETE FROM events");
  db.close();
  world.write("rouse.json5", config);
  const reloaded = await world.gateway.reload();
  if (!reloaded.ok) throw new Error("the config has problems");
}

/** Gives the tests of a suite a gateway with a config, which each finds as if it were new, and each a browser of its own. */
export function useBench(
  config = CONFIG,
  options: WorldOptions = {},
  { hasFailures = false } = {},
): { world: BenchWorld; one: BenchPage } {
  let world: BenchWorld | undefined;
  let one: BenchPage | undefined;
  beforeAll(async () => void (world = await createBenchWorld(options)));
  beforeEach(async () => {
    await renew(world as BenchWorld, config);
    one = await openBench(world as BenchWorld);
  });
  afterEach(async () => {
    await one?.close();
    if (!hasFailures) expect(one?.problems).toEqual([]);
  });
  afterAll(() => world?.stop());
  return { world: standIn(() => world), one: standIn(() => one) };
}

/** Opens a browser of its own, signed in. */
export async function openBench(world: World): Promise<BenchPage> {
  const browser = await openBrowser();
  const { page, problems } = await openConsole(browser.context, world, [], "#/mappings");
  await page.setViewportSize({ width: 1280, height: 800 });
  const line = (text: string): Locator => page.locator(".cm-line", { hasText: text });
  const button: BenchPage["button"] = (name) => page.getByRole("button", { name, exact: true });
  const openSave = async (): Promise<Locator> => {
    await button("Save…").click();
    const dialog = page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("Tests:").waitFor();
    return dialog;
  };
  return {
    page,
    problems,
    line,
    async open(address) {
      await page.goto(`${world.url}/console${address}`);
      await page.locator(".cm-content").waitFor();
    },
    pane: (name) => page.getByRole("region", { name, exact: true }),
    async change(at, from, to) {
      const word = line(at).getByText(from, { exact: true });
      // The first answer moves what is shown: a double click that it comes between selects something else.
      await vi.waitFor(async () => {
        await word.dblclick();
        // It takes a word, without the signs before it.
        expect(await word.evaluate(readSelection)).toBe(from.split(" ").at(-1));
      });
      await page.keyboard.type(to);
    },
    button,
    openSave,
    async save() {
      const dialog = await openSave();
      await dialog.getByRole("button", { name: "Save", exact: true }).click();
    },
    close: () => browser.close(),
  };
}
