import { describe, expect, it } from "vitest";
import { parseAll } from "./code.ts";
import { findViolations, GATES, type Violations } from "./gates.ts";

interface Example {
  files: Record<string, string>;
  found: Violations;
}

/** A few files for each gate, and all that the gate has to find in them. */
const EXAMPLES: Record<keyof typeof GATES, Example> = {
  "imports go one way, types included": {
    files: {
      "src/core/ids.ts": 'import { open } from "../store/open.ts"; import { a } from "./log.ts";',
      "src/store/open.ts":
        'import type { Id } from "../core/ids.ts"; import { type Run } from "../turns/types.ts";',
      "src/store/copy.js":
        'export { x } from "../http/app.ts"; const y = await import("../cli/main.ts"); export * from "../core/ids.ts";',
      "src/store/page.tsx": 'type Turn = import("../agent/types.ts").Turn;',
    },
    found: {
      "src/core/ids.ts": ["imports src/store/open.ts"],
      "src/store/copy.js": ["imports src/cli/main.ts", "imports src/http/app.ts"],
      "src/store/open.ts": ["imports types of src/turns/types.ts"],
      "src/store/page.tsx": ["imports types of src/agent/types.ts"],
    },
  },
  "no file imports itself over others, types included": {
    files: {
      "src/a/one.ts": 'import { two } from "./two.ts";',
      "src/a/two.ts": 'import { three } from "./three.ts"; import { four } from "./four.ts";',
      "src/a/three.ts": 'import type { one } from "./one.ts";',
      "src/a/four.ts": "export const four = 4;",
    },
    found: {
      "src/a/one.ts": ["imports src/a/two.ts"],
      "src/a/three.ts": ["imports src/a/one.ts"],
      "src/a/two.ts": ["imports src/a/three.ts"],
    },
  },
  "no folder of src imports itself over others, types included": {
    files: {
      "src/chat/turn.ts":
        'import { run } from "../turns/run.ts"; import { id } from "../core/ids.ts";',
      "src/turns/types.ts": 'import type { Chat } from "../chat/types.ts";',
    },
    found: { "src/chat": ["imports src/turns"], "src/turns": ["imports src/chat"] },
  },
  "what takes a hook to its delivery needs no room that can be left out": {
    files: {
      "src/agent/loop.ts": 'import type { Clock } from "../core/clock.ts";',
      "src/core/clock.ts": 'import type { Index } from "../knowledge/index.ts";',
      "src/gateway/gateway.ts": 'import { open } from "../knowledge/index.ts";',
      "src/knowledge/index.ts": 'import { search } from "../operate/search.ts";',
      "src/operate/search.ts": "export const search = 1;",
    },
    found: { "src/core/clock.ts": ["imports src/knowledge/index.ts"] },
  },
  "no folder of src has more than 25 files": {
    files: Object.fromEntries(
      [...Array(26).keys()].flatMap((n) => [
        [`src/core/${n}.ts`, "export {};"],
        [`src/agent/${n % 25}.ts`, "export {};"],
        [`test/core/${n}.ts`, "export {};"],
      ]),
    ),
    found: { "src/core": ["has more than 25 files"] },
  },
  "no file of src imports more than 15 others": {
    files: {
      ...Object.fromEntries([...Array(16).keys()].map((n) => [`src/core/${n}.ts`, "export {};"])),
      "src/core/all.ts": [...Array(16).keys()].map((n) => `import "./${n}.ts";`).join(" "),
      "src/core/most.ts": [...Array(16).keys()]
        .map((n) => `import "./${Math.min(n, 14)}.ts";`)
        .join(" "),
    },
    found: { "src/core/all.ts": ["imports more than 15 files"] },
  },
  "http imports no store": {
    files: {
      "src/http/admin/events.ts":
        'import type { Store } from "../../store/types.ts"; import { read } from "../../intake/read.ts";',
      "src/intake/read.ts": 'import type { Store } from "../store/types.ts";',
    },
    found: { "src/http/admin/events.ts": ["imports src/store/types.ts"] },
  },
  "the intake knows no HTTP": {
    files: {
      "src/intake/a.ts":
        'import type { Context } from "hono"; import type { App } from "../http/app.ts"; const text = "Response"; // Request',
      "src/intake/b.ts":
        "export const deny = (): Response => make({ status: 401 }); const size = 401;",
      "src/mapping/c.ts": "export const ok = new Response();",
    },
    found: {
      "src/intake/a.ts": ["imports hono", "imports src/http/app.ts"],
      "src/intake/b.ts": ["names the status 401", "uses Response"],
    },
  },
  "plugins and transforms import what is published, packages and their own folder": {
    files: {
      "plugins/acme/index.ts":
        'import "#plugin"; import "#internal"; import "zod"; import "./send.ts"; import "../../src/core/ids.ts";',
      "plugins/acme/deep/a.ts":
        'import type { Send } from "../send.ts"; import type { B } from "../../beta/b.ts";',
      "transforms/x.ts":
        'import type { Transform } from "#transform"; import "../plugins/acme/send.ts";',
    },
    found: {
      "plugins/acme/deep/a.ts": ["imports ../../beta/b.ts"],
      "plugins/acme/index.ts": ["imports #internal", "imports ../../src/core/ids.ts"],
      "transforms/x.ts": ["imports ../plugins/acme/send.ts"],
    },
  },
  "an exported name is declared once": {
    files: {
      "src/a/types.ts":
        "export interface Passage { x: number } export const [one, { two: renamed }] = f(); const local = 1;",
      "src/b/types.ts":
        'export type Passage = string; export { one } from "../a/types.ts"; const local = 2; export { local as renamed };',
      "plugins/acme/send.ts": "export function createChannel() {} export const VENDOR = 1;",
      "plugins/beta/send.ts": "export function createChannel() {}",
      "plugins/beta/receive.ts": "export const createChannel = 1; export class Passage {}",
      "src/cli/run.ts": 'const load = [() => import("./one.ts"), () => import("./two.ts")];',
      "src/cli/one.ts": "export function register() {} export const shared = 1;",
      "src/cli/two.ts": "export function register() {} export const shared = 2;",
      "src/cli/three.ts": "export function register() {}",
      "src/cli/four.ts": "export function register() {}",
      "console/src/format.ts": "export const shared = 1; export const twice = 1;",
      "console/src/pages/runs/index.tsx": "export function Page() {} export const twice = 2;",
      "console/src/pages/events/index.tsx": "export function Page() {}",
      "console/src/pages/events/detail.tsx": "export function Page() {}",
      "console/src/ui/page.tsx": "export function Page() {}",
      "test/a.ts": "export const VENDOR = 1;",
    },
    found: {
      "console/src/format.ts": ["twice"],
      "console/src/pages/events/detail.tsx": ["Page"],
      "console/src/pages/runs/index.tsx": ["twice"],
      "console/src/ui/page.tsx": ["Page"],
      "plugins/beta/receive.ts": ["Passage", "createChannel"],
      "plugins/beta/send.ts": ["createChannel"],
      "src/cli/four.ts": ["register"],
      "src/cli/one.ts": ["shared"],
      "src/cli/three.ts": ["register"],
      "src/cli/two.ts": ["shared"],
      "src/a/types.ts": ["Passage", "renamed"],
      "src/b/types.ts": ["Passage", "renamed"],
    },
  },
  "the console imports its own files, packages, and types of the gateway": {
    files: {
      "console/src/pages/runs/index.tsx":
        'import type { RunView } from "../../../../src/operate/records/views.ts"; import { Table } from "../../ui/table.tsx"; import { h } from "preact";',
      "console/src/api.ts":
        'import { RouseError } from "../../src/core/errors.ts"; const page = await import("../../src/operate/records/usage.ts");',
    },
    found: {
      "console/src/api.ts": ["imports src/core/errors.ts", "imports src/operate/records/usage.ts"],
    },
  },
  "members of types are used": {
    files: {
      "src/a/types.ts":
        'export interface Run { read: 1; written: 1; taken: 1; byText: 1; called(): void; "no-one": 1; nobody?: { deep: 1 } } type Copy = { nobody: 1 };',
      "src/a/use.ts": 'const { taken } = run; f(run.read, { written: 1 }, "byText"); run.called();',
    },
    found: { "src/a/types.ts": ["deep", "no-one", "nobody"] },
  },
  "nothing in src names a plugin or a sender": {
    files: {
      "src/core/a.ts": "// as GitHub does\nconst telegrams = 1;",
      "plugins/slack/send.ts": 'export const name = "slack";',
    },
    found: { "src/core/a.ts": ["names GitHub"] },
  },
  "bodies of requests are read by one reader": {
    files: {
      "src/http/a.ts":
        'await context.req.json(); incoming.on("data", f); request.headers.get("x"); // request.text()',
      "src/core/http/body.ts": "await request.text();",
    },
    found: { "src/http/a.ts": ["incoming.on", "req.json"] },
  },
  "the process, its clock and its network stay outside": {
    files: {
      "src/a.ts":
        'import { env } from "node:process"; const now = Date.now(); const at = new Date(0), started = new Date();',
      "src/b.ts":
        'const text = "process.env"; export const get = (url) => fetch(url); const f = globalThis.fetch; type F = typeof globalThis.fetch;',
      "src/c.ts":
        "export const get = ({ fetch, process }) => fetch(process.pid, job.process.kill()); interface A { fetch: typeof fetch }",
      "src/d.ts": "const options = { fetch };",
      "src/e.ts": "class Files { fetch() {} } files.fetch(); const calls = { fetch: 1 };",
      "src/cli/main.ts": "process.exit(Date.now());",
      "console/src/api.ts": "await fetch(String(Date.now()));",
    },
    found: {
      "src/a.ts": ["Date.now", "new Date()", "node:process"],
      "src/b.ts": ["fetch", "globalThis.fetch"],
      "src/d.ts": ["fetch"],
    },
  },
  "no escape hatches from the type checker": {
    files: { "src/a.ts": 'const a = b as any; // @ts-ignore\nconst text = "@ts-nocheck as any";' },
    found: { "src/a.ts": ["@ts-ignore", "as any"] },
  },
};

describe("each gate finds what it is for", () => {
  it.each(Object.keys(GATES))("%s", (title) => {
    const { files, found } = EXAMPLES[title] as Example;
    expect(findViolations(GATES[title] ?? (() => []), parseAll(files))).toEqual(found);
  });
});
