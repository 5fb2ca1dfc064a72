import { afterEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { until } from "../../src/testing/harness.ts";
import { scale } from "../soak.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema } from "./postgres.ts";
import { createProxy } from "./proxy.ts";

/** Two or more probes of the connection that listens, which is asked every 5 seconds. */
const PROBES_MS = scale(11_500, 27_000);

describePostgres("the connection that listens", () => {
  const schema = newSchema();
  afterEach(() => schema.drop());

  it("is asked again only after it has answered", async () => {
    const proxy = await createProxy(new URL(schema.url));
    const url = new URL(schema.url);
    url.port = String(proxy.port);
    const warnings: string[] = [];
    const warn = ({ message }: Error): void => void warnings.push(message);
    process.on("warning", warn);
    const { store, queue } = await openStore({ url: url.href, clock: systemClock, log: silent });
    try {
      queue.onReady(() => undefined);
      await until(() => false, 1000);
      proxy.set("paused");
      await until(() => false, PROBES_MS);
      expect(warnings.filter((message) => message.includes("client.query()"))).toEqual([]);
    } finally {
      proxy.set("open");
      await store.close();
      process.off("warning", warn);
      proxy.close();
    }
  });
});
