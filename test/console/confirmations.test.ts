import { describe, expect, it } from "vitest";
import type { Store } from "../../src/store/types.ts";
import { event_ } from "../http/admin-world.ts";
import { openStoreIn } from "../store/home.ts";
import { NO_BROWSER } from "./browser.ts";
import { createAgentsWorld } from "./model-world.ts";
import { useConsole } from "./use-console.ts";

describe.skipIf(NO_BROWSER)("what cannot be taken back", () => {
  const { world, page, show } = useConsole(createAgentsWorld);

  async function change(write: (store: Store) => Promise<unknown>): Promise<void> {
    const { store } = await openStoreIn(world.dir);
    await write(store);
    await store.close();
  }
  async function ran(): Promise<{ runId: string; eventId: string }> {
    const body = {
      message: "Hello",
      sessionKey: "hook:s",
      wakeMode: "next-heartbeat",
      deliver: false,
    };
    const sent = (await world.post("/hooks/agent", body)).body;
    expect((await world.endedRun(sent.runId)).status).toBe("succeeded");
    return sent;
  }
  const error = { code: "provider_error", message: "out of order" } as const;

  /** Makes what is acted on; returns the address where the button is. */
  const actions: [button: string, prepare: () => Promise<string>][] = [
    [
      "Cancel",
      async () => {
        const { runId } = await ran();
        await change((store) =>
          store.commit((tx) =>
            tx.runs.update(runId, {
              status: "parked",
              hold: { reason: "limit", scope: "hooks", limit: "concurrent", since: Date.now() },
              endedAt: null,
            }),
          ),
        );
        return `#/runs/${runId}`;
      },
    ],
    [
      "Retry",
      async () => {
        const { runId } = await ran();
        await change((store) =>
          store.commit((tx) => tx.runs.update(runId, { status: "failed", error })),
        );
        return `#/runs/${runId}`;
      },
    ],
    ["Replay", async () => `#/events/${(await ran()).eventId}`],
    [
      "Discard",
      async () => {
        const event = event_("broken", { outcome: "failed" });
        await change((store) => store.accept(event));
        return `#/events/${event.id}`;
      },
    ],
    [
      "Revoke",
      async () => {
        await world.admin("/admin/v1/keys", {
          method: "POST",
          body: JSON.stringify({ id: "web" }),
        });
        return "#/system/keys";
      },
    ],
    [
      "Delete",
      async () => {
        const { document } = (
          await world.admin("/admin/v1/knowledge/documents?filename=a.md", {
            method: "POST",
            body: "# A",
          })
        ).body;
        return `#/documents/${document.id}`;
      },
    ],
  ];

  it.each(actions)("is asked about before it is done: %s", async (button, prepare) => {
    const address = await prepare();
    const written: string[] = [];
    page.on(
      "request",
      (request) =>
        request.method() !== "GET" && written.push(`${request.method()} ${request.url()}`),
    );
    await show(address);
    await page.reload();
    const opener = page.locator("main").getByRole("button", { name: button, exact: true }).first();
    const dialog = page.getByRole("dialog");
    const cancel = dialog.getByRole("button", { name: "Cancel", exact: true }).first();
    for (const close of [() => page.keyboard.press("Escape"), () => cancel.click()]) {
      await opener.click();
      await cancel.waitFor();
      await close();
      await dialog.waitFor({ state: "detached" });
      // The keyboard goes on where it was.
      expect(
        await opener.evaluate((element) => element === element.ownerDocument.activeElement),
      ).toBe(true);
    }
    expect(written).toEqual([]);
  });
});
