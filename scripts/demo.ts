/** Starts a gateway of its own, posts three recorded bodies and shows each from received to delivered. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../src/core/clock.ts";
import { createLogger } from "../src/core/log.ts";
import { openGateway } from "../src/gateway/gateway.ts";

const TOKEN = "demo-token-for-loopback-only";
const WAIT_MS = 20_000;
const readFixture = (name: string): string =>
  readFileSync(new URL(`../test/fixtures/demo/${name}.json`, import.meta.url), "utf8");

interface Run {
  status: string;
  name: string;
  endedAt: string | null;
  delivery: { status: string; channel: string | null } | null;
}

const dir = mkdtempSync(join(tmpdir(), "rouse-demo-"));
cpSync(
  new URL("../transforms/alert-digest.ts", import.meta.url),
  join(dir, "transforms", "alert-digest.ts"),
);
const hooks = {
  enabled: true,
  token: TOKEN,
  presets: ["gmail", { use: "github", auth: "token" }],
  mappings: [{ id: "alerts", match: { path: "alerts" }, transform: { module: "alert-digest.ts" } }],
};
writeFileSync(
  join(dir, "rouse.json5"),
  JSON.stringify({ gateway: { port: 0, drainSeconds: 2 }, hooks }),
);

const gateway = await openGateway({
  cwd: dir,
  env: process.env,
  clock: systemClock,
  fetch,
  log: createLogger("silent"),
  print: (text) => void process.stdout.write(text),
});
const { url } = await gateway.start({ listen: true });
console.log(`A gateway listens on ${url}\n`);

async function getRun(id: string): Promise<Run> {
  const answer = await fetch(`${url}/hooks/runs/${id}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  return ((await answer.json()) as { run: Run }).run;
}

async function ended(id: string): Promise<Run> {
  const until = Date.now() + WAIT_MS;
  for (;;) {
    const run = await getRun(id);
    if ((run.endedAt !== null && run.delivery?.status !== "pending") || Date.now() > until)
      return run;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

let wrong = 0;
for (const [title, path, file] of [
  ["A mail", "gmail", "mail"],
  ["A GitHub issue", "github", "issue"],
  ["An alert", "alerts", "alert"],
] as const) {
  const answer = await fetch(`${url}/hooks/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: readFixture(file),
  });
  const body = (await answer.json()) as {
    eventId: string;
    runId?: string;
    results?: { runId: string }[];
  };
  const runId = body.runId ?? body.results?.[0]?.runId;
  console.log(`${title}: POST /hooks/${path} → ${answer.status}, event ${body.eventId} is on disk`);
  if (runId === undefined) {
    wrong++;
    continue;
  }
  const run = await ended(runId);
  console.log(
    `${title}: "${run.name}" ${run.status}, reply ${run.delivery?.status ?? "not sent"} to ${run.delivery?.channel ?? "nobody"}\n`,
  );
  if (run.status !== "succeeded" || run.delivery?.status !== "delivered") wrong++;
}

await gateway.stop();
rmSync(dir, { recursive: true, force: true });
console.log(
  wrong === 0 ? "All three were received, run and delivered." : `${wrong} of three did not arrive.`,
);
process.exitCode = wrong === 0 ? 0 : 1;
