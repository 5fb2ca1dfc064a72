import { request as httpRequest } from "node:http";
import { describe, expect, it } from "vitest";
import { TOKEN } from "../e2e/world.ts";
import { NO_BROWSER } from "./browser.ts";
import { useConsole } from "./use-console.ts";

const MARKUP = `<img src=x onerror="document.title='hacked'"><script>document.title='hacked'</script>`;
/** Node takes 16 KB of headers, each of which counts for more than its letters. */
const MANY = 900;
const MAIL = "From: Ann <ann@shop.example>\r\nSubject: Two\r\n lines\r\n\r\nThe order is late.\r\n";

describe.skipIf(NO_BROWSER)("the console shows any body as text", () => {
  const mapping = { id: "any", match: { path: "any" }, messageTemplate: "Got {{payload.text}}" };
  // Headers are kept that a mapping reads.
  const names = [...Array.from({ length: MANY }, (_, n) => `x${n}`), "x-long", "x-last"];
  const reader = {
    id: "many",
    match: { path: "many" },
    messageTemplate: names.map((name) => `{{headers.${name}}}`),
  };
  const { world, page } = useConsole({
    config: { hooks: { maxBodyBytes: 16_000_000, mappings: [mapping, reader] } },
    workers: false,
  });

  /** Sends a body, and opens its event. */
  const show = async (body: string | Uint8Array, type: string): Promise<string> => {
    const answer = await world.post("/hooks/any", body, { "content-type": type });
    const id =
      (answer.body.eventId as string | undefined) ?? (answer.headers.get("x-request-id") as string);
    await page.goto(`${world.url}/console#/events/${id}`);
    await page.getByRole("region", { name: "Request" }).waitFor();
    return id;
  };
  const request = () => page.getByRole("region", { name: "Request" });
  const text = async (): Promise<string> => (await request().innerText()).replaceAll(/\s+/g, " ");

  it("JSON as a tree, with markup, control and bidi characters as text, also in the result", async () => {
    await show(
      JSON.stringify({ text: `${MARKUP}\u202e\u0007\u061c`, "<b>key</b>": 1 }),
      "application/json",
    );
    expect(await text()).toContain("<img src=x");
    expect(await text()).toContain("\\u202e");
    expect(await text()).toContain("<b>key</b>");
    const result = await page.getByRole("region", { name: "Result" }).innerText();
    expect(result).toContain("\\u202e\\u0007\\u061c");
    expect(await page.title()).toBe("Events · Rouse");
    expect(await page.locator("main img, main script").count()).toBe(0);
  });

  it("form fields, XML and e-mails by their content type", async () => {
    await show("name=Ann&note=two+words", "application/x-www-form-urlencoded");
    expect(await text()).toContain("name Ann note two words");
    await show(`<order><id>7</id>${MARKUP}</order>`, "application/xml");
    expect(await request().locator("pre").innerText()).toContain("<order>\n  <id>\n    7\n  </id>");
    await show(MAIL, "message/rfc822");
    expect(await text()).toContain("Subject Two lines The order is late.");
  });

  it("bytes that are no text as a dump, and text that is no JSON as it is", async () => {
    await show(new Uint8Array([0xff, 0xfe, 0x00, 0x41]), "application/octet-stream");
    expect(await text()).toContain("ff fe 00 41 ...A");
    await show('{"half": ', "text/plain");
    expect(await text()).toContain('{"half":');
  });

  it("200 levels, with the page usable", async () => {
    await show(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`, "application/json");
    await request().getByLabel("Search the body").fill("a");
    await request().getByText("nested deeper than is shown here").waitFor();
  });

  it("10 MB, as text in steps at first, with the page usable", async () => {
    const id = await show(
      JSON.stringify({
        lines: Array.from({ length: 100_000 }, (_, n) => ({ n, filler: "x".repeat(80) })),
      }),
      "application/json",
    );
    await request().getByText("It is shown as text.").waitFor();
    expect((await request().locator("pre").innerText()).length).toBe(50_000);
    await request()
      .getByRole("button", { name: /Show more/ })
      .click();
    await request().getByRole("button", { name: "Read it by its content type" }).click();
    await request()
      .getByRole("button", { name: "Unfold lines", exact: true })
      .or(request().getByRole("button", { name: "Fold lines", exact: true }))
      .waitFor();
    await page.getByRole("button", { name: "Edit and replay" }).click();
    await page.getByText(`rouse events replay ${id} --dry-run`).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Copy as curl" }).click();
    await page.getByText("The body is too long for a command.").waitFor();
  });

  it("all headers that the server takes beside 10 MB, and answers keys meanwhile", async () => {
    const many = Object.fromEntries(
      Array.from({ length: MANY }, (_, n) => [`x${n}`, n === 700 ? "needle" : "v"]),
    );
    const body = JSON.stringify({ filler: "x".repeat(10_000_000) });
    for (const headers of [many, { "x-long": "v".repeat(10_000), "x-last": "needle" }]) {
      const answer = await sendRaw(
        `${world.url}/hooks/many`,
        { ...headers, authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
        body,
      );
      expect(answer.status).toBe(202);
      await page.goto(`${world.url}/console#/events`);
      await page.locator("tr[data-id]").first().waitFor();
      await page.goto(`${world.url}/console#/events/${answer.eventId}`);
      await request().getByText("It is shown as text.").waitFor();
      await request()
        .getByRole("tab", { name: /Headers/ })
        .click();
      const count = Object.keys(headers).length;
      await expect.poll(() => request().locator("dt").count()).toBeGreaterThanOrEqual(count);
      await request().getByText("needle", { exact: true }).waitFor();
      await request().getByRole("tab", { name: "Raw" }).click();
      expect((await request().locator("pre").innerText()).length).toBe(50_000);
      await page.keyboard.press("Escape");
      await page.locator(".detail").waitFor({ state: "detached" });
    }
  });
});

/** Sends a request with exactly these headers. */
const sendRaw = (
  url: string,
  headers: Record<string, string>,
  body: string,
): Promise<{ status: number | undefined; eventId: string }> =>
  new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method: "POST", headers }, (response) => {
      let text = "";
      response.on("data", (part: Buffer) => (text += part.toString()));
      response.on("end", () => {
        const id = /evt_\w+/.exec(text)?.[0] ?? "";
        resolve({ status: response.statusCode, eventId: id });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
