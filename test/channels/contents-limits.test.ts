import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkFileUrl } from "../../src/channel-kit/files.ts";
import { ask, IMAGE, lastText, openWorld, pass, REPORT, report, VOICE } from "./contents.ts";
import { createFastClock } from "../approvals/world.ts";
import { pdf } from "../knowledge/office-files.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

const vendor = (id: string): Vendor => VENDORS.find((one) => one.id === id) as Vendor;
const telegram = vendor("telegram");

describe("files of messages", () => {
  it("that a model cannot see, hear or read are named with the reason", async () => {
    const opened = await openWorld(
      telegram,
      { transcription: undefined, attachments: { maxBytes: 20_000 } },
      { images: false },
    );
    const { far, provider } = opened;
    expect(await ask(opened, far.sends.file(IMAGE, "what is this?"))).toBe(
      "I was given: text alone",
    );
    expect(lastText(provider)).toContain("(this model cannot see images)");
    await ask(opened, far.sends.file(VOICE, ""));
    expect(lastText(provider)).toContain(
      "[voice or audio, its words are not known, because `transcription` is not set]",
    );
    // The vendor states a size that is not allowed: nothing is fetched.
    const before = far.sends.shelf.asked.length;
    await ask(opened, far.sends.file({ ...REPORT, bytes: Buffer.alloc(20_001) }, "large"));
    expect(lastText(provider)).toContain("[file: report.pdf, it has more than 20000 bytes]");
    expect(far.sends.shelf.asked).toHaveLength(before);
    await ask(
      opened,
      far.sends.file(
        { ...REPORT, name: "a.pdf", bytes: Buffer.from("%PDF-1.7 and no more") },
        "broken",
      ),
    );
    expect(lastText(provider)).toMatch(/\[file: a\.pdf, it cannot be read: [^\]]+\]/);
    await ask(
      opened,
      far.sends.file({ ...IMAGE, bytes: Buffer.from("<svg onload=alert(1)>") }, "no picture"),
    );
    expect(lastText(provider)).toContain("it is no PNG, JPEG, GIF or WebP image");
  });

  it("are not read past the limit of bytes, whatever the vendor says of their size", async () => {
    const opened = await openWorld(vendor("msteams"), { attachments: { maxBytes: 5000 } });
    const { far, provider, world } = opened;
    // Teams states no size.
    await ask(
      opened,
      far.sends.file(
        { ...REPORT, name: "notes.txt", mime: "text/plain", bytes: Buffer.alloc(50_000, "a") },
        "long",
      ),
    );
    expect(lastText(provider)).toContain("[file: notes.txt, it has more than 5000 bytes]");
    expect(readdirSync(join(world.dir, ".rouse", "tmp"))).toEqual([]);
  });

  it("give so much text at most, with a note", async () => {
    const opened = await openWorld(telegram);
    const { far, provider } = opened;
    const bytes = Buffer.from(`${"word ".repeat(15_000)}the-end`);
    await ask(
      opened,
      far.sends.file({ kind: "document", name: "notes.txt", mime: "text/plain", bytes }, "long"),
    );
    expect(lastText(provider)).toContain("[cut: the text has more than 60000 characters]");
    expect(lastText(provider)).not.toContain("the-end");
    expect(lastText(provider).length).toBeLessThan(61_000);
  });

  it("give a limited number of pages: a document with more is reported", async () => {
    const opened = await openWorld(telegram);
    const { far, provider } = opened;
    const toPage = (text: string): string => `BT /F1 18 Tf 40 700 Td (${text}) Tj ET`;
    const send = (name: string, ...pages: string[]) =>
      far.sends.file({ ...REPORT, name, bytes: Buffer.from(pdf(pages.map(toPage))) }, "read this");
    await ask(opened, send("short.pdf", "marker-1", "marker-2"));
    expect(lastText(provider)).toMatch(/What \[file: short\.pdf\] says:[^]*marker-1[^]*marker-2/);
    await ask(
      opened,
      send("long.pdf", ...Array.from({ length: 201 }, (_, page) => `marker-${page}`)),
    );
    expect(lastText(provider)).toMatch(
      /\[file: long\.pdf, it cannot be read: the document has more than 200 pages[^\]]*\]/,
    );
    expect(lastText(provider)).not.toContain("marker-");
  });

  it("are waited for so long at most, with all tries", async () => {
    const opened = await openWorld(telegram, { attachments: { timeout: "1500ms" } });
    const { far, provider } = opened;
    const { shelf } = far.sends;
    // Without a limit there would be four tries, the last one after 3.5 seconds.
    shelf.failing = 4;
    expect(await ask(opened, far.sends.file(IMAGE, "look"))).toBe("I was given: text alone");
    expect(lastText(provider)).toMatch(/\[image[^\]]*it could not be fetched: /);
    expect(shelf.asked.length).toBeLessThan(4);
    shelf.failing = 0;
    // A file whose bytes do not come at all.
    shelf.isStuck = true;
    expect(await ask(opened, far.sends.file(REPORT, "read"))).toBe("I was given: text alone");
    expect(lastText(provider)).toContain("[file: report.pdf, it could not be fetched: ");
    shelf.isStuck = false;
    expect(await ask(opened, far.sends.file(REPORT, "again"))).toBe("I was given: a document");
  });

  it("are fetched again after temporary errors, and named if they are gone", async () => {
    const opened = await openWorld(telegram);
    const { far, provider } = opened;
    far.sends.shelf.failing = 2;
    expect(await ask(opened, far.sends.file(IMAGE, "look"))).toBe("I was given: an image");
    expect(far.sends.shelf.asked).toHaveLength(3);
    const gone = await far.sends.file(REPORT, "gone");
    far.sends.shelf.clear();
    await ask(opened, Promise.resolve(gone));
    expect(lastText(provider)).toContain(
      "[file: report.pdf, it could not be fetched: the file is gone]",
    );
  });

  it("that were sent one quickly after the other are answered together", async () => {
    const clock = createFastClock();
    const opened = await openWorld(telegram, {}, { clock });
    const { far, world, provider } = opened;
    clock.hold();
    await pass(world, await far.sends.file(IMAGE, "first"));
    await pass(world, await far.sends.file(VOICE, ""));
    await pass(world, await far.sends.file(REPORT, "third"));
    // All three are there, and no turn has begun.
    await world.until(async () => (await world.admin("/admin/v1/runs")).body.runs.length === 3);
    clock.release();
    expect((await world.until(async () => far.arrived()[0])).text).toBe(
      "I was given: an image, spoken words, a document",
    );
    expect(provider.requests).toHaveLength(1);
    expect(lastText(provider)).toMatch(/first[^]*third/);
  });

  it("do not hold other conversations up", async () => {
    const opened = await openWorld(
      telegram,
      {},
      { more: { allowFrom: ["42", "43"] }, config: { owner: { telegram: "42" } } },
    );
    const { far, world, provider } = opened;
    far.sends.shelf.failing = 3;
    await pass(world, await far.sends.file(IMAGE, "slow"));
    await pass(world, await far.writes.stranger("quick"));
    await world.until(async () => provider.requests.length === 2);
    // The tries for the file take longer than it takes to ask the model about the other person's message.
    expect(provider.requests.map((request) => provider.text(request).includes("quick"))).toEqual([
      true,
      false,
    ]);
  });
});

describe("addresses of files", () => {
  const hosts = {
    api: "http://127.0.0.1:8080/api/",
    hosts: ["files.slack.com", "*.sharepoint.com"],
  };
  it.each([
    "http://files.slack.com/a",
    "https://files.slack.com:8443/a",
    "https://files.slack.com.evil.example/a",
    "https://user@files.slack.com/a",
    "https://evilsharepoint.com/a",
    "https://sharepoint.com/a",
    "http://127.0.0.1:8081/a",
    "http://169.254.169.254/latest/meta-data",
    "file:///etc/passwd",
    "not an address",
  ])("%s is refused", (address) => {
    expect(() => checkFileUrl(address, hosts)).toThrow("the file is not on a host of the vendor");
  });
  it("of the vendor and of the API in the config are taken", () => {
    for (const address of [
      "https://files.slack.com/a",
      "https://tenant.sharepoint.com/a",
      "http://127.0.0.1:8080/files/a",
    ])
      expect(checkFileUrl(address, hosts).href).toBe(address);
  });

  it("that a message names elsewhere are not asked, and get no token", async () => {
    const opened = await openWorld(vendor("slack"));
    const { far, provider } = opened;
    const elsewhere = await openWorld(telegram);
    const { url } = elsewhere.far;
    const asked = elsewhere.far.sends.shelf.asked.length;
    await ask(opened, far.sends.file({ ...REPORT, url: `${url}/steal` }, "mine"));
    expect(lastText(provider)).toContain(
      "the file is not on a host of the vendor: it was not fetched",
    );
    expect(elsewhere.far.sends.shelf.asked).toHaveLength(asked);
    expect(far.sends.shelf.asked).toEqual([]);
  });

  it("that redirect are not followed", async () => {
    const opened = await openWorld(vendor("slack"));
    const { far, provider } = opened;
    const said = await far.sends.file(REPORT, "moved");
    far.sends.shelf.redirect = "http://127.0.0.1:1/elsewhere";
    await ask(opened, Promise.resolve(said));
    expect(lastText(provider)).toContain(
      "it could not be fetched: slack has no file at the address (302)",
    );
    report(provider);
  });
});
