import { describe, expect, it } from "vitest";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Route } from "playwright-core";
import { createWorld } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("a session that ends", () => {
  const { world, page, context, show } = useConsole({}, { hasFailures: true });

  it("asks for the token until it is given, and continues at the same place with what was typed", async () => {
    await show("#/system/gateway");
    const field = page.getByLabel("Back up to");
    await field.fill("/copies/today.db");
    await context.clearCookies();
    const dialog = page.getByRole("dialog", { name: "Your session has ended" });
    const token = dialog.getByLabel("Gateway token");
    await dialog.waitFor();
    // A browser closes a dialog at the second Escape, whatever the page says.
    for (let presses = 0; presses < 3; presses++) await page.keyboard.press("Escape");
    // The page opens it again, before it paints for the second time.
    await page.evaluate(
      "new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))",
    );
    await dialog.locator("input:focus").waitFor();
    await page.keyboard.type("wrong");
    await expect.poll(() => token.inputValue()).toBe("wrong");
    expect(await dialog.getByRole("button", { name: "Close" }).count()).toBe(0);
    await token.fill(world.gateway.operatorToken);
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    expect(page.url()).toContain("#/system/gateway");
    expect(await field.inputValue()).toBe("/copies/today.db");
    await context.clearCookies();
    // A page that was never opened waits for the session, and does not speak of an update.
    await show("#/documents");
    await dialog.waitFor();
    expect(await page.getByText("could not be loaded").count()).toBe(0);
    await token.fill(world.gateway.operatorToken);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Documents" }).first().waitFor();
    await show("#/runs");
    await page.getByText("No run yet").waitFor();
    await world.post("/hooks/agent", { message: "Hello", name: "Shop" });
    await page.getByRole("row", { name: /Shop/ }).waitFor();
  });

  it("opens a page whose script was refused before the end of the session was noticed", async () => {
    await show("#/runs");
    await page.getByRole("row", { name: /Shop/ }).waitFor();
    // The page hears of nothing for a while.
    const held: Route[] = [];
    await page.route("**/admin/v1/**", (route) => void held.push(route));
    await context.clearCookies();
    const refused = page.waitForResponse(
      (response) => response.url().includes("/console/assets/") && response.status() === 401,
    );
    await show("#/sessions");
    await refused;
    await page.unrouteAll();
    // The page may have given up some of them.
    for (const route of held) await route.continue().catch(() => undefined);
    const dialog = page.getByRole("dialog", { name: "Your session has ended" });
    await dialog.getByLabel("Gateway token").fill(world.gateway.operatorToken);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Sessions" }).first().waitFor();
    expect(await page.getByText("could not be loaded").count()).toBe(0);
  });
});

describe.skipIf(NO_BROWSER)("actions that write files", () => {
  let later = 0;
  const { world, page, show } = useConsole(
    async () => {
      const clock = { ...REAL.clock, monotonic: () => performance.now() + later };
      return createWorld({ clock });
    },
    { hasFailures: true },
  );

  it("ask for the token again after a quarter of an hour, continue with it, and say why one fails", async () => {
    await show("#/system/gateway");
    const file = join(world.dir, "copy.db");
    await page.getByLabel("Back up to").fill(file);
    later = 16 * 60_000;
    await page.getByRole("button", { name: "Back up" }).click();
    const dialog = page.getByRole("dialog", { name: "Show the token again" });
    await dialog.getByLabel("Gateway token").fill("wrong");
    await dialog.getByRole("button", { name: "Go on" }).click();
    await dialog.getByText("That is not the gateway token.").waitFor();
    expect(existsSync(file)).toBe(false);
    await dialog.getByLabel("Gateway token").fill(world.gateway.operatorToken);
    await dialog.getByRole("button", { name: "Go on" }).click();
    await page.getByText(/^Backed up .*copy\.db/).waitFor();
    expect(existsSync(file)).toBe(true);
    await page.getByLabel("Back up to").fill(file);
    await page.getByRole("button", { name: "Back up" }).click();
    await page.getByText("it is there already").waitFor();
  });

  it("keep a secret that came with the token, and nothing if the question is closed", async () => {
    later += 16 * 60_000;
    await page.route("**/admin/v1/mappings", async (route) => {
      const response = await route.fetch();
      const answer = (await response.json()) as { paths: object[] };
      const path = {
        path: "crm",
        methods: ["POST"],
        auth: "signature",
        allowIps: null,
        maxBodyBytes: 1024,
      };
      await route.fulfill({ json: { ...answer, paths: [path] } });
    });
    const candidate = { id: 1, address: "192.0.2.7", at: new Date().toISOString() };
    let isProved = false;
    await page.route("**/admin/v1/hooks/secrets**", (route) =>
      route.request().method() === "GET"
        ? route.fulfill({ json: { candidates: [candidate] } })
        : isProved
          ? route.fulfill({ json: { file: "secrets/crm" } })
          : route.fulfill({
              status: 403,
              json: { error: { code: "token_needed", message: "show the gateway token again" } },
            }),
    );
    await show("#/system/mappings");
    await page.getByRole("button", { name: "Secrets that came" }).click();
    await page.getByRole("button", { name: "Accept secret 1" }).click();
    const dialog = page.getByRole("dialog", { name: "Show the token again" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("show the gateway token again").waitFor();
    await page.getByRole("button", { name: "Accept secret 1" }).click();
    await dialog.getByLabel("Gateway token").fill(world.gateway.operatorToken);
    isProved = true;
    await dialog.getByRole("button", { name: "Go on" }).click();
    await page.getByText("The secret is kept in secrets/crm.").waitFor();
    await page.unrouteAll({ behavior: "wait" });
  });
});

describe.skipIf(NO_BROWSER)("where gateway.console is read", () => {
  const { world, page, show } = useConsole(
    { config: { gateway: { console: "read" } } },
    { hasFailures: true },
  );

  it("what writes files is disabled, and says why", async () => {
    const event = (await world.post("/hooks/nowhere", { id: 7 })).headers.get(
      "x-request-id",
    ) as string;
    await show("#/system/gateway");
    await page.getByText("This console may write no file (gateway.console)").first().waitFor();
    expect(await page.getByRole("button", { name: "Back up" }).isDisabled()).toBe(true);
    await show(`#/events/${event}`);
    const freeze = page.getByRole("button", { name: "Freeze as a test" });
    await expect.poll(() => freeze.isDisabled()).toBe(true);
    expect(await freeze.getAttribute("title")).toMatch(/may write no file/);
    await page.keyboard.press("f");
    expect(await page.getByRole("dialog").count()).toBe(0);
    await show(`#/mappings/new?event=${event}`);
    for (const name of ["Propose", "Freeze as test"])
      expect(await page.getByRole("button", { name }).getAttribute("title")).toMatch(
        /may write no file/,
      );
  });
});
