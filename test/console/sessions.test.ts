import { beforeAll, describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the sessions in the console", () => {
  const runs: string[] = [];

  const mapping = {
    id: "orders",
    match: { path: "orders" },
    sessionKey: "hook:order:{{id}}",
    messageTemplate: "Order {{id}} of {{who}}",
    wakeMode: "next-heartbeat",
  };
  const { world, page, problems, show, region } = useConsole({
    config: { hooks: { mappings: [mapping] } },
  });
  beforeAll(async () => {
    for (const message of ["An order of 240", "And another one"]) {
      const { runId } = (
        await world.post("/hooks/agent", {
          message,
          sessionKey: "hook:shop:7",
          wakeMode: "next-heartbeat",
        })
      ).body;
      expect((await world.endedRun(runId)).status).toBe("succeeded");
      runs.push(runId);
    }
    const { runId } = (await world.post("/hooks/orders", { id: 7, who: "<b>Ann</b>\u202e" })).body;
    expect((await world.endedRun(runId)).status).toBe("succeeded");
    await world.post("/hooks/wake", { text: "remember the milk", mode: "next-heartbeat" });
  });

  const detail = () => page.locator(".detail");

  it("shows the turns of a session as text, each message under the run that it belongs to", async () => {
    await show("#/sessions/main/hook/hook:shop:7", "And another one");
    const text = await detail().innerText();
    expect(text.indexOf("An order of 240")).toBeLessThan(text.indexOf("And another one"));
    for (const id of runs)
      expect(await detail().locator(`a[href="#/runs/${id}"]`).count()).toBeGreaterThan(0);
    expect(text).not.toMatch(/\[object |undefined/);
    await detail().getByRole("link", { name: "runs of this session" }).click();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    expect(page.url()).toContain("session=hook%3Ashop%3A7");
  });

  it("lists sessions with the path and the credential that they belong to, and marks what came from outside", async () => {
    await show("#/sessions?origin=hook", "hook:order:7");
    await page.getByRole("row", { name: /hook:order:7/ }).click();
    await detail().getByText("credential").waitFor();
    const marks = await detail().locator("mark").allInnerTexts();
    expect(marks).toContain("<b>Ann</b>\\u202e");
    expect(await detail().locator("b").count()).toBe(0);
    await page.getByLabel("Search sessions").fill("shop");
    await page
      .locator(".list")
      .getByRole("row", { name: /hook:order:7/ })
      .waitFor({ state: "detached" });
    await page.getByRole("row", { name: /hook:shop:7/ }).waitFor();
    await show("#/sessions?origin=api", "No session like that.");
  });

  it("shows what waits for a heartbeat of the main session, and does not offer to delete it", async () => {
    await show("#/sessions/main/main/main", "remember the milk");
    expect(await region("Waiting for a heartbeat").innerText()).toContain("remember the milk");
    expect(await detail().getByRole("button", { name: "Delete the session" }).count()).toBe(0);
  });

  it("deletes the history, and then the session", async () => {
    await show("#/sessions/main/hook/hook:shop:7", "And another one");
    await detail().getByRole("button", { name: "Delete the history" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    expect(await detail().innerText()).toContain("And another one");
    await detail().getByRole("button", { name: "Delete the history" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete the history" }).click();
    await detail().getByText("It has no history").waitFor();
    const list = async () =>
      (await world.admin("/admin/v1/sessions")).body.sessions.map(
        ({ key }: { key: string }) => key,
      ) as string[];
    expect(await list()).toContain("hook:shop:7");
    const missing: string[] = [];
    page.on("response", (response) => {
      if (response.status() === 404) missing.push(decodeURIComponent(response.url()));
    });
    await detail().getByRole("button", { name: "Delete the session" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete the session" }).click();
    await detail().waitFor({ state: "detached" });
    expect(await list()).not.toContain("hook:shop:7");
    // A look at this session that was under way when it went finds nothing; all else is there.
    expect(missing.filter((url) => !url.includes("hook:shop:7"))).toEqual([]);
    expect(problems.filter((problem) => !problem.includes("404 (Not Found)"))).toEqual([]);
    problems.length = 0;
  });
});
