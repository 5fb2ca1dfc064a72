import { describe, expect, it } from "vitest";
import type { DeliveryChange } from "../../src/store/types.ts";
import { openStoreIn } from "../store/home.ts";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the deliveries in the console", () => {
  /** Sends a hook and waits until its reply is delivered. */
  async function delivered(message: string): Promise<{ id: string; runId: string }> {
    const { runId } = (await world.post("/hooks/agent", { message, wakeMode: "next-heartbeat" }))
      .body;
    const id = await world.until(async () => {
      const { run } = (await world.admin(`/admin/v1/runs/${runId}`)).body;
      return run.delivery === "delivered" && (run.deliveryId as string);
    });
    return { id, runId };
  }
  async function change(id: string, delivery: DeliveryChange): Promise<void> {
    const { store } = await openStoreIn(world.dir);
    await store.commit((tx) => tx.deliveries.update(id, delivery));
    await store.close();
  }
  const status = async (id: string): Promise<string> =>
    (await world.admin(`/admin/v1/deliveries/${id}`)).body.delivery.status;
  const fail = (id: string): Promise<void> =>
    change(id, {
      status: "failed",
      nextChunk: 1,
      chunks: ["first part", "second part"],
      error: { code: "not_delivered", message: "the room is gone" },
    });
  const detail = () => page.locator(".detail");

  const { world, page, show } = useConsole({});

  it("lists deliveries with their run, and shows which messages are sent", async () => {
    const { id, runId } = await delivered("Hello");
    await show("#/deliveries", "delivered");
    await page.getByRole("row", { name: /delivered/ }).click();
    await detail().getByText("1 of 1").waitFor();
    expect(await detail().locator(`a[href="#/runs/${runId}"]`).count()).toBe(1);
    await fail(id);
    await show("#/deliveries?status=failed", "the room is gone");
    await page.getByRole("row", { name: /the room is gone/ }).click();
    await detail().getByText("second part").waitFor();
    expect(await getText(detail())).toMatch(
      /Error not_delivered: the room is gone .* Sent 1 of 2 .*✓ sent first part ● not sent second part/,
    );
    expect(await page.locator("main").innerText()).not.toMatch(/\[object |undefined|NaN/);
  });

  it("sends one again from the first message that was not sent, after a question if it may have arrived", async () => {
    const id = (await world.admin("/admin/v1/deliveries?status=failed")).body.deliveries[0]
      .id as string;
    await change(id, { status: "unknown" });
    await show(`#/deliveries/${id}`, "second part");
    await detail().getByText("unknown").first().waitFor();
    await detail().getByRole("button", { name: "Retry" }).click();
    await page.getByRole("dialog").getByText("it may arrive twice. 1 message to send.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    expect(await status(id)).toBe("unknown");
    const before = world.printed.length;
    await detail().getByRole("button", { name: "It arrived" }).click();
    await page.getByRole("dialog").getByText("Nothing else is left to send.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "It arrived" }).click();
    await world.until(async () => (await status(id)) === "delivered");
    await detail().getByText("an operator said that it had arrived").waitFor();
    expect(world.printed.slice(before).join("")).toBe("");
    await fail(id);
    await page.reload();
    await detail().getByText("failed").first().waitFor();
    await detail().getByRole("button", { name: "Retry" }).click();
    await world.until(async () => (await status(id)) === "delivered");
    expect(world.printed.join("")).toContain("second part");
    expect(world.printed.join("")).not.toContain("first part");
    await detail().getByText("delivered").first().waitFor();
  });

  it("retries only those that a search has found, and none if it finds none", async () => {
    const [meant, other] = [await delivered("Meant"), await delivered("Other")];
    await fail(meant.id);
    await fail(other.id);
    await show(`#/deliveries?status=failed&q=${meant.runId}`, "the room is gone");
    await page.getByRole("button", { name: "Retry many…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Retry 1 delivery" }).click();
    await dialog
      .getByText("1 of 1 deliveries retried.")
      .or(dialog.getByText("1 of 1 delivery retried."))
      .waitFor();
    await world.until(async () => (await status(meant.id)) === "delivered");
    expect(await status(other.id)).toBe("failed");
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await show("#/deliveries?status=failed&q=none-has-this", "No delivery like that.");
    expect(await page.getByRole("button", { name: "Retry many…" }).isDisabled()).toBe(true);
  });
});
