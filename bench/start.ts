/** Time to start, memory and installed size. */
import { execFileSync } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median, type Row } from "./measure.ts";
import { pause, ROOT, startGateway, withServers, type GatewayOptions } from "./servers.ts";

const section = "Start and memory";

async function startAndMemory(name: string, options: GatewayOptions = {}): Promise<Row[]> {
  const ready: number[] = [];
  let rss = 0;
  for (let i = 0; i < 6; i++) {
    await withServers([startGateway({}, options)], async ([gateway]) => {
      // The first start of all compiles, and keeps what it compiled.
      if (i === 0) return;
      ready.push(gateway.readyMs);
      await pause(1000);
      rss = Math.max(rss, gateway.rssMb());
    });
  }
  return [
    { section, row: `${name}: time until hooks are accepted`, value: median(ready) / 1000, unit: "s", target: { most: 0.8 } },
    { section, row: `${name}: memory of an idle gateway`, value: rss, unit: "MB", target: { most: 120 } },
  ];
}

/** A clone, and the package as users get it: packed, installed into an empty folder without optional dependencies, and started. */
export async function startRows(): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-installed-"));
  const npm = (args: string[], cwd: string): string =>
    execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], timeout: 300_000 });
  try {
    const [packed] = JSON.parse(npm(["pack", "--json", "--pack-destination", dir], ROOT)) as { filename: string }[];
    writeFileSync(join(dir, "package.json"), '{ "private": true }');
    npm(["install", "--no-audit", "--no-fund", "--omit=dev", "--omit=optional", join(dir, packed?.filename ?? "")], dir);
    const bytes = readdirSync(join(dir, "node_modules"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      // Whole blocks, as they lie on disk.
      .reduce((sum, entry) => sum + lstatSync(join(entry.parentPath, entry.name)).blocks * 512, 0);
    return [
      ...(await startAndMemory("from a clone")),
      ...(await startAndMemory("the installed package", { program: join(dir, "node_modules/rouse/bin/rouse.js") })),
      {
        section,
        row: "installed size without optional dependencies",
        value: bytes / 2 ** 20,
        unit: "MB",
        target: { most: 100 },
      },
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
