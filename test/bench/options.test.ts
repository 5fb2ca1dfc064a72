import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseOptions } from "../../bench/options.ts";
import { ROOT } from "../../bench/servers.ts";

/** As `npm run bench` starts it. */
const bench = (...args: string[]): Promise<{ code: number; out: string; err: string }> =>
  new Promise((resolve) => {
    const node = [
      "--conditions=rouse-source",
      "--disable-warning=ExperimentalWarning",
      join(ROOT, "bench/main.ts"),
    ];
    execFile(process.execPath, [...node, ...args], { cwd: ROOT }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    );
  });

describe("npm run bench", () => {
  it("--help lists the options, the rows and examples", async () => {
    const { code, out, err } = await bench("--help");
    expect([code, err]).toEqual([0, ""]);
    for (const word of [
      "--row <text>",
      "--table",
      "--write",
      "--peers",
      "open-loop",
      "limits-2m",
      "npm run bench -- --table --write",
    ])
      expect(out).toContain(word);
  });

  it("says what is wrong and where the options are, and measures nothing", async () => {
    const { code, out, err } = await bench("--row", "nothing");
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain('No row has "nothing" in its name. The rows are agent, wake,');
    expect(err).toContain("npm run bench -- --help");
  });

  it.each([
    [["--rounds", "0"], /--rounds is "0"/],
    [["--rounds", "1.5"], /whole number/],
    [["--seconds", "soon"], /--seconds is "soon"/],
    [["--seconds", ""], /number above 0/],
    [["--write", "--profile"], /--write .* not for --profile/],
    [["--row"], /--row/],
    [["--tabel"], /Unknown option '--tabel'/],
    [["agent"], /Unexpected argument 'agent'/],
  ])("%j is refused", (args, message) => {
    expect(() => parseOptions(args, ["agent"])).toThrow(message);
  });

  it("--table has its own rounds, and measures other programs", () => {
    expect(parseOptions(["--table"], [])).toMatchObject({
      ms: 1000,
      rounds: 5,
      peers: true,
      task: "measure",
    });
    expect(parseOptions(["--table", "--rounds", "2"], [])).toMatchObject({ ms: 1000, rounds: 2 });
    expect(parseOptions([], [])).toMatchObject({
      ms: 3000,
      rounds: 3,
      peers: false,
      task: "measure",
    });
  });
});
