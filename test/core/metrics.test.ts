import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createMetrics, type Metrics } from "../../src/core/metrics.ts";

let metrics: Metrics;
beforeEach(() => {
  metrics = createMetrics();
});
afterEach(() => metrics.close());

const value = async (name: string): Promise<string | undefined> =>
  (await metrics.render())
    .split("\n")
    .find((line) => line.startsWith(`${name} `))
    ?.slice(name.length + 1);

describe("metrics", () => {
  it("counts hooks by path and outcome, and only paths of the config by name", async () => {
    metrics.setPaths(["shop"]);
    for (const path of ["shop", "shop", "wake", "made-up", "../x"])
      metrics.hookAnswered({ path, outcome: "accepted", seconds: 0.02 });
    expect(await value('rouse_hooks_total{path="shop",outcome="accepted"}')).toBe("2");
    expect(await value('rouse_hooks_total{path="wake",outcome="accepted"}')).toBe("1");
    expect(await value('rouse_hooks_total{path="other",outcome="accepted"}')).toBe("2");
    expect(await value('rouse_hook_answer_seconds_bucket{le="0.01",outcome="accepted"}')).toBe("0");
    expect(await value('rouse_hook_answer_seconds_bucket{le="0.025",outcome="accepted"}')).toBe(
      "5",
    );
  });

  it("keeps counting over a reload, and drops a path that is gone into other", async () => {
    metrics.setPaths(["shop"]);
    metrics.hookAnswered({ path: "shop", outcome: "accepted", seconds: 0 });
    metrics.setPaths(["shop", "mail"]);
    metrics.hookAnswered({ path: "shop", outcome: "accepted", seconds: 0 });
    metrics.setPaths(["mail"]);
    metrics.hookAnswered({ path: "shop", outcome: "accepted", seconds: 0 });
    expect(await value('rouse_hooks_total{path="shop",outcome="accepted"}')).toBe("2");
    expect(await value('rouse_hooks_total{path="other",outcome="accepted"}')).toBe("1");
  });

  it("bounds labels whose values come from outside", async () => {
    for (let i = 0; i < 500; i++) metrics.refused(`reason-${i}`);
    const lines = (await metrics.render())
      .split("\n")
      .filter((line) => line.startsWith("rouse_refusals_total{"));
    expect(lines.length).toBeLessThanOrEqual(101);
    expect(await value('rouse_refusals_total{reason="other"}')).toBe("400");
  });

  it("shows runs, waits, deliveries and the rows of the store", async () => {
    metrics.watchCounts(async () => ({ "runs.queued": 3 }));
    metrics.runStarted({ waitSeconds: 2 });
    metrics.runEnded({ status: "failed", seconds: 4 });
    metrics.deliveryEnded({ channel: "console", status: "delivered" });
    expect(await value("rouse_queue_wait_seconds_sum")).toBe("2");
    expect(await value('rouse_run_seconds_count{status="failed"}')).toBe("1");
    expect(await value('rouse_deliveries_total{channel="console",status="delivered"}')).toBe("1");
    expect(await value('rouse_store_rows{kind="runs",state="queued"}')).toBe("3");
    let overdue: () => Promise<number> = async () => 90_000;
    metrics.watchBodies(() => overdue());
    expect(await value("rouse_store_bodies_overdue_seconds")).toBe("90");
    overdue = () => Promise.reject(new Error("away"));
    expect(await value("rouse_store_bodies_overdue_seconds")).toBeUndefined();
    expect(
      Number(await value('rouse_event_loop_delay_seconds{quantile="0.5"}')),
    ).toBeGreaterThanOrEqual(0);
  });
});
