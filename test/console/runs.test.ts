import { describe, expect, it } from "vitest";
import { run } from "../store/suite/make.ts";
import type { HeartbeatRun, RunChange } from "../../src/store/types.ts";
import { event_, runAction } from "../http/admin-world.ts";
import { actIn } from "../store/acted.ts";
import { openStoreIn } from "../store/home.ts";
import { NO_BROWSER } from "./browser.ts";
import { getText, useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("the runs in the console", () => {
  /** Sends a hook and waits until its run has ended. */
  async function ran(
    message: string,
    sessionKey: string,
    name: string,
  ): Promise<{ runId: string; eventId: string }> {
    const { body } = await world.post("/hooks/agent", {
      message,
      sessionKey,
      name,
      wakeMode: "next-heartbeat",
    });
    expect((await world.endedRun(body.runId)).status).toBe("succeeded");
    return body;
  }
  const open = () => openStoreIn(world.dir);
  async function change(id: string, changed: RunChange): Promise<void> {
    const { store } = await open();
    await store.commit((tx) => tx.runs.update(id, changed));
    await store.close();
  }
  const detail = () => page.locator(".detail");
  const text = () => getText(detail());

  const { world, page, problems, show, region } = useConsole({});

  it("lists runs, filters them in the address, and shows one beside the list with the keys alone", async () => {
    const { runId, eventId } = await ran("An order of 240", "hook:shop:7", "Shop");
    const other = await ran("A note", "hook:notes", "Notes");
    // The page may show what was there before the second run.
    await show("#/runs", "Notes");
    await page.keyboard.press("j");
    await detail().getByText("A note", { exact: true }).waitFor();
    expect(page.url()).toContain(other.runId);
    await page.keyboard.press("j");
    await detail().getByText("An order of 240").first().waitFor();
    expect(page.url()).toContain(runId);
    expect(await text()).not.toMatch(/\[object |undefined|NaN/);
    await page.keyboard.press("Escape");
    await detail().waitFor({ state: "detached" });
    await show(`#/runs?session=hook:shop:7`, "Shop");
    expect(await page.getByRole("row", { name: /Notes/ }).count()).toBe(0);
    await page.getByRole("button", { name: "session hook:shop:7" }).click();
    await page.getByRole("row", { name: /Notes/ }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("notes");
    await page.getByRole("row", { name: /Shop/ }).waitFor({ state: "detached" });
    expect(page.url()).toContain("q=notes");
    await show(`#/runs/${runId}?event=${eventId}`, "An order of 240");
    expect(await detail().locator("mark").first().innerText()).toContain("An order of 240");
    for (const [kind, to] of [
      ["event", `#/events/${eventId}`],
      ["session", "#/sessions/"],
      ["delivery", "#/deliveries/"],
    ] as const)
      expect([kind, await detail().locator(`a[href^="${to}"]`).count()]).not.toEqual([kind, 0]);
  });

  it("leaves heartbeats out unless they are asked for", async () => {
    await ran("An order of 12", "hook:shop:8", "Shop 8");
    const { store } = await open();
    const beat = run<HeartbeatRun>({ kind: "heartbeat", status: "failed", createdAt: Date.now() });
    await store.commit((tx) => tx.runs.add({ ...beat, spec: { ...beat.spec, name: "Beat" } }));
    await store.close();
    const row = page.getByRole("row", { name: /Beat/ });
    await show("#/runs", "Shop 8");
    expect(await row.count()).toBe(0);
    await page.getByLabel("Kind").selectOption("Any kind");
    await row.waitFor();
    await page.getByLabel("Kind").selectOption("heartbeat");
    await page.getByRole("row", { name: /Shop 8/ }).waitFor({ state: "detached" });
    expect(await page.getByRole("button", { name: "Retry many…" }).isEnabled()).toBe(false);
    await show("#/runs?status=failed", "Beat");
    expect(await page.getByLabel("Kind").innerText()).not.toContain("All but heartbeats");
  });

  it("says why a run waits, and until when, and what it has waited for; cancels it, and starts it again", async () => {
    const { runId: held } = await ran("Hold it", "hook:held", "Held");
    const at = Date.now() - 3_600_000;
    const limit = { reason: "limit", scope: "mapping:shop", limit: "runsPerHour" } as const;
    await change(held, {
      status: "parked",
      hold: { ...limit, since: at, until: at + 7_200_000 },
      waits: [
        { reason: "away", of: "acme/large", since: at + 300_000, until: at + 360_000 },
        { reason: "person", approvalIds: ["apr_1"], since: at + 400_000, until: at + 460_000 },
      ],
      endedAt: null,
    });
    await show(`#/runs/${held}`, "waits for");
    expect(await text()).toMatch(
      /waits for limits\.runsPerHour of mapping:shop, due in (?:60 min|1 h)/i,
    );
    expect(await text()).toMatch(
      /Waited 1 min 0 s for the model acme\/large, .*Waited 1 min 0 s for a person \( ?apr_1/,
    );
    await detail().getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByText("The run is cancelled now.").waitFor();
    expect((await world.get(`/hooks/runs/${held}`)).body.run.status).toBe("cancelled");
    await detail().getByRole("button", { name: "Retry" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
    await world.until(
      async () => (await world.get(`/hooks/runs/${held}`)).body.run.status === "succeeded",
    );
    await detail().getByText("succeeded").first().waitFor();
  });

  it("shows the steps of a run: calls, attempts, approvals, and a cut result in full on request", async () => {
    const { runId: acted } = await ran("Refund the order", "hook:bank", "Bank");
    const { store } = await open();
    await actIn(store, acted);
    await store.close();
    await change(acted, { usage: { inputTokens: 1200, outputTokens: 30, costUsd: 0.25 } });
    await show(`#/runs/${acted}`, "Step 2");
    const section = (name: string) => getText(region(name));
    const first = await section("Step 1");
    for (const words of [
      "acme/large answered instead of acme/small",
      "tools offered: shop.read, bank.refund, mail.send; left out by hooks.tools: <b>crm</b>.*",
      "1.2 s",
      "1,200 in (800 cached), 30 out (10 reasoning)",
      "acme/small: rate_limited: slow down (429 too_fast); tried again after 2 s",
      "acme/small: provider_unavailable: no answer",
      "I look at the order.",
    ])
      expect(first).toContain(words);
    // Calls are folded: a line each, with the arguments in short.
    expect(first).not.toContain("two cups");
    expect(first).toContain('{"order":7');
    for (const tool of ["shop.read", "bank.refund", "mail.send"])
      await region("Step 1").getByRole("button", { name: tool }).click();
    expect(await section(`Call ${acted}.0.0`)).toMatch(
      /shop.read ✓ done 320 ms Arguments .*a <b>bold<\/b> note.* Result order 7: two cups image\/png cups.png \(6 B\) Cut/,
    );
    expect(await section(`Call ${acted}.0.1`)).toMatch(
      /bank.refund ● denied .*Approval 7f3: the rule "bank.\*" names the tool, .*deny by console:ann, .*: too much/,
    );
    expect(await section(`Call ${acted}.0.2`)).toMatch(/Error the mailbox is full/);
    expect(await section("Step 2")).toMatch(/bank.refund ● waiting .*Approval 8a1.*open, expires/);
    const whole = await text();
    expect(whole).toMatch(/Bank ● waiting .*waits for a person \(.*\), due .* waits since/i);
    expect(whole).toMatch(/1,200 in, 30 out.*cost \$0\.25/i);
    expect(whole).not.toMatch(/\[object |undefined|NaN/);
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByText("a saucer the end").waitFor();
    await show("#/runs", "Bank");
    await page.getByLabel("Status").selectOption("waiting");
    await page.getByRole("row", { name: /Bank/ }).waitFor();
  });

  it("shows the delivery of the reply with each of its messages, sent or not, its tries and its error", async () => {
    const { runId } = await ran("Reply in pieces", "hook:pieces", "Pieces");
    const id = await world.until(async () => {
      const { run } = (await world.admin(`/admin/v1/runs/${runId}`)).body;
      return run.delivery === "delivered" && (run.deliveryId as string);
    });
    const { store } = await open();
    const chunks = ["the first part", "the <b>second</b> part", "the third part"];
    const error = { code: "not_delivered", message: "the room is gone" } as const;
    await store.commit((tx) =>
      tx.deliveries.update(id, { status: "failed", chunks, nextChunk: 2, attempts: 3, error }),
    );
    await show(`#/runs/${runId}`, "the third part");
    const delivery = region("Delivery");
    expect(await getText(delivery)).toMatch(
      /^Delivery ✗ failed .*2 of 3 messages sent · 3 tries .*not_delivered: the room is gone ✓ sent the first part ✓ sent the <b>second<\/b> part ● not sent the third part$/,
    );
    expect(await delivery.locator(`a[href="#/deliveries/${id}"]`).count()).toBe(1);
    // A run that is sent meanwhile is shown without a reload.
    await store.commit((tx) =>
      tx.deliveries.update(id, { status: "delivered", nextChunk: 3, error: null }),
    );
    await store.close();
    await expect.poll(async () => (await delivery.innerText()).match(/✓\s+sent/g)?.length).toBe(3);
  });

  it("finds a word in arguments and results, opens the call that has it, and leaves the other steps out", async () => {
    await show("#/runs?status=waiting", "Bank");
    // In its middle, the row has the link to its approval.
    await page.getByRole("row", { name: /Bank/ }).click({ position: { x: 20, y: 10 } });
    await page.getByLabel("Search in the steps").fill("saucer");
    await page.getByText("No step has").or(region("Step 1")).first().waitFor();
    await page.getByLabel("Search in the steps").fill("two cups");
    await region("Step 2").waitFor({ state: "detached" });
    expect(await region("Step 1").innerText()).toContain("order 7: two cups");
  });

  it("follows a run while it runs", async () => {
    const { runId } = await ran("Watch me", "hook:live", "Watched");
    await change(runId, { status: "running", endedAt: null });
    await show(`#/runs/${runId}`, "Running");
    await change(runId, {
      status: "failed",
      endedAt: Date.now(),
      error: { code: "provider_error", message: "it said no" },
    });
    await detail().getByText("provider_error: it said no").first().waitFor();
  });

  it("retries many after a preview, and only what the preview has shown", async () => {
    const failed: string[] = [];
    for (const n of [1, 2]) {
      const { runId } = await ran(`Fail ${n}`, `hook:bulk:${n}`, `Bulk ${n}`);
      await change(runId, {
        status: "failed",
        error: { code: "provider_error", message: "out of order" },
      });
      failed.push(runId);
    }
    await show("#/runs?status=failed&q=out+of+order", "Bulk 2");
    await page.getByRole("button", { name: "Retry many…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 runs would be retried.").waitFor();
    // The oldest first, so that runs of one session keep their order.
    expect(await dialog.innerText()).toMatch(
      /starts again from its beginning, in the session hook:bulk:1[^]*hook:bulk:2/,
    );
    // A run that fails after the preview is not part of it.
    const { runId: late } = await ran("Fail late", "hook:bulk:3", "Late");
    await change(late, {
      status: "failed",
      error: { code: "provider_error", message: "out of order" },
    });
    expect((await world.get(`/hooks/runs/${failed[0]}`)).body.run.status).toBe("failed");
    await dialog.getByRole("button", { name: "Retry 2 runs" }).click();
    await dialog.getByText("2 of 2 runs retried.").waitFor();
    for (const id of failed)
      await world.until(
        async () => (await world.get(`/hooks/runs/${id}`)).body.run.status === "succeeded",
      );
    expect((await world.get(`/hooks/runs/${late}`)).body.run.status).toBe("failed");
    await dialog.getByRole("button", { name: "Close" }).last().click();
  });

  it("retries none where a search finds none, and none before the rows are there", async () => {
    const many = page.getByRole("button", { name: "Retry many…" });
    await show("#/runs?status=failed", "Late");
    expect(await many.isDisabled()).toBe(false);
    await show("#/runs?status=failed&q=none-has-this", "No run like that.");
    expect(await many.isDisabled()).toBe(true);
    await show("#/runs?status=succeeded", "Bulk 1");
    expect(await many.isDisabled()).toBe(true);
    let answer = (): void => {};
    const held = new Promise<void>((resolve) => (answer = resolve));
    await page.route("**/admin/v1/runs?**", async (route) => {
      await held;
      await route.continue();
    });
    await show("#/runs?status=failed&q=out+of+order", "Runs");
    await page.getByText("Retry many…").waitFor();
    expect(await many.isDisabled()).toBe(true);
    answer();
    await page.getByRole("row", { name: /Late/ }).waitFor();
    expect(await many.isDisabled()).toBe(false);
    await page.unroute("**/admin/v1/runs?**");
  });

  it("stops when it is asked to: the rest stays as it was", async () => {
    const { store } = await open();
    const actions = Array.from({ length: 900 }, (_, n) => runAction(`hook:stop:${n}`));
    await store.accept(event_("stop", { outcome: "accepted", actions }));
    await store.commit((tx) =>
      actions.forEach(({ runId }) =>
        tx.runs.update(runId, { status: "cancelled", endedAt: Date.now() }),
      ),
    );
    await store.close();
    await show("#/runs?status=cancelled", "cancelled");
    await page.getByRole("button", { name: "Retry many…" }).click();
    const dialog = page.getByRole("dialog");
    // In the page itself: on busy cores a click from outside comes after the last of them.
    await dialog.getByRole("button", { name: "Retry 900 runs" }).waitFor();
    await page.evaluate(`(() => {
      const press = (name) => {
        const buttons = [...document.querySelectorAll("dialog footer button")];
        const button = buttons.find(({ textContent }) => textContent.trim() === name);
        if (button) button.click();
        else setTimeout(press, 0, name);
      };
      press("Retry 900 runs");
      setTimeout(press, 0, "Stop");
    })()`);
    await dialog.getByText(/^Stopped: \d+ of 900 runs retried/).waitFor();
    const counted = async (): Promise<number> =>
      (await world.admin("/admin/v1/status")).body.status.counts["runs.cancelled"] as number;
    // The one that was under way when it was stopped is finished.
    let left = -1;
    await expect.poll(async () => left === (left = await counted()), { interval: 300 }).toBe(true);
    expect(left).toBeGreaterThan(0);
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await page
      .getByRole("row", { name: /cancelled/ })
      .first()
      .waitFor();
    expect(await counted()).toBe(left);
  });

  it("says of a run that is not kept that it may have been deleted", async () => {
    await show("#/runs/run_none", 'there is no run "run_none"');
    expect(await page.locator("main").innerText()).toContain("It may have been deleted");
    problems.length = 0;
  });
});
