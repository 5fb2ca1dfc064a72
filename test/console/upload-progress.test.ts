import { createServer, connect, type AddressInfo, type Server } from "node:net";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const MEGABYTES = 24;
/** More than the kernel takes into its buffers at once. */
const BYTES = MEGABYTES * 1_000_000;
const PER_TICK = 400_000;
const TICK_MS = 50;

/** Passes connections on to a port, and takes no more than so many bytes from a client at a time. */
function createSlowProxy(port: number): Server {
  return createServer((client) => {
    const gateway = connect(port, "127.0.0.1");
    let taken = 0;
    const timer = setInterval(() => {
      taken = 0;
      client.resume();
    }, TICK_MS);
    client.on("data", (chunk: Buffer) => {
      gateway.write(chunk);
      taken += chunk.length;
      if (taken >= PER_TICK) client.pause();
    });
    gateway.pipe(client);
    const end = (): void => {
      clearInterval(timer);
      client.destroy();
      gateway.destroy();
    };
    for (const socket of [client, gateway]) socket.on("close", end).on("error", end);
  });
}

describe.skipIf(NO_BROWSER)("an upload over a slow connection", () => {
  const { world, page } = useConsole({
    config: { platform: { knowledge: { fileMb: MEGABYTES } } },
  });
  let proxy: Server;
  beforeAll(async () => {
    // No document: what becomes of it is of no interest, and reading it would take time.
    writeFileSync(join(world.dir, "slow.pdf"), Buffer.alloc(BYTES, "x"));
    proxy = createSlowProxy(Number(new URL(world.url).port));
    await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
  });
  afterAll(() => void proxy?.close());

  it("shows how much has gone while it goes", async () => {
    const { port } = proxy.address() as AddressInfo;
    // The session is the host's, whatever its port.
    await page.goto(`http://127.0.0.1:${port}/console#/documents`);
    await page.getByText("There is no document yet.").waitFor();
    await page.evaluate(`(() => {
      globalThis.values = [];
      const look = () => {
        const bar = document.querySelector('progress[aria-label="Upload of slow.pdf"]');
        if (bar && values.at(-1) !== bar.value) values.push(bar.value);
        requestAnimationFrame(look);
      };
      look();
    })()`);
    await page.getByLabel("Files to upload").setInputFiles(join(world.dir, "slow.pdf"));
    await page
      .getByRole("list", { name: "Uploads" })
      .getByText("received")
      .waitFor({ timeout: 60_000 });
    const values = await page.evaluate(
      () => (globalThis as unknown as { values: number[] }).values,
    );
    expect(values).toEqual(values.toSorted((one, other) => one - other));
    expect(
      values.filter((value) => value > 0 && value < 1).length,
      `the bar stood at ${values.join(", ")}`,
    ).toBeGreaterThanOrEqual(3);
  });
});
