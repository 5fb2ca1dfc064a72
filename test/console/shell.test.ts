import { describe, expect, it } from "vitest";
import { definePlugin } from "../../src/plugin/api.ts";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

/** A channel that is busy for ever: what is sent on it waits. */
const busy = definePlugin({
  id: "desk",
  channel: () => ({
    defaultTo: "ann",
    send: async () => ({ status: "retry", reason: "the desk is busy" }),
  }),
});

describe.skipIf(NO_BROWSER)("the console's frame", () => {
  const { world, page, show } = useConsole({
    plugins: [busy],
    config: {
      channels: { desk: {} },
      hooks: {
        limits: { runsPerHour: 1 },
        mappings: [
          {
            id: "order",
            match: { path: "shop", payload: { type: "order" } },
            messageTemplate: "{{id}}",
            channel: "desk",
            to: "ann",
          },
        ],
      },
    },
  });
  const rail = () => page.getByRole("navigation", { name: "Pages" });

  it("shows the rail and the page that the address names, with nothing that a browser objects to", async () => {
    await show("#/refusals");
    await page.getByRole("heading", { name: "Refused" }).waitFor();
    expect(await rail().getByRole("link", { name: "Refused" }).getAttribute("aria-current")).toBe(
      "page",
    );
  });

  it("counts open failures, runs in progress and deliveries that wait, and follows them without a reload", async () => {
    const count = async (title: string): Promise<string> =>
      (await getText(rail().getByRole("link", { name: title }))).trim();
    await show("#/refusals");
    expect(await rail().locator(".count").count()).toBe(0);
    // The second run waits for the limit, and the reply of the first one for the channel.
    for (const id of [1, 2]) await world.post("/hooks/shop", { type: "order", id });
    await world.post("/hooks/nowhere", {});
    for (const [title, of] of [
      ["Failures", "1 open"],
      ["Runs", "1 under way"],
      ["Deliveries", "1 waiting to be sent"],
    ] as const) {
      await expect.poll(() => count(title)).toBe(`${title} 1`);
      expect(
        await rail().getByRole("link", { name: title }).locator(".count").getAttribute("title"),
      ).toBe(of);
    }
    const [group] = (await world.admin("/admin/v1/failures?path=nowhere")).body.failures as {
      id: string;
    }[];
    await world.admin(`/admin/v1/failures/${group?.id}`, {
      method: "POST",
      body: JSON.stringify({ action: "resolve" }),
    });
    const [run] = (await world.admin("/admin/v1/runs?status=parked")).body.runs as { id: string }[];
    await world.admin(`/admin/v1/runs/${run?.id}/cancel`, { method: "POST" });
    await expect.poll(() => count("Failures")).toBe("Failures");
    await expect.poll(() => count("Runs")).toBe("Runs");
    expect(await count("Deliveries")).toBe("Deliveries 1");
  });
});
