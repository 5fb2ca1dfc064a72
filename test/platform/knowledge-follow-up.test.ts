import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { DESK, documentsWorld, type DocumentsWorld } from "./documents.ts";

/** A channel whose messages come by HTTP and whose replies go into a file. */
const ROOM = `
import { appendFile } from "node:fs/promises";
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "room",
  config: z.strictObject({ file: z.string(), allowFrom: z.array(z.string()) }),
  channel: ({ config }) => ({
    defaultTo: "owner",
    send: async ({ text }) => {
      await appendFile(config.file, JSON.stringify(text) + "\\n");
      return { status: "sent" };
    },
    async request(request, host) {
      await host.receive({ id: request.url, from: "ann", to: "ann", direct: true, parts: [{ kind: "own", text: await request.text() }] });
      return new Response(null, { status: 204 });
    },
  }),
});`;

/** A question, one that goes on with it, and what answers the second one. */
const FOLLOW_UPS = [
  [
    "English",
    "Where is the spare key of the boathouse?",
    "And who else has it?",
    "A second spare key of the boathouse is with Ada Byron.",
  ],
  ["Chinese", "船屋的备用钥匙在哪里？", "还有谁有？", "船屋的另一把备用钥匙在王小明那里。"],
] as const;

let world: DocumentsWorld;
let folder: string;
let replies: () => string[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rouse-room-"));
  const file = join(folder, "replies");
  replies = () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []);
  world = await documentsWorld({
    agents: [{ id: "ops", knowledge: "auto" }, { id: "sales" }],
    files: { "plugins/room.ts": ROOM },
    config: { channels: { room: { file, allowFrom: ["ann"] } } },
  });
  for (const [language, , , answer] of FOLLOW_UPS) {
    await world.index(`${language}.txt`, answer);
    // What belongs to the operator is for channels.
    const query = new URLSearchParams({ filename: `${language}.txt`, agent: "ops" });
    const { body } = await world.admin(`/admin/v1/knowledge/documents?${query.toString()}`, {
      method: "POST",
      body: answer,
    });
    await world.admin(`/admin/v1/knowledge/documents/${body.document.id}?wait=25`);
  }
  await world.index(
    "sea.txt",
    "The siren sounds three times when the sea gets too rough. Write to the harbour office.",
  );
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  world.model.asked.length = 0;
  world.model.says = () => ({ text: ["It is in the office."] });
});
const said = (): string => JSON.stringify(world.model.asked.at(-1)?.body.messages.at(-1).content);
const user = (content: string) => ({ role: "user", content });

describe.each(FOLLOW_UPS)(
  "a question that goes on with another one: %s",
  (language, first, next, answer) => {
    it("finds what its subject would in the client's own history", async () => {
      const messages = [user(first), { role: "assistant", content: "In the office." }, user(next)];
      await world.chat({ model: "ops", messages }, { key: DESK });
      expect(said()).toContain(answer);
      await world.chat({ model: "ops", messages: [user(next)] }, { key: DESK });
      expect(said()).not.toContain(answer);
    });

    it("finds it in a session of the server", async () => {
      const options = { key: DESK, "x-session-id": `follow-up-${language}` };
      await world.chat({ model: "ops", messages: [user(first)] }, options);
      await world.chat({ model: "ops", messages: [user("Thanks!")] }, options);
      expect(said()).not.toContain(answer);
      await world.chat({ model: "ops", messages: [user(next)] }, options);
      expect(said()).toContain(answer);
    });

    it("finds it on a channel", async () => {
      for (const [index, body] of [first, next].entries()) {
        const before = replies().length;
        await world.gateway.fetch(
          new Request(`http://127.0.0.1/channels/room/${language}-${index}`, {
            method: "POST",
            body,
          }),
        );
        await world.until(async () => replies().length > before);
      }
      expect(said()).toContain(answer);
    });
  },
);
