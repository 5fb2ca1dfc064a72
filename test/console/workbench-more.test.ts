import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TOKEN } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";
import { useBench } from "./bench.ts";
import { NO_BROWSER } from "./browser.ts";

const ORDER = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}}",
};
const configOf = (gateway: object): string =>
  JSON.stringify({
    gateway: { port: 0, ...gateway },
    hooks: {
      enabled: true,
      token: TOKEN,
      mappings: [ORDER],
      presets: [{ use: "github", auth: "token" }],
    },
  });
/** Whoever signs in to a gateway whose clock is put forward signs in then. */
let later = 0;
const clock = { ...REAL.clock, monotonic: () => performance.now() + later };

/** A gateway with that config, what sends hooks to it, and what writes the whole text of a mapping. */
function useMore(gateway: object) {
  const { world, one } = useBench(configOf(gateway), { clock, config: { gateway } });
  const send = async (
    body: unknown,
    path = "/hooks/shop",
  ): Promise<{ eventId: string; runId?: string }> => (await world.post(path, body)).body;
  const write = async (text: string): Promise<void> => {
    await one.page.locator(".cm-content").click();
    await one.page.keyboard.press("Control+a");
    await one.page.keyboard.insertText(text);
  };
  return { world, one, send, write };
}

describe.skipIf(NO_BROWSER)("the workbench of a console that may not write", () => {
  const { one, send, write } = useMore({ console: "read" });

  it("begins a new mapping without a request that is refused, and says why it cannot be saved here", async () => {
    const { eventId } = await send({ type: "refund", id: 7 });
    await one.open(`#/mappings/new?event=${eventId}`);
    await one.page.getByText("What you write here can be taken as a patch").waitFor();
    await one.line('path: "shop"').waitFor();
    await one.pane("Result").getByText("by shop.new").waitFor();
  });

  it("writes nothing where gateway.console is read: the change comes as a patch", async () => {
    await send({ type: "refund", id: 7 });
    await one.open("#/mappings/order");
    expect(await one.page.getByRole("button", { name: "Freeze as test" }).isDisabled()).toBe(true);
    await write(JSON.stringify({ ...ORDER, messageTemplate: "An order: {{id}}" }));
    await one.pane("Problems").getByText("no problem").waitFor();
    await one.page.getByRole("button", { name: "Save…" }).click();
    const dialog = one.page.getByRole("dialog", { name: "Save" });
    await dialog.getByText("This console may write no file").waitFor();
    await dialog.getByText("Tests:").waitFor();
    expect(await dialog.getByRole("button", { name: "Save", exact: true }).isDisabled()).toBe(true);
    const [download] = await Promise.all([
      one.page.waitForEvent("download"),
      dialog.getByRole("button", { name: "Patch", exact: true }).click(),
    ]);
    expect(readFileSync(await download.path(), "utf8")).toContain("An order: {{id}}");
  });
});

describe.skipIf(NO_BROWSER)("the workbench, besides editing", () => {
  const { world, one, send, write } = useMore({});

  it("adds a mapping for events that none takes, and shows the token dialog when the sign-in was long ago", async () => {
    const { eventId } = await send({ type: "refund", id: 7 });
    await one.open(`#/mappings/new?event=${eventId}`);
    await one.page.locator(".cm-line", { hasText: 'path: "shop"' }).waitFor();
    const text = `{ id: "refund", match: { path: "shop", payload: { type: "refund" } }, messageTemplate: "Refund {{id}}" }`;
    await write(text);
    await one.pane("Result").getByText("by refund").waitFor();
    later = 16 * 60_000;
    await one.page.getByRole("button", { name: "Save…" }).click();
    const dialog = one.page.getByRole("dialog", { name: "Save" });
    const save = dialog.getByRole("button", { name: "Save", exact: true });
    await dialog.getByText("Tests:").waitFor();
    await save.click();
    await dialog.getByLabel("Gateway token").waitFor();
    expect(world.readConfig()).not.toContain("Refund");
    await dialog.getByLabel("Gateway token").fill("wrong");
    await save.click();
    await dialog.getByText("not the gateway token").waitFor();
    await dialog.getByLabel("Gateway token").fill(world.gateway.operatorToken);
    await save.click();
    await one.page.getByText("Saved in rouse.json5").waitFor();
    expect(world.readConfig()).toContain("Refund {{id}}");
    await one.page.waitForURL(/#\/mappings\/refund/);
    expect((await send({ type: "refund", id: 8 })).runId).toMatch(/^run_/);
    expect(one.problems.filter((text) => !text.includes("403") && !text.includes("401"))).toEqual(
      [],
    );
    one.problems.length = 0;
  });

  it("shows a preset without letting it be changed, and copies it", async () => {
    const { mappings } = (await world.admin("/admin/v1/mappings")).body as {
      mappings: { id: string; own: boolean }[];
    };
    const preset = mappings.find(({ own }) => !own)?.id ?? "";
    await one.open(`#/mappings/${preset}`);
    const before = await one.page.locator(".cm-content").innerText();
    await one.page.locator(".cm-content").click();
    await one.page.keyboard.type("x");
    expect(await one.page.locator(".cm-content").innerText()).toBe(before);
    expect(await one.page.getByRole("button", { name: "Save…" }).count()).toBe(0);
    await one.page.getByRole("button", { name: "Copy into my mappings" }).click();
    await one.page.locator(".cm-line", { hasText: `${preset}-own` }).waitFor();
    await one.pane("Problems").getByText("no problem").waitFor();
    await one.page.getByRole("button", { name: "Save…" }).waitFor();
    // A mapping for what the preset leaves out does not have its name.
    const { eventId } = await send({ action: "created", sponsorship: {} }, "/hooks/github");
    await one.page.goto(`${world.url}/console#/events/${eventId}`);
    await one.button("New mapping").click();
    await one.line('"github-2.event"').waitFor();
  });

  it("asks for what a change must be confirmed for, by name", async () => {
    await send({ type: "order", id: 7 });
    await one.open("#/mappings/order");
    await write(JSON.stringify({ ...ORDER, allowUnsafeExternalContent: true }));
    await one.page.getByRole("button", { name: "Save…" }).click();
    const dialog = one.page.getByRole("dialog", { name: "Save" });
    const save = dialog.getByRole("button", { name: "Save", exact: true });
    const box = dialog.getByRole("checkbox", { name: /allowUnsafeExternalContent/ });
    await box.waitFor();
    expect(await save.isDisabled()).toBe(true);
    await box.check();
    await save.click();
    await one.page.getByText("Saved in rouse.json5").waitFor();
    expect(world.readConfig()).toContain("allowUnsafeExternalContent");
  });

  it("proposes a mapping from the events, in shadow, and opens it", async () => {
    for (const id of [1, 2]) await send({ type: "refund", id, customer: { name: "Ann" } });
    await one.open("#/mappings/order");
    await one.page.getByRole("button", { name: "Propose" }).click();
    const dialog = one.page.getByRole("dialog", { name: "Propose a mapping" });
    await dialog.getByLabel("Name of the file").fill("refunds");
    await dialog.getByRole("button", { name: "Propose" }).click();
    await dialog.getByText("refunds.event was written, in shadow").waitFor();
    await dialog.getByRole("button", { name: "Open the mapping" }).click();
    await send({ type: "refund", id: 3, customer: { name: "Ann" } });
    await one.page.getByRole("option", { name: /refunds\.event/ }).waitFor();
  });
});
