import { expect, it } from "vitest";
import { ask, callOnce, openWorld, pass } from "./contents.ts";
import { VENDORS } from "./vendors.ts";
import { startTelegram } from "./telegram-server.ts";

const TOOLS = {
  agents: {
    defaults: { model: "local/big", heartbeat: { every: 0 } },
    list: [{ id: "main", tools: ["rouse.send_file"] }],
  },
};

async function openTelegram(more: object = {}) {
  const vendor = VENDORS.find(({ id }) => id === "telegram");
  if (!vendor) throw new Error("telegram is not there");
  const server = await startTelegram();
  const section = { token: server.token, apiUrl: server.url, allowFrom: ["42"] };
  const speak = async (text: string, more?: object): Promise<undefined> =>
    void server.write(text, more);
  const far = {
    arrived: () => server.messages.map(({ chat, text }) => ({ to: chat, text })),
    url: server.url,
    close: server.close,
  };
  const opened = await openWorld(
    { ...vendor, section: () => section, start: async () => far as never },
    {},
    { config: { ...TOOLS, tools: { untrusted: "allow" }, ...more } },
  );
  return { ...opened, server, speak };
}

it("a text that the agent writes arrives as a file, behind the reply, and the delivery shows it", async () => {
  const opened = await openTelegram();
  const { provider, server, speak, world } = opened;
  provider.answer = callOnce(
    { name: "../../a:b\u202e.csv", text: "day,rain\nMonday,3\n" },
    "Here is the table.",
  );
  expect(await ask(opened, speak("as a table, please"))).toBe("Here is the table.");
  const [file] = await world.until(async () =>
    server.files.length > 0 ? server.files : undefined,
  );
  expect(file).toMatchObject({
    method: "sendDocument",
    chat: "42",
    name: "a b.csv",
    type: "text/csv",
  });
  expect(file?.bytes.toString()).toBe("day,rain\nMonday,3\n");
  expect(JSON.parse(String(file?.fields["reply_parameters"]))).toMatchObject({ message_id: 7001 });
  const [sent] = await world.until(async () => {
    const { deliveries } = (await world.admin("/admin/v1/deliveries")).body;
    return deliveries[0]?.status === "delivered" ? deliveries : undefined;
  });
  expect(sent).toMatchObject({ chunks: 1, sentChunks: 1, files: 1, sentFiles: 1 });
  const { delivery } = (await world.admin(`/admin/v1/deliveries/${sent.id}`)).body;
  expect(delivery).toMatchObject({
    attached: [{ name: file?.name, mediaType: "text/csv", bytes: 18 }],
    warnings: [],
  });
  expect(delivery.messageIds).toHaveLength(2);
});

it("a file that failed to be sent is tried again alone, and the text is not sent twice", async () => {
  const opened = await openTelegram();
  const { provider, server, speak, world } = opened;
  server.fail("unavailable", { method: "sendDocument" });
  provider.answer = callOnce({ name: "a.txt", text: "content" }, "Here.");
  expect(await ask(opened, speak("a file"))).toBe("Here.");
  await world.until(async () => server.files.length > 0);
  expect(server.messages).toHaveLength(1);
});

it("a file that a channel cannot send is named in the text, and the delivery has a warning", async () => {
  const vendor = VENDORS.find(({ id }) => id === "msteams");
  if (!vendor) throw new Error("msteams is not there");
  const { far, provider, world } = await openWorld(vendor, {}, { config: TOOLS });
  provider.answer = callOnce({ name: "a.txt", text: "content" }, "Here.");
  await pass(world, await far.speak("a file, please"));
  const note = await world.until(async () =>
    far.arrived().find(({ text }) => text.includes("could not be sent")),
  );
  expect(note.text).toContain("a.txt");
  const delivery = await world.until(async () => {
    const [{ id, status }] = (await world.admin("/admin/v1/deliveries")).body.deliveries;
    return status === "delivered"
      ? (await world.admin(`/admin/v1/deliveries/${id}`)).body.delivery
      : undefined;
  });
  expect(delivery.warnings).toEqual([expect.stringContaining("only PNG, JPEG and GIF images")]);
});

it("the picture of a quoted message reaches the model, with and without words in it", async () => {
  const opened = await openTelegram();
  const { provider, server, speak } = opened;
  const { PICTURE, report } = await import("./contents.ts");
  report(provider);
  const put = server.shelf.put({ name: "photo.png", mime: "image/png", bytes: PICTURE });
  const photo = [
    { file_id: put.id, file_unique_id: "u", width: 64, height: 48, file_size: PICTURE.length },
  ];
  const chat = { id: 42, type: "private", first_name: "Ann" };
  const answered = {
    message_id: 77,
    date: 1_760_000_000,
    chat,
    from: { id: 43, is_bot: false, first_name: "Vera" },
    photo,
  };
  expect(await ask(opened, speak("what is this?", { reply_to_message: answered }))).toBe(
    "I was given: an image",
  );
  expect(JSON.stringify(provider.requests.at(-1)?.body.messages.at(-1))).toMatch(
    /, by Vera\W+n---\W+n\[image\]/,
  );
});

it("a voice message outlives an endpoint that is busy for longer than one try, and the run is tried again", async () => {
  const opened = await openTelegram();
  const { provider, server, speak, voice } = opened;
  const { report, SPEECH } = await import("./contents.ts");
  report(provider);
  voice.busy.times = 2;
  const put = server.shelf.put({ name: "voice.ogg", mime: "audio/ogg", bytes: SPEECH });
  const said = {
    file_id: put.id,
    file_unique_id: "u",
    duration: 2,
    mime_type: "audio/ogg",
    file_size: SPEECH.length,
  };
  expect(await ask(opened, speak("", { text: undefined, voice: said }))).toBe(
    "I was given: spoken words",
  );
  expect(voice.forms).toHaveLength(1);
});
