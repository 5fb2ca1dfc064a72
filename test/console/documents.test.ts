import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { createAgentsWorld } from "./model-world.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const GUIDE = [
  "# Coffee machine",
  ...[
    "Descaling takes twenty minutes and needs one sachet of citric acid.",
    "Milk is frothed at sixty-five degrees.",
  ].map(
    (text, index) =>
      `## Part ${index + 1}\n\n${text} ${"The blue cabinet is next to the door and holds the cups. ".repeat(40)}`,
  ),
  `## Part 3\n\nReturns are taken within thirty days. ${"The shelf holds the filters of paper. ".repeat(40)}`,
].join("\n\n");

describe.skipIf(NO_BROWSER)("documents and chat in the console", () => {
  const { world, page, problems, show } = useConsole(createAgentsWorld);
  beforeAll(async () => {
    mkdirSync(join(world.dir, "files"));
    writeFileSync(join(world.dir, "files/guide.md"), GUIDE);
    writeFileSync(join(world.dir, "files/large.txt"), "x".repeat(1_000_001));
    writeFileSync(join(world.dir, "files/broken.pdf"), "%PDF-1.4 this is none");
  });

  const file = (name: string): string => join(world.dir, "files", name);
  const clean = async (): Promise<void> => {
    expect(await page.innerText("main")).not.toMatch(/\[object |undefined|NaN/);
  };
  const detail = () => page.getByRole("article", { name: /^Document / });

  it("says how to add the first document", async () => {
    await show("#/documents");
    await page.getByText("There is no document yet.").waitFor();
    expect(await page.innerText("main")).toContain("rouse knowledge add returns.md");
    await clean();
  });

  it("uploads files that are dropped on it, says how far that is, and shows each document's state", async () => {
    await show("#/documents");
    // The gateway's answer is held back until the bar was seen.
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route("**/admin/v1/knowledge/documents?**", async (route) => {
      if (route.request().method() === "POST") await held;
      await route.continue();
    });
    const data = await page.evaluateHandle(`(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([${JSON.stringify(GUIDE)}], "guide.md"));
      return transfer;
    })()`);
    await page.dispatchEvent(".documents-drop", "dragover", { dataTransfer: data });
    await page.getByText("Drop the files to index them").waitFor();
    await page.dispatchEvent(".documents-drop", "drop", { dataTransfer: data });
    await page.getByRole("progressbar", { name: "Upload of guide.md" }).waitFor();
    release();
    await page.getByRole("list", { name: "Uploads" }).getByText("received").waitFor();
    await page.unrouteAll({ behavior: "wait" });
    await page.getByRole("row", { name: /ready.*guide|ready.*Coffee machine/ }).waitFor();
    await clean();
  });

  it("says why a file was not taken, and why a document could not be read", async () => {
    await page
      .getByLabel("Files to upload")
      .setInputFiles([file("large.txt"), file("broken.pdf"), file("guide.md")]);
    const list = page.getByRole("list", { name: "Uploads" });
    await list.getByText("is there already").waitFor();
    const large = list.getByRole("listitem").filter({ hasText: "large.txt" });
    await large.getByText(/not sent/).waitFor();
    expect(await large.innerText()).toContain("the file has more than 1000000 bytes");
    await page.getByRole("row", { name: /failed.*broken\.pdf/ }).click();
    await detail()
      .getByText(/broken document|unsupported type/)
      .waitFor();
    // The browser logs the refusal itself.
    expect(problems.filter((text) => !text.includes("413"))).toEqual([]);
    problems.length = 0;
  });

  it("finds passages with their scores, opens one in its document, and keeps it in the address", async () => {
    await show("#/documents");
    await page.getByLabel("Search in passages").fill("how long does descaling take");
    const row = page.getByRole("row", { name: /twenty minutes/ });
    await row.waitFor();
    expect(Number((await row.getByRole("cell").first().innerText()).trim())).toBeGreaterThan(0);
    await row.click();
    const marked = detail().locator('[aria-current="true"]');
    await marked.getByText(/twenty minutes/).waitFor();
    expect((await marked.boundingBox())?.y).toBeLessThan(page.viewportSize()?.height ?? 0);
    expect(await detail().innerText()).toContain("thirty days");
    expect(page.url()).toMatch(/#\/documents\/doc_\w+%23\d+\?q=how\+long/);
    await page.reload();
    await marked.getByText(/twenty minutes/).waitFor();
    await page.getByLabel("Search in passages").fill("zebra");
    await page.getByText("No passage has one of these words.").waitFor();
    await clean();
  });

  it("reads a document again, and deletes it after a question", async () => {
    await show("#/documents");
    await page.getByRole("row", { name: /broken\.pdf/ }).click();
    await detail().getByRole("button", { name: "Read again" }).click();
    await page.getByText("The document is read again.").waitFor();
    await detail().getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    expect((await world.admin("/admin/v1/knowledge/documents")).body.documents).toHaveLength(2);
    await detail().getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("Deleted broken.pdf.").waitFor();
    await page.getByRole("row", { name: /broken\.pdf/ }).waitFor({ state: "detached" });
    expect((await world.admin("/admin/v1/knowledge/documents")).body.documents).toHaveLength(1);
    await clean();
  });

  it("talks to any agent, shows its steps, and links what it cites to the passage", async () => {
    const search = {
      id: "call_1",
      name: "knowledge_search",
      arguments: JSON.stringify({ query: "returns thirty days" }),
    };
    world.model.says = (_asked, call) =>
      call === 0
        ? { calls: [search] }
        : { text: ["Within thirty ", "days [1]. In `list[1]` it is code."] };
    await show("#/chat?agent=sales");
    await page.getByText("Write to an agent to see what it answers").waitFor();
    await page.getByLabel("Message").fill("How long are returns taken?");
    await page.keyboard.press("Enter");
    const turn = page.getByRole("list", { name: "Conversation" }).getByRole("listitem").first();
    await turn.getByText("succeeded").waitFor();
    await turn.getByText("2 steps").waitFor();
    expect(await turn.innerText()).toMatch(/sales[^]*Within thirty days \[1\]\./);
    await turn.locator("summary", { hasText: "knowledge_search" }).click();
    expect(await turn.innerText()).toContain('"returns thirty days"');
    expect(await turn.getByRole("link", { name: "[1]" }).count()).toBe(1);
    await turn.getByRole("link", { name: "[1]" }).click();
    await detail()
      .locator('[aria-current="true"]')
      .getByText(/within thirty days/)
      .waitFor();
    await page.goBack();
    // The conversation goes on where it was.
    await turn.getByText("Within thirty days [1]. In `list[1]` it is code.").waitFor();
    await clean();
  });

  it("stops a turn, says why one fails, and keeps what was not sent over a reload", async () => {
    world.model.says = () => ({
      text: ["slow"],
      wait: () => new Promise((resolve) => setTimeout(resolve, 20_000)),
    });
    await show("#/chat");
    await page.reload();
    await page.getByLabel("Message").fill("Take your time");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".status", { hasText: "cancelled" }).waitFor();
    world.model.says = () => ({ status: 400, error: { message: "the model is gone" } });
    await page.getByLabel("Message").fill("And now?");
    await page.keyboard.press("Enter");
    await page.locator(".status", { hasText: "failed" }).waitFor();
    expect(
      await page.getByRole("list", { name: "Conversation" }).getByRole("alert").last().innerText(),
    ).not.toBe("");
    await page.getByLabel("Message").fill("half a thought");
    await page.reload();
    expect(await page.getByLabel("Message").inputValue()).toBe("half a thought");
    await clean();
  });
});
