import { join } from "node:path";
import type { Locator } from "playwright-core";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { approvalWorld, transferOnce } from "../approvals/world.ts";
import type { World } from "../e2e/world.ts";
import { silent } from "../store/home.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole, type Console } from "./use-console.ts";

/** As many clicks as each task may take from the overview. */
const MAX_CLICKS = 3;
const QUIET = { deliver: false, wakeMode: "next-heartbeat" };
const MAPPINGS = [
  {
    id: "order",
    match: { path: "shop", payload: { total: { $gte: 100 } } },
    messageTemplate: "Order of {{total}}",
    ...QUIET,
  },
  {
    id: "report",
    match: { path: "report" },
    limits: { runsPerHour: 1 },
    messageTemplate: "Report {{id}}",
    ...QUIET,
  },
  { id: "broken", match: { path: "billing" }, messageTemplate: "{{ $number(id) }}", ...QUIET },
];

/** Counts what a person does with a mouse. The debugger runs it in the page: the page itself cannot leave it out. */
const COUNT = `globalThis.clicks = 0;
  globalThis.counted ??= addEventListener("pointerdown", (event) => { if (event.isTrusted) globalThis.clicks++ }, { capture: true }) ?? true;`;

const HOOKS = { mappings: MAPPINGS };
const readOnce = transferOnce({}, "bank__balance");

/** What the tasks are walked with: all begin on the overview. */
function createWalker({ world, page, problems }: Console<World>) {
  const rail = (name: string): Promise<void> =>
    page
      .getByRole("navigation", { name: "Pages" })
      .getByRole("link", { name: new RegExp(`^${name}`) })
      .click();
  return {
    rail,
    region: (name: string): Locator => page.getByRole("region", { name, exact: true }),
    /** Walks from the overview, and counts the clicks. */
    async walk(steps: () => Promise<void>): Promise<void> {
      problems.length = 0;
      await page.goto(`${world.url}/console#/overview`);
      await page.reload();
      await page.getByText("Newest hooks").waitFor();
      await page.evaluate(COUNT);
      await steps();
      const clicks = await page.evaluate(
        () => (globalThis as unknown as { clicks: number }).clicks,
      );
      expect(clicks).toBeGreaterThan(0);
      expect(clicks).toBeLessThanOrEqual(MAX_CLICKS);
      expect(problems).toEqual([]);
    },
  };
}

describe.skipIf(NO_BROWSER)(
  "nine tasks of an operator, each at most three clicks from the overview",
  () => {
    const shown = useConsole(async () => {
      const world = await approvalWorld({
        agent: { approve: ["bank.transfer"] },
        hooks: HOOKS,
        prices: { "local/big": { input: 2, output: 8 } },
      });
      world.model.handler = readOnce;
      return world;
    });
    const { world, page } = shown;
    const { rail, region, walk } = createWalker(shown);
    const main = () => page.locator("main");
    const detail = () => page.locator(".detail");
    const card = (name: RegExp): Promise<void> => main().getByRole("link", { name }).click();
    const row = (name: RegExp): Promise<void> => page.getByRole("row", { name }).first().click();
    const text = async (locator: Locator): Promise<string> =>
      (await locator.innerText()).replaceAll(/\s+/g, " ");
    const hook = async (path: string, body: object) =>
      (await world.post(`/hooks/${path}`, body)).body;

    async function ran(message: string): Promise<string> {
      const { runId } = (
        await world.post("/hooks/agent", {
          message,
          name: message,
          wakeMode: "next-heartbeat",
          channel: "pipe",
          to: "ann",
        })
      ).body;
      await world.runEnded(runId);
      return runId as string;
    }

    it("why did this hook not fire", async () => {
      await hook("shop", { total: 7 });
      await walk(async () => {
        await card(/^unmatched 1$/);
        await row(/shop/);
        await region("Why").waitFor();
        expect(await text(region("Why"))).toMatch(/order does not match .* total/);
        expect(await text(detail())).toMatch(/7/);
      });
    });

    it("send it again", async () => {
      const { runId } = await hook("shop", { total: 240 });
      await world.runEnded(runId);
      const seen = world.model.requests.length;
      await walk(async () => {
        await region("Newest hooks").getByRole("link", { name: "order" }).first().click();
        await page.getByRole("button", { name: "Replay", exact: true }).click();
        await page
          .getByRole("dialog")
          .getByText("Work that it did before is done once more.")
          .waitFor();
        expect(world.model.requests).toHaveLength(seen);
        await page.getByRole("dialog").getByRole("button", { name: "Replay" }).click();
        await world.until(async () => world.model.requests.length > seen);
      });
      expect(world.lastRequest()).toMatch(/Order of .*240/);
    });

    it("which sender fails most", async () => {
      for (const id of ["a", "b", "c"]) await hook("billing", { id });
      await walk(async () => {
        await rail("Failures");
        await page.getByText("Fails most often").waitFor();
        expect(await text(main())).toMatch(/Fails most often: billing 3 Cause/);
      });
    });

    it("approve this", async () => {
      world.model.handler = transferOnce({ to: "ACME", amount: 50 });
      const { runId } = (await world.post("/hooks/agent", { message: "Pay.", ...QUIET })).body;
      await world.open();
      await walk(async () => {
        await card(/^calls waiting for approval 1$/);
        await row(/bank\.transfer/);
        expect(world.bank.calls.filter(({ tool }) => tool === "transfer")).toEqual([]);
        await detail()
          .getByRole("button", { name: /^Approve/ })
          .click();
        await detail().getByText("by operator").waitFor();
      });
      expect(await world.runEnded(runId)).toMatchObject({ status: "succeeded" });
      expect(world.bank.calls.filter(({ tool }) => tool === "transfer")).toMatchObject([
        { input: { amount: 50 } },
      ]);
      world.model.handler = readOnce;
    });

    it("why does this run wait", async () => {
      await hook("report", { id: 1 });
      await hook("report", { id: 2 });
      await walk(async () => {
        await region("Waiting").getByRole("link", { name: "1 run" }).waitFor();
        expect(await text(region("Waiting"))).not.toMatch(/queued/);
        await main().getByRole("link", { name: "runs queued 0" }).waitFor();
        await region("Waiting").getByRole("link", { name: "1 run" }).click();
        await row(/parked/);
        await detail()
          .getByText(/limits\.runsPerHour of mapping:report/)
          .first()
          .waitFor();
      });
    });

    it("what did this run cost, and which tools did it call", async () => {
      await ran("What do I have?");
      await walk(async () => {
        await rail("Runs");
        await row(/What do I have/);
        await page.getByRole("region", { name: "Step 1" }).getByText("bank.balance").waitFor();
        expect(await text(detail())).toMatch(/cost \$\d+\.\d+/i);
        expect(await text(page.getByRole("region", { name: "Step 1" }))).toMatch(/· \$\d+\.\d+/);
        expect(await text(detail())).toMatch(/\d+ in, \d+ out/);
      });
    });

    it("which delivery failed, and retry it", async () => {
      const runId = await ran("Tell me");
      const id = await world.until(async () => {
        const { run } = (await world.admin(`/admin/v1/runs/${runId}`)).body;
        return run.delivery === "delivered" && (run.deliveryId as string);
      });
      const { store } = await openStore({
        url: `sqlite:${join(world.dir, ".rouse", "rouse.db")}`,
        clock: systemClock,
        log: silent,
      });
      const error = { code: "not_delivered", message: "the room is gone" } as const;
      await store.commit((tx) =>
        tx.deliveries.update(id, {
          status: "failed",
          nextChunk: 0,
          chunks: ["sent again"],
          error,
        }),
      );
      await store.close();
      await walk(async () => {
        await card(/^deliveries failed 1$/);
        await row(/the room is gone/);
        await detail().getByRole("button", { name: "Retry" }).click();
        await world.until(async () => world.printed.join("").includes("sent again"));
        await detail().getByText("delivered").first().waitFor();
      });
    });

    it("is the channel connected, and send it a test message", async () => {
      await walk(async () => {
        await region("Channels")
          .getByText(/connected/)
          .waitFor();
        await region("Channels").getByRole("link", { name: "pipe" }).click();
        await region("Reach").getByRole("row", { name: /pipe/ }).waitFor();
        await page
          .getByRole("row", { name: /^pipe/ })
          .getByRole("button", { name: "Send a test message" })
          .click();
        await page.getByRole("button", { name: "Send", exact: true }).click();
        await page.getByText("Sent to ann.").waitFor();
      });
    });

    it("who was refused, and why", async () => {
      await fetch(`${world.url}/hooks/shop`, { method: "POST" });
      await walk(async () => {
        await rail("Refused");
        await page
          .getByRole("region", { name: "Requests" })
          .getByRole("row", { name: /shop/ })
          .waitFor();
        expect(await text(region("Requests"))).toMatch(
          /127\.0\.0\.1 no_token missing or wrong shop/,
        );
      });
    });
  },
);

// A comparison starts a second process, which has only the plugins that are files.
describe.skipIf(NO_BROWSER)("the tenth task", () => {
  const shown = useConsole({ config: { hooks: HOOKS } });
  const { world, page } = shown;
  const { rail, region, walk } = createWalker(shown);

  it("what would this change do", async () => {
    await world.post("/hooks/shop", { total: 40 });
    await walk(async () => {
      await rail("Mappings");
      await page.locator("main").getByRole("link", { name: "order", exact: true }).click();
      await page.locator(".cm-line", { hasText: "$gte" }).getByText("100", { exact: true }).click();
      await page.keyboard.press("Control+ArrowRight");
      await page.keyboard.press("Backspace");
      await page.keyboard.press("Backspace");
      await region("What if").getByText("+1 run").waitFor();
    });
  });
});
