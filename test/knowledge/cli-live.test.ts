import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createLogger } from "../../src/core/log.ts";
import { createCli, type CliWorld } from "../cli/world.ts";

let cli: CliWorld;
let gateway: StartedGateway;
const start = async (workers: boolean): Promise<void> => {
  gateway = await createGateway({
    cwd: cli.dir,
    env: {},
    workers,
    print: () => undefined,
    log: createLogger("silent"),
  });
  await gateway.start();
};
beforeEach(async () => {
  cli = await createCli();
  await configure({});
});
const configure = (more: object): Promise<unknown> =>
  cli.write("rouse.json5", {
    gateway: { port: 0, drainSeconds: 0 },
    platform: { knowledge: { fileMb: 1 } },
    ...more,
  });
afterEach(async () => {
  await gateway.stop();
  await cli.close();
});

describe("rouse knowledge, while a gateway runs", () => {
  it("shows a bar for what goes up and for what is indexed, and says what is refused", async () => {
    await start(true);
    await cli.write("a.txt", "The walrus. ".repeat(20_000));
    await cli.write("empty.txt", "");
    await cli.write("large.txt", "x".repeat(1_000_001));
    const { code, out, err } = await cli.rouse(
      ["knowledge", "add", "a.txt", "empty.txt", "large.txt"],
      { terminal: true },
    );
    expect(code).toBe(1);
    expect(err).toMatch(/uploading \[[#.]{24}\] \d\/3 a\.txt/);
    expect(err).toMatch(/indexing \[#{24}\] 2\/2 /);
    expect(err).toContain("large.txt: the file has more than 1000000 bytes");
    expect(out).toMatch(/ready {2}a\.txt[^]*failed {2}empty\.txt {2}no_text_found: /);
    const again = await cli.rouse(["knowledge", "add", "a.txt"]);
    expect(again.out).toContain("(was there already)");
    expect(await cli.rouse(["knowledge", "add", "a.txt", "--on-duplicate", "error"])).toMatchObject(
      {
        code: 1,
        err: expect.stringContaining("there already"),
      },
    );
  });

  it("does not wait for a gateway without workers", async () => {
    await start(false);
    await cli.write("a.txt", "The walrus.");
    const { code, out, err } = await cli.rouse(["knowledge", "add", "a.txt"]);
    expect([code, out]).toEqual([0, expect.stringContaining("queued")]);
    expect(err).toContain("without workers");
    await gateway.stop();
    await start(true);
    for (
      let n = 0;
      n < 500 && !(await cli.rouse(["knowledge", "--status", "ready"])).out.includes("a.txt");
      n++
    )
      await new Promise((done) => setTimeout(done, 20));
    expect((await cli.rouse(["knowledge", "--search", "walrus"])).out).toContain("The walrus.");
  });
});
