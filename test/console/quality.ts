/** The rules for every page of the console in each of its states, and the store that the tests walk through. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import axe from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { PageEntry } from "../../console/src/pages.ts";
import type { World } from "../e2e/world.ts";
import { actIn } from "../store/acted.ts";
import { openStoreIn } from "../store/home.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Text that would do something if a page took it for markup, or hide something if it was shown as it is. */
export const HOSTILE = `<img src=x onerror="globalThis.broken=1"><script>globalThis.broken=1</script> \u202Egnp.exe\u0000 ünïcödé 🦣`;

export const hasFolder = ({ name }: PageEntry): boolean =>
  existsSync(join(ROOT, "console/src/pages", name, "index.tsx"));

const ORDER = {
  type: "order.created",
  data: { id: 7, total: 240, note: HOSTILE },
  lines: [{ sku: "cup", count: 2 }],
};

/** Fills a store with one of everything: each outcome, a run with steps and approvals, sessions, deliveries, a document. */
export async function fillWorld(world: World): Promise<void> {
  const message = (body: object) => world.post("/hooks/agent", { name: HOSTILE, ...body });
  const { body: first } = await message({
    message: `An order of 240 ${HOSTILE}`,
    sessionKey: "hook:shop:7",
  });
  await message({ message: "And again", sessionKey: "hook:shop:7" });
  const { body: acted } = await message({ message: "Refund the order", sessionKey: "hook:bank" });
  const ended = async (id: string) =>
    (await world.get(`/hooks/runs/${id}`)).body.run.status === "succeeded";
  for (const { runId } of [first, acted]) await world.until(() => ended(runId as string));
  const { store } = await openStoreIn(world.dir);
  await actIn(store, acted.runId as string);
  await store.close();
  await world.post("/hooks/shadowed", ORDER);
  await world.post("/hooks/shop", ORDER);
  await world.post("/hooks/shop", { ...ORDER, data: { id: 8, total: 1 } });
  await world.post("/hooks/broken", ORDER);
  await world.post("/hooks/nowhere", { [HOSTILE]: HOSTILE });
  await world.post("/hooks/wake", { text: "remember the milk", mode: "next-heartbeat" });
  await fetch(`${world.url}/hooks/shop`, { method: "POST" });
  const filename = encodeURIComponent("Handbook <b>2026</b>.md");
  const document = await world.admin(`/admin/v1/knowledge/documents?filename=${filename}`, {
    method: "POST",
    body: `# Returns\n\n${HOSTILE.replace("\u0000", "")}`,
  });
  await world.admin(`/admin/v1/knowledge/documents/${document.body.document.id}?wait=20`);
}

/** Mappings by which `fillWorld` gets each outcome. */
export const MAPPINGS = [
  {
    id: "shadowed",
    shadow: true,
    match: { path: "shadowed" },
    messageTemplate: "{{type}} and {{missing}}",
    name: "{{data.note}}",
  },
  {
    id: "order.big",
    match: { path: "shop", payload: { "data.total": { $gte: 100 } } },
    messageTemplate: "Order {{data.id}} over {{data.total}}: {{data.note}}",
  },
  { id: "broken", match: { path: "broken" }, transform: { jsonata: "{ 'message': 1 + type }" } },
];

/** Fails for text that a program shows by mistake, for markup that came in from outside, and for a page wider than its window. */
export async function expectSound(page: Page): Promise<void> {
  const text = await page.innerText("body");
  expect(text).not.toMatch(/\[object |\bundefined\b|\bNaN\b|Invalid Date/);
  expect(text).not.toContain("\u202E");
  expect(
    await page.locator("main img:not(.cm-widgetBuffer), main script, main iframe").count(),
  ).toBe(0);
  expect(await page.evaluate(() => (globalThis as { broken?: unknown }).broken)).toBeUndefined();
  const wide = (await page.evaluate("document.documentElement.scrollWidth - innerWidth")) as number;
  expect({ pixelsTooWide: Math.max(0, wide) }).toEqual({ pixelsTooWide: 0 });
}

/** Holds a page to that in a window of this width. */
export async function expectSoundAt(page: Page, width: number): Promise<void> {
  await page.setViewportSize({ width, height: 800 });
  await expectSound(page);
  await page.setViewportSize({ width: 1280, height: 800 });
}

interface AxeViolation {
  id: string;
  impact: string;
  nodes: { target: string[]; failureSummary: string }[];
}

/**
 * Fails for what axe finds that is serious or critical in a part of a page. The debugger runs it: the page's policy lets no
 * script in.
 */
async function expectAccessible(page: Page, part: string, rules: Look["rules"]): Promise<void> {
  if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axe.source);
  const options = { resultTypes: ["violations"], ...(rules && RULES[rules]) };
  // The rows of a long list are alike, and axe takes long for each.
  const found = (await page.evaluate(
    `axe.run({ include: ["${part}"], exclude: ["tbody tr:nth-child(n+12)"] }, ${JSON.stringify(options)})
      .then(({ violations }) => violations)`,
  )) as AxeViolation[];
  const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(
    serious.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map((node) => `${node.target.join(" ")}: ${node.failureSummary}`)
          .join("; ")}`,
    ),
  ).toEqual([]);
}

export interface Look {
  width: number;
  theme: "light" | "dark";
  /** Not all rules: a theme changes nothing but colours, and a width no colour. */
  rules?: keyof typeof RULES;
}
const RULES = {
  colors: { runOnly: ["color-contrast"] },
  others: { rules: { "color-contrast": { enabled: false } } },
};

/** Holds a page, or for axe a part of it, to all of it in a width and a theme. */
export async function examine(page: Page, looks: readonly Look[], part = "html"): Promise<void> {
  for (const { width, theme, rules } of looks) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await expectSound(page);
    await expectAccessible(page, part, rules);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** Elements that people point at, press or type into. */
const INTERACTIVE = "a, button, input, select, textarea, summary, tr, [role=tab], [role=option]";

/** Holds every component of a page to the contrast of text while the pointer is over it, while it is pressed, and with the focus. */
export async function examineStates(page: Page): Promise<void> {
  await page.emulateMedia({ reducedMotion: "reduce" });
  const debug = await page.context().newCDPSession(page);
  await debug.send("DOM.enable");
  await debug.send("CSS.enable");
  const { root } = await debug.send("DOM.getDocument", { depth: 0 });
  const selector = INTERACTIVE.split(", ")
    .map((one) => `main ${one}`)
    .join(", ");
  const { nodeIds } = await debug.send("DOM.querySelectorAll", { nodeId: root.nodeId, selector });
  expect(nodeIds.length).toBeGreaterThan(20);
  for (const states of [["hover"], ["hover", "active"], ["focus", "focus-visible"]]) {
    for (const nodeId of nodeIds)
      await debug.send("CSS.forcePseudoState", { nodeId, forcedPseudoClasses: states });
    await page.evaluate(
      "Promise.all(document.getAnimations().filter((one) => one instanceof CSSTransition).map((one) => one.finished))",
    );
    await expectAccessible(page, "main", "colors");
  }
  await debug.detach();
}

/** The looks in which a page is examined: rules about colours in both themes, all other rules in both widths. */
export const EVERY_LOOK: readonly Look[] = [
  { width: 1280, theme: "light" },
  { width: 1280, theme: "dark", rules: "colors" },
  { width: 390, theme: "dark", rules: "others" },
];
/** For pages: what changes with a width is the frame, which one page is examined with. */
export const THEMES = EVERY_LOOK.slice(0, 2);
/** For what changes little: a page of which another state is examined in every look. */
export const ONE_LOOK: readonly Look[] = [{ width: 1280, theme: "dark" }];
