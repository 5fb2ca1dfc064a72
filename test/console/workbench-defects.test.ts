import { describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { CONFIG, useBench } from "./bench.ts";

describe.skipIf(NO_BROWSER)("the workbench keeps what is written", () => {
  const { world, one } = useBench();

  it("offers nothing to take back after a save, though the list of mappings still has the old text", async () => {
    await world.order(40);
    await one.open("#/mappings/order");
    await one.change("$gte", "100", "10");
    await one.page.getByText("not saved").waitFor();
    // The page's request after the save has no answer until the test gives it.
    let answer: (() => void) | undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    await one.page.route("**/admin/v1/mappings/order", async (route) => {
      await held;
      await route.continue().catch(() => undefined);
    });
    await one.save();
    await one.page.getByText("Saved in rouse.json5").waitFor();
    await one.page.getByText("not saved").waitFor({ state: "detached" });
    expect(await one.page.getByText("The file has another text by now").count()).toBe(0);
    const read = one.page.waitForResponse("**/admin/v1/mappings/order");
    answer?.();
    await (await read).finished();
    expect(await one.page.getByText("The file has another text by now").count()).toBe(0);
    expect(await one.page.locator(".cm-content").innerText()).toContain("$gte: 10 ");
    // A later change by somebody else is still reported.
    world.write("rouse.json5", world.readConfig().replace("$gte: 10 ", "$gte: 11 "));
    await world.reload();
    await one.page.getByText("The file has another text by now").waitFor();
    await one.button("Show it").click();
    await one.line("$gte: 11 ").waitFor();
    // A comparison that starts between the write and the reload is refused: the gateway does not use that file yet.
    expect(one.problems.filter((problem) => !/status of 409/.test(problem))).toEqual([]);
    one.problems.length = 0;
  });

  it("keeps what is typed while an earlier text is offered, and offers both", async () => {
    await world.order(40);
    await one.open("#/mappings/order");
    await one.change("$gte", "100", "12");
    await one.page.getByText("not saved").waitFor();
    await one.page.reload();
    await one.button("Take it up").waitFor();
    await one.line("$gte: 100").waitFor();
    await one.change("$gte", "100", "13");
    await one.page.getByText("not saved").waitFor();
    await one.page.reload();
    await one.line("$gte: 100").waitFor();
    await expect.poll(() => one.button("Take it up").count()).toBe(2);
    await one.button("Take it up").first().click();
    await one.line("$gte: 13 ").waitFor();
    await one.button("Take it up").click();
    await one.line("$gte: 12 ").waitFor();
    // The replaced text is not lost.
    await one.button("Take it up").click();
    await one.line("$gte: 13 ").waitFor();
    await one.button("Drop it").click();
    await one.page.reload();
    await expect.poll(() => one.button("Take it up").count()).toBe(1);
    await one.button("Take it up").click();
    await one.line("$gte: 13 ").waitFor();
    expect(world.readConfig()).toBe(CONFIG);
  });
});
