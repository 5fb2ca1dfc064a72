import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { cutOutput, toToolMessage } from "../../src/agent/tools/tool-results.ts";
import { createMcpWorld, EVERYTHING, LEDGER_SERVER, type McpWorld } from "./mcp.ts";
import { png } from "../platform/images.ts";
import { divide } from "./outside.ts";
import { VENDORS, type ModelRequest, type Said, type Vendor } from "./vendors.ts";

let world: McpWorld | undefined;
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-results-"));
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  rmSync(dir, { recursive: true, force: true });
});

const book = (env: object = {}): object => ({
  command: process.execPath,
  args: [LEDGER_SERVER],
  env: { LEDGER: join(dir, "ledger"), ...env },
});
const everything = { command: process.execPath, args: [EVERYTHING] };
const call = (tool: string, input: object = {}): Said => ({ tool, input });
const done: Said = { text: "Done." };
const then =
  (...said: Said[]) =>
  (number: number): Said =>
    said[number] ?? done;

/** The images of a request, as vendors have them, in base64; the request without them. */
function takeImages({ body }: ModelRequest): { images: string[]; text: string } {
  const images: string[] = [];
  const text = JSON.stringify(body).replaceAll(
    /(?<=")(?:data:image\/png;base64,)?([A-Za-z0-9+/]{200,}={0,2})(?=")/g,
    (_all, data: string) => {
      images.push(data);
      return "";
    },
  );
  return { images, text };
}

const picture = png(7, 7).subarray(0, 24).toString("base64") + "BwcH".repeat(200_000 - 8);
const VENDOR = VENDORS[0] as Vendor;
const byVendor = VENDORS.map((vendor) => [vendor.type, vendor] as const);

describe.each(byVendor)("by %s", (type, vendor) => {
  it("an image of a tool is an image for the model, inside the boundary, in its turn alone", async () => {
    world = await createMcpWorld(
      { book: book({ BYTES: "600000" }) },
      then(call("book__picture"), done, done),
      { vendor },
    );
    expect(await world.run({ sessionKey: "hook:one" })).toMatchObject({
      status: "succeeded",
      warnings: [],
    });
    const { images, text } = takeImages(world.model.requests[1] as ModelRequest);
    expect(images).toEqual([picture]);
    expect(text.length).toBeLessThan(100_000);
    // The markers stand before and behind the image.
    const whole = JSON.stringify(world.model.requests[1]?.body);
    const at = whole.indexOf(picture.slice(0, 300));
    const id = /<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>/.exec(whole)?.[1] as string;
    const [opened, closed] = [
      whole.lastIndexOf(`<<<EXTERNAL_CONTENT ${id}>>>`, at),
      whole.lastIndexOf(`<<<END_EXTERNAL_CONTENT ${id}>>>`, at),
    ];
    expect(opened).toBeGreaterThan(closed);
    expect(whole.slice(at)).toContain(`<<<END_EXTERNAL_CONTENT ${id}>>>`);
    if (type === "openai-compatible") {
      const { messages } = (world.model.requests[1] as ModelRequest).body as {
        messages: { role: string; content: unknown }[];
      };
      expect(messages.slice(-3).map(({ role }) => role)).toEqual(["assistant", "tool", "user"]);
      expect(messages.at(-2)?.content).toMatch(
        /a picture[^<]*a file, image\/png, 600000 bytes: it is shown after the results/,
      );
    }
    // The next turn of the session knows of it, and is not given it again.
    await world.run({ sessionKey: "hook:one" });
    const later = takeImages(world.model.requests.at(-1) as ModelRequest);
    expect(later.images).toEqual([]);
    expect(later.text).toContain("a file, image/png, 600000 bytes");
  });
});

describe("results", () => {
  it("3 MB of text are given in part, and the model reads the rest piece by piece", async () => {
    const LINES = String(Math.ceil(3_000_000 / "0123456789 ä 😀\n".length));
    const id = { current: "" };
    world = await createMcpWorld({ book: book({ LINES }) }, (number, { requests }) => {
      if (number === 0) return call("book__text");
      const found = /read on with read_result, id \\+"([^\\]+)\\+", offset (\d+)/.exec(
        JSON.stringify(requests.at(-1)?.body),
      );
      if (found) id.current = found[1] as string;
      if (number === 1) return call("read_result", { id: id.current, offset: Number(found?.[2]) });
      return number === 2 ? call("read_result", { id: id.current, offset: 2_900_000 }) : done;
    });
    const ended = await world.run();
    expect(ended).toMatchObject({ status: "succeeded", warnings: [] });
    expect(id.current).toBe(`${ended.id}.0.0`);
    const { requests } = world.model;
    expect(VENDOR.toolNames(requests[0] as never)).not.toContain("read_result");
    expect(VENDOR.toolNames(requests[1] as never)).toContain("read_result");
    for (const { body } of requests) expect(JSON.stringify(body).length).toBeLessThan(100_000);
    const last = divide(requests.at(-1)?.body);
    expect(last.inside).toContain("BEGIN 0123456789");
    expect(last.outside).not.toContain("0123456789 ä");
  });

  it("of all kinds of the reference server are text inside the boundary", async () => {
    const calls = [
      call("all__get-structured-content", { location: "Chicago" }),
      call("all__get-resource-links", { count: 2 }),
      call("all__get-resource-reference", { resourceType: "Text", resourceId: 1 }),
      call("all__get-resource-reference", { resourceType: "Blob", resourceId: 2 }),
      call("all__get-annotated-message", { messageType: "error" }),
    ];
    world = await createMcpWorld({ all: everything }, then(...calls));
    expect(await world.run()).toMatchObject({ status: "succeeded" });
    const { inside } = divide(world.model.requests.at(-1)?.body);
    // The server sends the same as text and as structured content: the model gets it once.
    expect(inside.split("Light rain").length).toBe(2);
    for (const words of [
      "Link to a resource:",
      "demo://resource/dynamic/text/2",
      "Resource demo://resource/dynamic/text/1:",
      "Error: Operation failed",
    ])
      expect(inside).toContain(words);
    expect(inside).toMatch(
      /\[a file, text\/plain, \d+ bytes: models cannot read this kind of file\]/,
    );
  });

  it("that a model cannot be shown are named: sounds, and images if the config says that it cannot see", async () => {
    const steps = then(call("book__picture"), call("book__sound"));
    world = await createMcpWorld({ book: book({ BYTES: "600000" }) }, steps, {
      provider: { images: ["other"] },
    });
    expect(await world.run()).toMatchObject({ status: "succeeded", warnings: [] });
    const { images } = takeImages(world.model.requests.at(-1) as ModelRequest);
    const { inside } = divide(world.model.requests.at(-1)?.body);
    expect(images).toEqual([]);
    expect(inside).toContain("a file, image/png, 600000 bytes: this model cannot see images");
    expect(inside).toContain("a file, audio/wav, 3 bytes: models cannot read this kind of file");
  });

  it("are cut where the config says, and are read by runs of the same session alone", async () => {
    let id = "";
    const steps: Said[] = [
      call("book__text"),
      done,
      call("read_result"),
      done,
      call("book__text"),
      call("read_result"),
      done,
    ];
    const config = { agents: { defaults: { toolResultBytes: 1_000 } } };
    world = await createMcpWorld(
      { book: book({ LINES: "300" }) },
      (number) => {
        const said = steps[number] as Exclude<Said, undefined>;
        return "tool" in said && said.tool === "read_result"
          ? { ...said, input: { id, offset: 4_000 } }
          : said;
      },
      { config },
    );
    id = `${(await world.run({ sessionKey: "hook:one" })).id}.0.0`;
    const first = divide(world.model.requests[1]?.body).inside;
    expect(first.split("0123456789").length).toBeLessThan(60);
    await world.run({ sessionKey: "hook:one" });
    expect(divide(world.model.requests[3]?.body, 2).inside).toMatch(
      /0123456789 ä 😀[^<]*read on with read_result/,
    );
    await world.run({ sessionKey: "hook:two" });
    const { messages } = (world.model.requests[6] as ModelRequest).body as {
      messages: { content: string }[];
    };
    expect(messages.at(-1)?.content).toContain("no stored result with this id");
  });

  it("keep files up to a limit, and errors keep their words", () => {
    const large = Buffer.alloc(4_000_000).toString("base64");
    const file = { type: "file" as const, mediaType: "image/png", data: large };
    const { output } = cutOutput(
      "c",
      { parts: [file, file, { type: "text", text: "end" }] },
      1_000,
    );
    expect(output.parts.map(({ type }) => type)).toEqual(["file", "text", "text"]);
    const [message] = toToolMessage([
      {
        modelCallId: "1",
        name: "t",
        output: { parts: [{ type: "text", text: "no" }], isError: true },
      },
    ]);
    expect(message?.content).toMatchObject([{ output: { type: "error-text", value: "no" } }]);
  });
});
