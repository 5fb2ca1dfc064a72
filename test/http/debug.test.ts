import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventDetail } from "../../src/operate/records/views.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const CANARY = "canary-4711";

/** Types and blank lines above the code: the lines that are named must be those of the source. */
const TOGETHER = `export default ({ events, count }) => {
  console.log(count + " events: " + events.map((event) => event.id).join(","));
  if (count > 1 && events.some((event) => event.how === "throw")) throw new Error("not together: ${CANARY}");
  return { message: "together" };
};
`;
const FAILS = `import { total } from "./lib/total.ts";

interface Order {
  lines?: { price: number }[];
  how?: string;
  who: string;
}

export default async ({ payload: event, item }: { payload: Order; item?: Order }) => {
  const payload = item ?? event;
  console.log("order of", payload.who);
  console.warn("two\\nlines");
  if (payload.how === "throw") return { message: String(await total(payload.lines!)) };
  if (payload.how === "loop") for (;;);
  if (payload.how === "exit") process.exit(1);
  if (payload.how === "flood") for (let n = 0; n < 10_000; n++) console.log("line " + n);
  if (payload.how === "long") console.log("x".repeat(20_000));
  if (payload.how === "text") throw "plain " + payload.who;
  if (payload.how === "later") setTimeout(() => console.log("later " + payload.who), 30);
  return { message: "fine" };
};
`;
const TOTAL = `export type Line = { price: number };

export async function total(lines: Line[]): Promise<number> {
  await Promise.resolve();
  try {
    return lines.reduce((sum, line) => sum + line.price, 0);
  } catch (error) {
    throw new Error("no total of " + JSON.stringify(lines) + " for ${CANARY}", { cause: error });
  }
}
`;
const mapping = (id: string, more: object): object => ({ id, match: { path: id }, ...more });
const MAPPINGS = [
  mapping("code", { transform: { module: "fails.ts" } }),
  mapping("each", { forEach: "orders", transform: { module: "fails.ts" } }),
  mapping("together", {
    transform: { module: "together.js" },
    // Full before its time, whatever else the processor does.
    coalesce: { windowSeconds: 60, maxEvents: 2, key: "{{shop}}" },
  }),
  mapping("jsonata", {
    transform: { jsonata: "{\n  'message': 'for ' & who,\n  'name': $number(who)\n}" },
  }),
  mapping("template", { messageTemplate: ["Total:", "{{ 1 + payload.who }}"] }),
  mapping("slow", {
    messageTemplate:
      "{{ $count($map([1..150], function($v) { $count($map([1..150], function($w) { $w })) })) & $number(who) }}",
  }),
  { id: "when", match: { path: "when", when: "$uppercase(count) = 'A'" }, messageTemplate: "x" },
  {
    id: "other",
    match: { path: "when", payload: { count: "no" }, when: "$lowercase(who) > 1" },
    messageTemplate: "x",
  },
];

interface Both {
  world: World;
  cli: CliWorld;
}

async function begin(config: object): Promise<Both> {
  const cli = await createCli();
  const files = {
    "transforms/fails.ts": FAILS,
    "transforms/together.js": TOGETHER,
    "transforms/lib/total.ts": TOTAL,
  };
  const hooks = { transformTimeoutSeconds: 2, mappings: MAPPINGS };
  return {
    cli,
    world: await createWorld({
      dir: cli.dir,
      config: { hooks, ...config },
      files,
      logLevel: "trace",
    }),
  };
}

const idOf = ({ body }: Answer): string => (body.requestId ?? body.eventId) as string;

describe("debugging what came in", () => {
  let both: Both;
  beforeAll(async () => {
    both = await begin({});
  });
  afterAll(async () => {
    await both.world.stop();
    await both.cli.close();
  });
  const detailOf = async (id: string): Promise<EventDetail> =>
    (await both.world.admin(`/admin/v1/events/${id}`)).body.event as EventDetail;
  const shown = async (id: string): Promise<string> => (await both.cli.rouse(["explain", id])).out;
  /** Posts, and gives what the operator sees of it. */
  const post = async (
    path: string,
    body: object,
  ): Promise<{ answer: Answer; event: EventDetail; out: string }> => {
    const answer = await both.world.post(`/hooks/${path}`, body);
    const id = idOf(answer);
    return { answer, event: await detailOf(id), out: await shown(id) };
  };
  const linesOf = ({ debug }: EventDetail): string[] =>
    (debug?.notes ?? []).flatMap((note) => (note.console ?? []).map(({ text }) => text));

  it("shows what a module threw, its own frames in the source's lines, and what it printed", async () => {
    const { answer, event, out } = await post("code", { how: "throw", who: CANARY });
    expect(answer).toMatchObject({ status: 500 });
    expect(answer.body).toEqual({
      ok: false,
      error: { code: "transform_failed", message: "the transform fails.ts threw an error" },
      requestId: event.id,
    });
    expect(event.debug).toEqual({
      notes: [
        {
          mapping: "code",
          field: "transform.module",
          error: {
            message: `Error: no total of undefined for ${CANARY}\ncaused by TypeError: Cannot read properties of undefined (reading 'reduce')`,
            frames: [
              expect.stringMatching(/^lib\/total\.ts:8:\d+ /),
              expect.stringMatching(/^fails\.ts:13:\d+ /),
            ],
          },
          console: [
            { stream: "stdout", text: `order of ${CANARY}` },
            { stream: "stderr", text: "two" },
            { stream: "stderr", text: "lines" },
          ],
        },
      ],
    });
    expect(out).toContain("transform.module of code\n");
    expect(out).toMatch(/\n {4}at lib\/total\.ts:8:\d+ \(total\)\n/);
    expect(out).toContain(`\n  console: order of ${CANARY}\n  console (stderr): two\n`);
  });

  it.each(["throw", "fine"])(
    "keeps with a run what its collected events came to together: %s",
    async (how) => {
      const { world, cli } = both;
      const first = await world.post("/hooks/together", { shop: how, id: 1, how });
      await world.post("/hooks/together", { shop: how, id: 2, how });
      const { runId } = first.body as { runId: string };
      const run = await world.until(async () => {
        const { run: found } = (await world.admin(`/admin/v1/runs/${runId}`)).body;
        return found.endedAt !== null && found;
      });
      expect(run.debug.notes).toMatchObject([
        {
          mapping: "together",
          console: [{ stream: "stdout", text: "2 events: 1,2" }],
          ...(how === "throw" ? { error: { message: `Error: not together: ${CANARY}` } } : {}),
        },
      ]);
      const { out } = await cli.rouse(["runs", runId]);
      expect(out).toContain("\n  console: 2 events: 1,2\n");
      expect(out.includes(CANARY)).toBe(how === "throw");
      // The receipt, which the sender may read, has none of it.
      const receipt = JSON.stringify((await world.get(`/hooks/runs/${runId}`)).body);
      expect([
        receipt.includes(CANARY),
        receipt.includes("2 events"),
        receipt.includes("debug"),
      ]).toEqual([false, false, false]);
      expect((await detailOf(idOf(first))).debug?.notes).toMatchObject([
        { console: [{ text: "1 events: 1" }] },
      ]);
    },
  );

  it("shows what a transform printed that went well, and a thrown value that is no error", async () => {
    const good = await post("code", { who: CANARY });
    expect(good.answer.status).toBe(202);
    expect(JSON.stringify(good.answer.body)).not.toContain(CANARY);
    expect(linesOf(good.event)).toEqual([`order of ${CANARY}`, "two", "lines"]);
    const thrown = await post("code", { how: "text", who: CANARY });
    expect(thrown.event.debug?.notes[0]?.error).toEqual({ message: `'plain ${CANARY}'` });
  });

  it.each([
    ["loop", "took longer than hooks.transformTimeoutSeconds"],
    ["exit", "ended its process"],
  ])("keeps what was printed before a module that ends by: %s", async (how, reason) => {
    const { answer, event } = await post("code", { how, who: CANARY });
    expect([answer.status, answer.body.error.message]).toEqual([
      500,
      expect.stringContaining(reason),
    ]);
    expect(linesOf(event)).toEqual(expect.arrayContaining([`order of ${CANARY}`, "two", "lines"]));
  });

  it("keeps a hundred lines and 16 KB of an event, and says that there were more", async () => {
    for (const how of ["flood", "long"]) {
      const { event, out } = await post("code", { how, who: CANARY });
      const lines = linesOf(event);
      expect(lines.length).toBe(how === "flood" ? 100 : 4);
      expect(lines.join("").length).toBeLessThanOrEqual(16_385);
      expect(event.debug?.notes[0]?.cut).toBe(true);
      expect(out).toContain("\n  further lines are not kept\n");
    }
    const orders = Array.from({ length: 60 }, (_, n) => ({ who: `w${n}`, how: "throw" }));
    const { event, out } = await post("each", { orders: orders.map((order) => ({ ...order })) });
    expect(linesOf(event)).toHaveLength(100);
    const items = event.debug?.notes.map(({ item }) => item) ?? [];
    expect(items).toEqual(items.map((_, n) => n));
    expect([items.length > 34, JSON.stringify(event.debug).length < 60_000]).toEqual([true, true]);
    expect(event.debug?.cut).toBe(true);
    expect(out).toContain("further notes of the mappings' code are not kept\n");
  });

  it("takes what one call left running for no line of a later one", async () => {
    const first = await both.world.post("/hooks/code", { how: "later", who: CANARY });
    for (let n = 0; n < 5; n++) {
      await new Promise((resolve) => setTimeout(resolve, 15));
      const { event } = await post("code", { who: "b" });
      expect(linesOf(event)).toEqual(["order of b", "two", "lines"]);
    }
    expect(linesOf(await detailOf(idOf(first)))).not.toContain(`later ${CANARY}`);
  });

  it("shows JSONata's message and the place in the expression, wherever it stands", async () => {
    const { answer, event, out } = await post("jsonata", { who: CANARY });
    expect(answer.body.error).toEqual({
      code: "transform_failed",
      message: "transform.jsonata the expression failed in $number (JSONata D3030)",
    });
    expect(event.debug?.notes).toEqual([
      {
        mapping: "jsonata",
        field: "transform.jsonata",
        error: {
          message: `Unable to cast value to a number: "${CANARY}" (JSONata D3030)`,
          line: 3,
          column: 11,
          excerpt: "  'name': $number(who)\n          ^",
        },
      },
    ]);
    expect(out).toContain("\n  line 3, column 11:\n      'name': $number(who)\n              ^\n");
    const template = await post("template", { who: CANARY });
    expect(template.answer.body.error).toEqual({
      code: "mapping_failed",
      message: "{{ 1 + payload.who }}: the expression failed (JSONata T2002)",
    });
    expect(template.event.debug?.notes).toEqual([
      {
        mapping: "template",
        field: "messageTemplate[1]",
        error: {
          message: `The right side of the "+" operator must evaluate to a number; got: "${CANARY}" (JSONata T2002)`,
          line: 1,
          column: 3,
          excerpt: "1 + payload.who\n  ^",
        },
      },
    ]);
    const when = await post("when", { count: 5, who: CANARY });
    expect(when.event.debug?.notes).toMatchObject([
      { mapping: "when", field: "match.when", error: { line: 1, column: 1 } },
    ]);
  });

  it("shows the same of an expression that had to run in a child", async () => {
    const { event } = await post("slow", { who: CANARY });
    expect(event.debug?.notes).toMatchObject([
      {
        mapping: "slow",
        field: "messageTemplate",
        error: { line: 1, message: expect.stringContaining(CANARY) },
      },
    ]);
  });

  it("keeps it of a replay, which is an event of its own", async () => {
    const { event } = await post("code", { how: "throw", who: CANARY });
    const { result } = JSON.parse(
      (await both.cli.rouse(["events", "replay", event.id, "--json"])).out,
    ) as {
      result: { newEventId: string };
    };
    expect((await detailOf(result.newEventId)).debug).toEqual(event.debug);
  });

  it("`hooks test` shows the same, of a payload and of a recorded event, and as JSON", async () => {
    await both.cli.write("order.json", { how: "throw", who: CANARY });
    const { code, out } = await both.cli.rouse([
      "hooks",
      "test",
      "code",
      "--payload",
      "order.json",
    ]);
    expect(code).toBe(1);
    expect(out).toContain("transform_failed: the transform fails.ts threw an error\n");
    expect(out).toContain(
      `\ntransform.module of code\n  Error: no total of undefined for ${CANARY}\n  caused by TypeError: `,
    );
    expect(out).toMatch(/\n {4}at fails\.ts:13:\d+ /);
    expect(out).toContain(`\n  console: order of ${CANARY}\n`);
    const answer = await both.world.post("/hooks/jsonata", { who: CANARY });
    const again = await both.cli.rouse(["hooks", "test", "--event", idOf(answer)]);
    expect(again.out).toContain(`Unable to cast value to a number: "${CANARY}"`);
    expect(again.out).toContain("line 3, column 11:\n");
    const json = JSON.parse(
      (await both.cli.rouse(["hooks", "test", "code", "--payload", "order.json", "--json"])).out,
    ) as {
      debug: { notes: object[] };
    };
    expect(json.debug.notes).toMatchObject([
      {
        field: "transform.module",
        error: { frames: [expect.stringMatching(/^lib/), expect.stringMatching(/^fails/)] },
      },
    ]);
    await both.cli.write("good.json", { who: "Ann" });
    const good = await both.cli.rouse(["hooks", "test", "code", "--payload", "good.json"]);
    expect([good.code, good.out]).toEqual([0, expect.stringContaining("console: order of Ann\n")]);
  });

  it("is empty if nothing was printed and nothing failed", async () => {
    const { body } = await both.world.post("/hooks/agent", { message: "hello" });
    expect(
      (await both.world.admin(`/admin/v1/events/${body.eventId}`)).body.event.debug,
    ).toBeNull();
  });

  it("never logs any of it", () => {
    expect(both.world.logged.length).toBeGreaterThan(0);
    const log = both.world.logged.join("");
    for (const secret of [CANARY, "order of", "2 events:", "no total of", "Unable to cast"])
      expect(log).not.toContain(secret);
  });
});

describe("a module that does not compile", () => {
  let cli: CliWorld;
  beforeAll(async () => {
    cli = await createCli();
    const mappings = ["types.ts", "imports.ts", "plain.js", "runs.ts"].map((module) =>
      mapping(module.replace(/\W/g, "-"), { transform: { module } }),
    );
    const { writeFile, mkdir } = await import("node:fs/promises");
    await mkdir(`${cli.dir}/transforms`);
    for (const [name, text] of Object.entries({
      "types.ts":
        "interface A {\n  b: string;\n}\nconst first: A = { b: };\nexport default () => ({ message: first.b });\n",
      "broken.ts": "export const one = 1;\nexport const two = (;\n",
      "imports.ts":
        'import { two } from "./broken.ts";\nexport default () => ({ message: two });\n',
      "plain.js": "export default () => {\n\treturn { message: 'x' ;\n};\n",
      "runs.ts":
        "type T = { a?: { b: string } };\nconst none: T = {};\n\nconsole.log(none.a!.b);\nexport default () => null;\n",
    }))
      await writeFile(`${cli.dir}/transforms/${name}`, text);
    await cli.write("rouse.json5", {
      hooks: { enabled: true, token: "canary-token-0123456789", mappings },
    });
    await cli.write("a.json", {});
  });
  afterAll(() => cli.close());

  it.each([
    ["config validate", ["config", "validate"]],
    ["start", ["start"]],
    ["hooks test", ["hooks", "test", "plain-js", "--payload", "a.json"]],
  ])(
    "is shown in full by %s: file, line, column, and the line with a caret",
    async (_name, args) => {
      const { code, err } = await cli.rouse(args);
      expect(code).toBe(3);
      for (const [at, said, excerpt] of [
        ["types.ts:4:23", 'Unexpected "}"', ["const first: A = { b: };", `${" ".repeat(22)}^`]],
        ["broken.ts:2:21", 'Unexpected ";"', ["export const two = (;", `${" ".repeat(20)}^`]],
        [
          "plain.js:2:24",
          'Expected "}" but found ";"',
          ["\treturn { message: 'x' ;", `\t${" ".repeat(22)}^`],
        ],
      ] as const)
        expect(err).toContain(
          `cannot be loaded: ${at}: ${said}\n    ${excerpt[0]}\n    ${excerpt[1]}\n`,
        );
      expect(err).toMatch(
        /cannot be loaded: TypeError: Cannot read properties of undefined \(reading 'b'\)\n {4}at runs\.ts:4:\d+\n/,
      );
      expect(err).toMatch(
        /^(?: {2})?rouse\.json5:1:\d+ {2}hooks\.mappings\[0\]\.transform\.module: /m,
      );
    },
  );
});
