import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "./world.ts";

/** Text that would set the title, clear the screen, turn text around, forge a line of the program, or run in a browser. */
const STEERING =
  "\u001b]0;t\u0007\u001b[2J\u009b1m\u0085\u202e\u2066\u061c\u200f\u2028\u0000\u007f\b";
const HOSTILE = `evil ${STEERING}\r\nrouse: forged\n<script>alert(1)</script>`;
const STEERS =
  // oxlint-disable-next-line no-control-regex -- what a terminal must not get
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

let cli: CliWorld;
let gateway: StartedGateway;
const ids: string[] = [];

beforeAll(async () => {
  cli = await createCli();
  const named = (id: string, fields: object) => ({ id, match: { path: "shop" }, ...fields });
  const hooks = {
    enabled: true,
    token: TOKEN,
    mappings: [
      named("shop.thrown", {
        match: { path: "shop", payload: { type: "thrown" } },
        transform: { module: "thrown.ts" },
        messageTemplate: "x",
      }),
      named("shop.error", {
        match: { path: "shop", payload: { type: "error" } },
        messageTemplate: "{{$error(text)}}",
      }),
      named("shop.order", {
        match: { path: "shop", payload: { type: "order", text: HOSTILE } },
        name: HOSTILE,
        messageTemplate: "Order {{text}}",
      }),
      named("shop.never", {
        match: { path: "shop", payload: { text: { $eq: HOSTILE }, type: HOSTILE } },
        messageTemplate: `${HOSTILE} {{text}}`,
      }),
    ],
  };
  await cli.write("rouse.json5", { ...shopConfig(), hooks });
  for (const folder of ["transforms", "mappings", "tests/shop"])
    mkdirSync(join(cli.dir, folder), { recursive: true });
  await cli.write(
    "transforms/thrown.ts",
    `export default ({ payload }) => { console.log(payload.text); throw new Error(payload.text); };\n`,
  );
  await cli.write("mappings/evil.json5", {
    id: "evil",
    description: HOSTILE,
    mappings: [
      {
        ...named("shop.shadow", { name: HOSTILE, messageTemplate: `${HOSTILE} {{text}}` }),
        shadow: true,
      },
      {
        ...named("shop.wrong", { name: HOSTILE, messageTemplate: HOSTILE }),
        shadow: true,
        to: HOSTILE,
      },
    ],
  });
  await cli.write("wrong.json5", {
    hooks: { mappings: [{ match: { path: "shop" }, [HOSTILE]: HOSTILE }] },
  });
  await cli.write("next.json5", {
    ...shopConfig(),
    hooks: { ...hooks, mappings: [named("shop.order", { messageTemplate: HOSTILE })] },
  });
  const request = {
    method: "POST",
    path: "shop",
    json: { type: "order", text: HOSTILE, [HOSTILE]: HOSTILE },
  };
  await cli.write("tests/shop/evil.json5", {
    request,
    receivedAt: "2026-01-01T00:00:00Z",
    expect: { outcome: "accepted", mapping: "shop.order", actions: [{ text: `not ${HOSTILE}` }] },
  });
  await cli.write("tests/shop/wrong.json5", { request, [HOSTILE]: 1 });
  await cli.write("openclaw.json5", {
    hooks: {
      [HOSTILE]: HOSTILE,
      mappings: [{ id: HOSTILE, match: { path: "shop" }, messageTemplate: HOSTILE }],
    },
  });
  await cli.write("body.json", { type: "order", text: HOSTILE, [HOSTILE]: HOSTILE });
  gateway = await createGateway({ cwd: cli.dir, env: {}, workers: false });
  await gateway.start();
  for (const type of ["order", "thrown", "error", HOSTILE]) {
    const headers = {
      authorization: `Bearer ${TOKEN}`,
      "content-type": "application/json",
      "x-evil": "\u009b1m <b>evil",
    };
    const body = JSON.stringify({ type, text: HOSTILE, [HOSTILE]: HOSTILE });
    const answer = await gateway.fetch(
      new Request(`http://127.0.0.1/hooks/shop?q=${encodeURIComponent(HOSTILE)}`, {
        method: "POST",
        headers,
        body,
      }),
    );
    ids.push(answer.headers.get("x-request-id") ?? "");
  }
});
afterAll(async () => {
  await gateway.stop();
  await cli.close();
});

/** A command of each kind of output: tables, traces, patches, lines of JSON, errors. */
const COMMANDS: [command: string, quotes: boolean][] = [
  ["explain EVENT --request", true],
  ["explain EVENT --request --json", true],
  ["explain THROWN", true],
  ["explain ERROR", true],
  ["explain evil<ESC>", false],
  ["events", false],
  ["events replay OTHER", true],
  ["hooks test --event EVENT", true],
  ["hooks diff --config next.json5", true],
  ["hooks diff --config next.json5 --json", true],
  ["hooks enable shop.shadow", true],
  ["hooks enable shop.shadow --patch", false],
  ["hooks shop", false],
  ["test", true],
  ["import openclaw openclaw.json5", true],
  ["import openclaw openclaw.json5 --patch", true],
  ["propose evil<ESC> --event EVENT", false],
  ["config validate -c wrong.json5", true],
  ["config validate -c wrong.json5 --json", true],
];

describe("text from outside is shown as text", () => {
  it.each(COMMANDS)("by rouse %s", async (command, quotes) => {
    const [order = "", thrown = "", error = "", other = ""] = ids;
    const known = new Map(
      Object.entries({ EVENT: order, THROWN: thrown, ERROR: error, OTHER: other }),
    );
    const words = command
      .split(" ")
      .map((word) => known.get(word) ?? word.replace("<ESC>", STEERING.replaceAll("\0", "")));
    const { out, err: all } = await cli.rouse(words, { terminal: true });
    // The progress bar's control sequences are the program's own.
    const err = all.replaceAll("\r\u001b[K", "");
    expect(out + err).not.toMatch(STEERS);
    expect(out + err).not.toMatch(/^rouse: forged/m);
    expect(out + err).not.toContain("something failed unexpectedly");
    // The text is there, so the command did print it.
    if (quotes) expect(out + err).toContain("alert(1)");
    if (!words.includes("--json")) return;
    // One document, or one a line.
    const documents = command.includes("diff") ? out.trimEnd().split("\n") : [out];
    for (const one of documents) expect(JSON.parse(one)).toBeTypeOf("object");
    if (!command.startsWith("explain")) return;
    const { explanation } = JSON.parse(out) as {
      explanation: { event: { request: { body: string } } };
    };
    expect(JSON.parse(explanation.event.request.body)).toMatchObject({ text: HOSTILE });
  });

  it.each(["", " --json"])("by rouse events --follow%s", async (json) => {
    const { out } = await cli.rouse(`events --follow --path shop${json}`.split(" "), {
      onOut: (text, interrupt) => void (text.split("\n").length > 4 && interrupt()),
    });
    expect(out).not.toMatch(STEERS);
  });
});
