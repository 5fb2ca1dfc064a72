import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  ask,
  IMAGE,
  lastText,
  openWorld,
  PICTURE,
  report,
  REPORT,
  SPEECH,
  VOICE,
} from "./contents.ts";
import { VENDORS } from "./vendors.ts";

for (const vendor of VENDORS) {
  it(`${vendor.id}: a picture, a document, a voice message and a quote each change the answer`, async () => {
    const opened = await openWorld(vendor);
    const { far, provider, world, voice } = opened;
    const { sends } = far;
    expect(await ask(opened, far.speak("hello"))).toBe("I was given: text alone");

    expect(await ask(opened, sends.file(IMAGE, "what is this?"))).toBe("I was given: an image");
    const content = provider.requests.at(-1)?.body.messages.at(-1)?.content as {
      type: string;
      image_url?: { url: string };
    }[];
    expect(content.find(({ type }) => type === "image_url")?.image_url?.url).toBe(
      `data:image/png;base64,${PICTURE.toString("base64")}`,
    );

    expect(await ask(opened, sends.file(REPORT, "sum it up"))).toBe("I was given: a document");
    const document = lastText(provider);
    // The text of a file is outside text, whoever forwarded it.
    const [boundary] = /<<<EXTERNAL_CONTENT (\w+)>>>/.exec(document) ?? [];
    expect(document.indexOf("What [file")).toBeGreaterThan(document.indexOf(boundary ?? "nothing"));

    expect(await ask(opened, sends.file(VOICE, ""))).toBe("I was given: spoken words");
    expect(voice.forms).toHaveLength(1);
    const { form, authorization } = voice.forms[0] ?? {};
    const file = form?.get("file") as File;
    expect(Buffer.from(await file.arrayBuffer())).toEqual(SPEECH);
    expect([form?.get("model"), authorization, file.name]).toEqual([
      "whisper-1",
      "Bearer canary-speech-key",
      "audio.ogg",
    ]);

    const quoted = { author: "Vera", text: "the meeting is moved to noon" };
    provider.answer = () => quoted.text;
    if (vendor.id === "whatsapp") await ask(opened, far.speak("what do you know?"));
    report(provider);
    expect(await ask(opened, sends.quote("is that so?", quoted))).toBe("I was given: a quote");
    expect(lastText(provider)).toMatch(
      /<<<EXTERNAL_CONTENT \w+>>>\nSource: "[^\n]*: (?:quoted or answered|shared) message[^\n]*\n---\n[^]*moved to noon[^]*<<<END_EXTERNAL/,
    );

    // The history has the texts, and the names of files; nothing of them is left on disk.
    const sent = JSON.stringify(provider.requests.at(-1)?.body.messages);
    expect(sent).toContain("please water the orchids");
    expect(sent).not.toContain("image_url");
    expect(readdirSync(join(world.dir, ".rouse", "tmp"))).toEqual([]);
    for (const { path, authorization: shown } of sends.shelf.asked)
      if (!path.startsWith("/personal/")) expect(shown).toBe(sends.authorization);
    expect(sends.shelf.asked).toHaveLength(3);
  });
}
