import { describe, expect, it } from "vitest";
import { message, sayOn } from "../channels/pipe.ts";
import { codeIn, PIPES, sentTo } from "../people/linking-world.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const ODD = "<img src=x onerror=alert(1)>\u202e";

describe.skipIf(NO_BROWSER)("linked channels in the console", () => {
  const { world, page, show, region } = useConsole({
    files: PIPES,
    config: {
      owner: {},
      people: [{ id: "bob", pipe: "bob" }],
      channels: Object.fromEntries(
        ["pipe", "tube"].map((name) => [name, { name, allowFrom: ["bob", ODD] }]),
      ),
    },
  });

  it("are listed with those that the config names, and are unlinked by a button", async () => {
    await show("#/system/channels");
    const section = region("Linked channels");
    await section.getByRole("row", { name: /bob pipe bob .*unlinked/ }).waitFor();
    expect(await section.getByRole("button", { name: "Unlink" }).count()).toBe(0);
    const say = (channel: "pipe" | "tube", text: string) =>
      sayOn(world, message(text, { from: ODD, to: "dm-odd" }), channel);
    await say("pipe", "/link");
    const [code] = await world.until(
      async () =>
        sentTo(world, "odd", "pipe").length > 0 && sentTo(world, "odd", "pipe").map(codeIn),
    );
    await say("tube", `/link ${code}`);
    await section.getByRole("row", { name: /person-\w{8} tube .*linked/ }).waitFor();
    expect(await page.locator("main img").count()).toBe(0);
    expect(await section.innerText()).toContain("<img src=x onerror=alert(1)>");
    await section
      .getByRole("row", { name: /person-\w{8} tube/ })
      .getByRole("button", { name: "Unlink" })
      .click();
    await page.getByRole("dialog").getByRole("button", { name: "Unlink" }).click();
    await page.getByText(/is unlinked\.$/).waitFor();
    await section.getByText("person-").first().waitFor({ state: "detached" });
    expect((await world.admin("/admin/v1/people")).body.addresses).toMatchObject([
      { channel: "pipe", person: "bob", personId: null },
    ]);
  });
});
