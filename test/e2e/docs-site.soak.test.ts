import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, extname, join, resolve } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NO_BROWSER, openBrowser } from "../console/browser.ts";
import { followGuide } from "./readme.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
const dir = mkdtempSync(join(tmpdir(), "rouse-site-"));
const site = join(dir, "site");

beforeAll(() => {
  // VitePress builds for development if the tests' NODE_ENV reaches it.
  execFileSync("npm", ["run", "-s", "docs:site", "--", "--outDir", site], {
    cwd: ROOT,
    env: { ...process.env, NODE_ENV: "production" },
    stdio: "pipe",
  });
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Serves the built files, as any web server would. */
async function serve(): Promise<{ server: Server; origin: string }> {
  const server = createServer((request, response) => {
    const path = join(
      site,
      decodeURIComponent(new URL(request.url ?? "/", "http://site").pathname),
    );
    const file = path.endsWith("/") ? `${path}index.html` : path;
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
    response.end(readFileSync(file));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

it("every link of the built site leads to a file of it", () => {
  const pages = globSync("**/*.html", { cwd: site });
  const broken = pages.flatMap((page) => {
    const links = [
      ...readFileSync(join(site, page), "utf8").matchAll(/ (?:href|src)="(?![a-z]+:|#)([^"#]+)/g),
    ].map(([, link = ""]) => link);
    return links
      .map((link) => (link.startsWith("/") ? join(site, link) : join(site, dirname(page), link)))
      .filter(
        (file) =>
          !existsSync(
            statSync(file, { throwIfNoEntry: false })?.isDirectory()
              ? join(file, "index.html")
              : file,
          ),
      )
      .map((file) => `${page} → ${file.slice(site.length)}`);
  });
  expect(pages.length).toBeGreaterThan(40);
  expect(broken).toEqual([]);
});

describe.skipIf(NO_BROWSER)("the documentation site in a browser", () => {
  let served: { server: Server; origin: string };
  let browser: { context: BrowserContext; close(): Promise<void> };
  let page: Page;
  const problems: string[] = [];

  beforeAll(async () => {
    served = await serve();
    browser = await openBrowser();
    page = await browser.context.newPage();
    page.on("pageerror", ({ message }) => problems.push(message));
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(served.origin) && !url.startsWith("data:"))
        problems.push(`asked for ${url}`);
    });
  });
  afterAll(async () => {
    await browser?.close();
    served?.server.close();
  });

  it("opens in the reader's theme", async () => {
    const backgrounds = [];
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto(`${served.origin}/`);
      await page.locator("h1").getByText("Rouse").waitFor();
      const images = page.locator(".vp-doc img");
      await images.first().waitFor();
      await expect
        .poll(() =>
          images.evaluateAll((all) =>
            all.map((image) => (image as unknown as { naturalWidth: number }).naturalWidth > 0),
          ),
        )
        .toEqual([true, true]);
      backgrounds.push(await page.evaluate("getComputedStyle(document.body).backgroundColor"));
    }
    expect(backgrounds[0]).not.toBe(backgrounds[1]);
    expect(problems).toEqual([]);
  });

  it("finds a page by a word of it", async () => {
    await page.locator("#local-search button").first().click();
    await page.locator("input.search-input").fill("fencing token");
    await page.locator(".results .result").getByText("Glossary").first().click();
    await page.locator("h1").getByText("Glossary").waitFor();
    expect(problems).toEqual([]);
  });

  it("shows a guide that works in an empty folder, by the commands on the page", async () => {
    await page.goto(`${served.origin}/docs/`);
    await page.locator(".VPSidebar").getByText("Your first event").click();
    await page.locator("h1").getByText("Your first event").waitFor();
    const blocks = await page.locator(".vp-doc div[class^='language-']").evaluateAll((found) =>
      found.map((block) => ({
        language: /^language-(\w*)/.exec(block.className)?.[1] ?? "",
        text: `${block.querySelector("pre code")?.textContent ?? ""}\n`,
      })),
    );
    const home = join(dir, "home");
    await followGuide(
      { home, folder: join(home, "my-rouse") },
      blocks.filter(({ language }) => language === "sh"),
    );
    expect(problems).toEqual([]);
  });
});
