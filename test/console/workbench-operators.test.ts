import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { CONFIG, openBench, useBench } from "./bench.ts";

describe.skipIf(NO_BROWSER)("the workbench with several operators, sessions and gateways", () => {
  const { world, one } = useBench(CONFIG, {}, { hasFailures: true });

  it("tells the second of two browsers that the mapping was saved, and loses no text", async () => {
    await world.order(40);
    const two = await openBench(world);
    try {
      for (const each of [one, two]) {
        await each.open("#/mappings/order");
        await each.line("$gte").waitFor();
      }
      await one.change("$gte", "100", "10");
      await two.change("// orders", "// orders", "sales");
      await two.page.getByText("not saved").waitFor();
      // The second page does not know of the first save when it saves itself.
      await two.page.route("**/admin/v1/mappings/order", (route) => route.abort());
      await one.save();
      await one.page.getByText("Saved in rouse.json5").waitFor();
      await two.button("Save…").click();
      const dialog = two.page.getByRole("dialog", { name: "Save" });
      await dialog.getByText("is not as it was shown any more").waitFor();
      expect(await dialog.getByRole("button", { name: "Save", exact: true }).isDisabled()).toBe(
        true,
      );
      const first = CONFIG.replace("$gte: 100", "$gte: 10");
      expect(world.readConfig()).toBe(first);
      await two.page.unroute("**/admin/v1/mappings/order");
      await two.page.keyboard.press("Escape");
      await two.button("See both").click();
      await two.page.locator(".cm-deletedChunk").first().waitFor();
      await two.line("// sales").first().waitFor();
      await two.button("Keep mine").click();
      await two.button("Save…").click();
      await dialog.getByText("Tests:").waitFor();
      expect(await dialog.innerText()).toMatch(/-.*\$gte: 10 [^]*\+.*\$gte: 100/);
      await dialog.getByRole("button", { name: "Save", exact: true }).click();
      await two.page.getByText("Saved in rouse.json5").waitFor();
      expect(world.readConfig()).toBe(CONFIG.replace("// orders", "// sales"));
    } finally {
      await two.close();
    }
  });

  it("asks for the token above the text when the session ends while typing, and continues with it", async () => {
    await world.order(40);
    await one.open("#/mappings/order");
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    let isAsked = false;
    const asked = Promise.withResolvers<void>();
    const signedIn = Promise.withResolvers<void>();
    // A request of the session that has ended is answered after the next one has begun.
    await one.page.route("**/admin/v1/changes/evaluate", async (route) => {
      const isFirst = !isAsked && route.request().postData()?.includes("$gte: 10 ");
      if (!isFirst) return route.continue();
      isAsked = true;
      asked.resolve();
      await signedIn.promise;
      await route.fulfill({ status: 401, json: { ok: false } });
    });
    await one.line("$gte").getByText("100", { exact: true }).dblclick();
    await one.page.keyboard.type("10");
    await asked.promise;
    // Any other request may be the first to find out.
    await one.page.context().clearCookies();
    const dialog = one.page.getByRole("dialog", { name: "Your session has ended" });
    await dialog.waitFor();
    expect(await one.page.locator(".cm-content").innerText()).toContain("$gte: 10 ");
    await dialog.getByLabel("Gateway token").fill(world.gateway.operatorToken);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.waitFor({ state: "detached" });
    expect(await one.page.locator(".cm-content").innerText()).toContain("$gte: 10 ");
    signedIn.resolve();
    await one.pane("Result").getByText("by order").waitFor();
    expect(await dialog.count()).toBe(0);
  });

  it("offers to load the page again when a gateway of another version answers, and keeps unsaved text", async () => {
    await world.order(40);
    await one.open("#/mappings/order");
    await one.change("$gte", "100", "12");
    await one.page.getByText("not saved").waitFor();
    await one.page.route("**/admin/v1/**", async (route) => {
      // A request may end before its answer: the page asks for another text.
      const response = await route.fetch().catch(() => null);
      const headers = { ...response?.headers(), "x-rouse-version": "99.0.0" };
      if (response) await route.fulfill({ response, headers }).catch(() => undefined);
    });
    await one.page.getByText("The gateway runs version 99.0.0 now").waitFor();
    expect(await one.page.locator(".cm-content").innerText()).toContain("$gte: 12 ");
    await one.button("Load the page again").click();
    await one.page.getByText("There is unsaved text of this mapping").waitFor();
    await one.button("Take it up").click();
    await one.line("$gte: 12 ").waitFor();
    expect(world.readConfig()).toBe(CONFIG);
  });

  it("shows the text and its answers while a slow store keeps other panels waiting", async () => {
    const { eventId } = await world.order(40);
    let answer: (() => void) | undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    for (const slow of ["**/admin/v1/events?*", "**/admin/v1/what-if", "**/admin/v1/hooks/shape?*"])
      await one.page.route(slow, async (route) => {
        await held;
        await route.continue().catch(() => undefined);
      });
    await one.open(`#/mappings/order?event=${eventId}`);
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    await one.pane("Request").getByText("total").waitFor();
    expect(await one.pane("Events").getByRole("option").count()).toBe(0);
    await one.change("$gte", "100", "10");
    await one.pane("Result").getByText("by order").waitFor();
    answer?.();
    await one.pane("Events").getByRole("option").first().waitFor();
    await one.pane("What if").getByText("+1 run").waitFor();
  });

  it("follows the newest event until one is chosen", async () => {
    await world.order(40);
    await one.open("#/mappings/order");
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    await world.order(140);
    await one.pane("Result").getByText("by order").waitFor();
    await one.page.getByRole("option").nth(1).click();
    await one.pane("Result").getByText("No mapping takes this event").waitFor();
    await world.order(150);
    await one.page.getByRole("option").nth(2).waitFor();
    expect(await one.pane("Result").innerText()).toContain("No mapping takes this event");
  });

  it("completes keys of the config, operators and functions, each in its place", async () => {
    await world.order(140);
    await one.open("#/mappings/order");
    await one.pane("Result").getByText("by order").waitFor();
    const offered = one.page.locator(".cm-tooltip-autocomplete");
    const { keyboard } = one.page;
    await one.line("messageTemplate").click();
    await keyboard.press("End");
    await keyboard.press("Enter");
    await keyboard.type("sess");
    await offered.getByText("sessionKey").waitFor();
    // The editor takes no key for a list that has just opened (`interactionDelay`), so that a person does not choose by mistake.
    await one.page.waitForTimeout(150);
    await keyboard.press("Enter");
    await one.line("sessionKey: ").waitFor();
    await keyboard.type('"{{$upper');
    await offered.getByText("$uppercase").waitFor();
    await keyboard.press("Escape");
    await one.line("$gte").getByText("100", { exact: true }).dblclick();
    await keyboard.press("ArrowRight");
    await keyboard.type(", $l");
    await offered.getByText("$lte").waitFor();
  });
});
