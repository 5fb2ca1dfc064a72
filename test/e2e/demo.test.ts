import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { expect, it } from "vitest";

it("the demo shows three bodies from received to delivered", () => {
  const output = execFileSync(
    process.execPath,
    ["--conditions=rouse-source", "--disable-warning=ExperimentalWarning", "scripts/demo.ts"],
    {
      cwd: resolve(import.meta.dirname, "../.."),
      encoding: "utf8",
      env: { PATH: process.env["PATH"] ?? "" },
    },
  );
  expect(output.match(/→ 202/g)).toHaveLength(3);
  expect(output.match(/succeeded, reply delivered to console/g)).toHaveLength(3);
  expect(output).toContain("All three were received, run and delivered.");
});
