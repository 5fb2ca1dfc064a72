import { describe, expect, it } from "vitest";
import { searchTexts } from "../../src/knowledge/short-texts.ts";
import { systemClock } from "../../src/core/clock.ts";
import { Memory } from "../../src/people/notes.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { NO_BROWSER } from "./browser.ts";
import { createFilledWorld } from "./filled-world.ts";
import { useConsole } from "./use-console.ts";

const ODD = "<img src=x onerror=alert(1)>\u202e likes tea";

/** Adds notes of the agent about a person and about a room. */
async function addNotes({ store, cluster }: StoreHandle): Promise<void> {
  const memory = new Memory({ store, cluster, clock: systemClock }, async (...of) =>
    searchTexts(...of),
  );
  for (const [key, text, origin] of [
    ["channel:pipe:direct:bob", "Bob eats no meat.", "people"],
    ["channel:pipe:room-7", ODD, "outside"],
  ] as const)
    await memory.add(
      { agentId: "main", origin: "channel", key },
      { text, origin, runId: "run_1", callId: key },
    );
}

describe.skipIf(NO_BROWSER)("notes of agents in the console", () => {
  const { world, page, show, region } = useConsole(() => createFilledWorld(addNotes));
  const notes = async (): Promise<{ text: string; words: string; by: string | null }[]> =>
    (await world.admin("/admin/v1/memory")).body.notes;
  const row = (name: RegExp) => region("List of notes").getByRole("row", { name });

  it("are listed with their conversations, and searched", async () => {
    await show("#/system/memory");
    await row(
      /Bob eats no meat\. main channel:pipe:direct:bob people in the conversation/,
    ).waitFor();
    await row(/likes tea main channel:pipe:room-7 from outside, approved/).waitFor();
    expect(await page.locator("main img").count()).toBe(0);
    await page.getByLabel("Search notes").fill("ROOM-7");
    await row(/Bob/).waitFor({ state: "detached" });
    expect(await row(/likes tea/).count()).toBe(1);
    await page.getByLabel("Search notes").fill("zebra");
    await page.getByText("No note matches the search.").waitFor();
    await page.getByLabel("Search notes").fill("");
  });

  it("are changed, which makes them the operator's words, and deleted after a question", async () => {
    await row(/Bob/).getByRole("button", { name: "Edit…" }).click();
    await page.getByRole("textbox", { name: "Text" }).fill("Bob eats no fish.");
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await page.getByText("The note is changed.").waitFor();
    await row(/Bob eats no fish\. .* owner or operator/).waitFor();
    expect((await notes()).find(({ text }) => text === "Bob eats no fish.")).toMatchObject({
      words: "trusted",
      by: "operator",
    });
    await row(/likes tea/)
      .getByRole("button", { name: "Delete" })
      .click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    expect(await notes()).toHaveLength(2);
    await row(/likes tea/)
      .getByRole("button", { name: "Delete" })
      .click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("The note is deleted.").waitFor();
    await row(/likes tea/).waitFor({ state: "detached" });
    expect((await notes()).map(({ text }) => text)).toEqual(["Bob eats no fish."]);
    expect(await page.innerText("main")).not.toMatch(/\[object |undefined|NaN/);
  });
});
