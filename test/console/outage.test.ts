import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { approvalWorld, type ApprovalWorld } from "../approvals/world.ts";
import { CONFIG, useBench } from "./bench.ts";
import { NO_BROWSER, openBrowser } from "./browser.ts";
import { openConsole } from "./console.ts";

/** Stands before a gateway, and takes no connection and keeps none while it is away: as if its process had ended. */
interface Front {
  url: string;
  leave(): Promise<void>;
  comeBack(): Promise<void>;
}

async function createFront(target: string): Promise<Front> {
  const sockets = new Set<Socket>();
  const join = (client: Socket): void => {
    const upstream = connect(Number(new URL(target).port), "127.0.0.1");
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  };
  let server: Server = createServer(join);
  const listen = async (port: number): Promise<void> =>
    void (await once(server.listen(port, "127.0.0.1"), "listening"));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async leave() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    async comeBack() {
      server = createServer(join);
      await listen(port);
    },
  };
}

describe.skipIf(NO_BROWSER)(
  "the console when the gateway has been away, and when calls wait",
  () => {
    let world: ApprovalWorld;
    let front: Front;
    let browser: Awaited<ReturnType<typeof openBrowser>>;
    let page: Page;
    beforeAll(async () => {
      world = await approvalWorld({ agent: { approve: ["bank.*"] } });
      front = await createFront(world.url);
      browser = await openBrowser();
      ({ page } = await openConsole(browser.context, { ...world, url: front.url }));
    });
    afterAll(async () => {
      await browser?.close();
      await front?.leave();
      await world?.close();
    });

    /** Lets the gateway be away for a while. After its return `words` go away. */
    async function goAway(words: string, meanwhile?: () => Promise<void>): Promise<void> {
      const shown = page.getByText(words).first();
      await front.leave();
      await shown.waitFor();
      await (meanwhile?.() ?? page.waitForTimeout(1500));
      await front.comeBack();
      await shown.waitFor({ state: "detached" });
    }

    it("says that Live is connected again, though no event comes", async () => {
      await page.goto(`${front.url}/console#/live`);
      const state = page.locator(".page-head .status");
      await expect.poll(() => state.innerText()).toMatch(/live/);
      await goAway("not connected");
      await expect.poll(() => state.innerText()).toMatch(/live/);
    });

    it("asks again for what could not be shown, also on a page that does not refresh itself", async () => {
      await page.goto(`${front.url}/console#/system/agents`);
      await page.getByText("builtin/").or(page.getByText("local/big")).first().waitFor();
      const open = async (): Promise<void> => {
        await page.getByRole("tab", { name: "Keys" }).click();
        await page.getByText("does not answer").waitFor();
      };
      await goAway("The gateway has not answered since", open);
      await page.getByText("No key has been made").waitFor();
    });

    it("says so of a part that is loaded when it is opened, and shows it when the gateway is back", async () => {
      await page.goto(`${front.url}/console#/system/agents`);
      await page.getByText("local/big").first().waitFor();
      await goAway("The gateway has not answered since", async () => {
        await page.getByRole("tab", { name: "Memory" }).click();
        await page.locator(".failed").getByText("The gateway does not answer").waitFor();
      });
      await page.getByText("No agent has noted anything").waitFor();
    });

    it("counts calls that wait as they come, and one less as soon as the operator has decided", async () => {
      const badge = page.getByRole("link", { name: "Approvals" }).locator(".count");
      // Without timers no page refreshes itself: the page shows only changes that the gateway has sent.
      await page.addInitScript(
        "{ const start = setInterval; setInterval = (work, ms) => start(work, ms >= 5000 ? 1e9 : ms); }",
      );
      await page.goto(`${front.url}/console#/approvals`);
      await page.reload();
      await page.getByText("No call waits for approval").waitFor();
      for (const key of ["one", "two"])
        await world.orderRun({ message: "Pay.", sessionKey: `hook:${key}` });
      await world.open(2);
      await expect.poll(() => badge.innerText()).toBe("2");
      await page.reload();
      await page
        .getByRole("row", { name: /bank\.transfer/ })
        .first()
        .click();
      await page
        .locator(".detail")
        .getByRole("button", { name: /^Approve/ })
        .click();
      await expect.poll(() => badge.innerText()).toBe("1");
      // Decided elsewhere.
      const [left] = await world.open();
      await world.admin(`/admin/v1/approvals/${left?.id}`, {
        method: "POST",
        body: JSON.stringify({ verdict: "deny" }),
      });
      await expect.poll(() => badge.count()).toBe(0);
    });
  },
);

describe.skipIf(NO_BROWSER)("the workbench when the gateway has been away", () => {
  const { world, one } = useBench(CONFIG, {}, { hasFailures: true });
  let front: Front;
  beforeAll(async () => void (front = await createFront(world.url)));
  afterAll(() => front?.leave());

  it("says that nothing is evaluated yet, and evaluates by itself when the gateway is back", async () => {
    const { page } = one;
    const { eventId } = await world.order(40);
    let answer: (() => void) | undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    await page.route("**/admin/v1/changes/evaluate", async (route) => {
      await held;
      await route.continue().catch(() => undefined);
    });
    await page.goto(`${front.url}/console#/mappings/new?event=${eventId}`);
    const [problems, result, difference] = ["Problems", "Result", "What if"].map((name) =>
      one.pane(name),
    ) as [Locator, Locator, Locator];
    await problems.getByText("not evaluated yet").waitFor();
    await difference.getByText("Not compared yet").waitFor();
    expect([
      await problems.getByText("no problem").count(),
      await difference.getByText("0 event").count(),
    ]).toEqual([0, 0]);
    answer?.();
    await problems.getByText("no problem").waitFor();
    await difference.getByText("+1 run").waitFor();
    await front.leave();
    await one.line("type:").getByText('"order"', { exact: true }).dblclick();
    await page.keyboard.type("refund");
    await result.getByText("The gateway does not answer").waitFor();
    await problems.getByText("not evaluated yet").waitFor();
    await front.comeBack();
    await result.getByText("No mapping takes this event").waitFor();
    await problems.getByText("no problem").waitFor();
    await difference.getByText("+0 run").waitFor();
    expect(await page.getByText("does not answer").count()).toBe(0);
  });
});
