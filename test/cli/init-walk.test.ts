import { existsSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PASSWORD, blueBubblesServer } from "../channels/bluebubbles-server.ts";
import { ROSA, startMattermost, TOKEN as MATTERMOST_TOKEN } from "../channels/mattermost-server.ts";
import { ACCOUNT, signalServer } from "../channels/signal-server.ts";
import { createProvider, type Provider } from "../e2e/provider.ts";
import { createGateway } from "../gateway.ts";
import { typed, type Line } from "./typed-answers.ts";
import { createCli, type CliWorld } from "./world.ts";

let cli: CliWorld;
let model: Provider;
const ends: (() => unknown)[] = [];
beforeEach(async () => {
  cli = await createCli();
  model = await createProvider();
});
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
  await model.close();
  await cli.close();
});

const CHANNELS = {
  async mattermost() {
    const server = await startMattermost();
    const lines: Line[] = [
      ["Address of the server", "chat.example.com"],
      ["Address of the server", server.url],
      ["Access token", ""],
      ["Access token", MATTERMOST_TOKEN],
      ["Who may write", "rosa"],
      ["Who may write", `user:${ROSA}`],
      ["Who gets the replies", "nobody at all"],
      ["Who gets the replies", `user:${ROSA}`],
    ];
    return { server, lines, wrong: 4, count: () => server.posts.length };
  },
  async signal() {
    const server = await signalServer();
    const lines: Line[] = [
      ["Address of the daemon", "localhost"],
      ["Address of the daemon", server.url],
      ["The account's number", "0155"],
      ["The account's number", ACCOUNT],
      ["Who may write", "Rosa"],
      ["Who may write", "+15550001111"],
      ["Who gets the replies", "+15550001111"],
    ];
    return { server, lines, wrong: 3, count: () => server.sent.length };
  },
  async imessage() {
    const server = await blueBubblesServer(Date.now);
    const lines: Line[] = [
      ["Address of the BlueBubbles server", ""],
      ["Address of the BlueBubbles server", server.url],
      ["Server password", PASSWORD],
      ["Secret part", "x"],
      ["Secret part", "a-secret-part-of-the-address"],
      ["Who may write", "rosa@"],
      ["Who may write", ""],
      ["Who gets the replies", "+15550001111"],
    ];
    return { server, lines, wrong: 3, count: () => server.sent.length };
  },
};
const SENDERS: Record<"github" | "stripe", Line[]> = {
  github: [],
  stripe: [["The secret that stripe shows", "whsec_0123456789abcdefghij"]],
};

const askModel = (url: string, key: string): Line[] => [
  ["Which model", "other"],
  ["Base address", "api.example.com/v1"],
  ["Base address", url],
  ["Model", ""],
  ["Model", "qwen3"],
  ["API key", key],
];
const STATES = {
  there: () => ({ lines: askModel(model.url, ""), calls: 1 }),
  "refusing the key": () => {
    model.answer = (_, response) => {
      response.writeHead(401, { "content-type": "application/json" });
      response.end('{"error":{"message":"Incorrect API key"}}');
      return undefined;
    };
    return { lines: askModel(model.url, "the-wrong-key"), calls: 0 };
  },
  away: async () => {
    const { url, close } = await createProvider();
    await close();
    return { lines: askModel(url, ""), calls: 0 };
  },
};

/** Each sender, channel and state of the model is in one of them: no two of them share code. */
const WALKS = [
  { sender: "github", channel: "mattermost", state: "there" },
  { sender: "stripe", channel: "signal", state: "refusing the key" },
  { sender: "github", channel: "imessage", state: "away" },
] as const;

it.each(WALKS)(
  "rouse init with $sender, $channel and a model that is $state: wrong answers are asked again, and the end starts",
  async ({ sender, channel, state }) => {
    const { server, lines, wrong, count } = await CHANNELS[channel]();
    ends.push(() => server.close());
    const { lines: modelLines, calls } = await STATES[state]();
    const prompts = typed([
      ["Whose webhooks", [sender]],
      ...SENDERS[sender],
      ["Where do replies go", [channel]],
      ...lines,
      ...modelLines,
    ]);
    // A model that is away ends the test after seconds.
    const since = Date.now();
    const now = (): number => since + (Date.now() - since) * 8;
    const { code, out, err } = await cli.rouse("init", { prompts, now });
    expect([prompts.left, code]).toEqual([[], state === "there" ? 0 : 1]);
    expect(prompts.refused.length).toBeGreaterThanOrEqual(wrong + 2);
    expect(out).toContain(`Register at ${sender}`);
    if (state !== "there")
      expect(err).toMatch(
        /(?:model has not answered|the run .* failed)[^]*`rouse init --provider NAME`/,
      );
    expect(Math.min(count(), 1)).toBe(calls);
    const gateway = await createGateway({
      cwd: cli.dir,
      env: {},
      workers: true,
    });
    await gateway.start();
    await gateway.stop();
    expect(existsSync(join(cli.dir, `.rouse/secrets/${sender}`))).toBe(true);
  },
);

describe("rouse init, run again", () => {
  it("asks for the channel that a flag names, and for nothing else; so it mends one, too", async () => {
    expect((await cli.rouse("init --yes --no-test --preset github")).code).toBe(0);
    const { server, lines } = await CHANNELS.mattermost();
    ends.push(() => server.close());
    const added = typed(lines);
    expect((await cli.rouse("init --channel mattermost --no-test", { prompts: added })).code).toBe(
      0,
    );
    expect(added.left).toEqual([]);
    const secret = join(cli.dir, ".rouse/secrets/mattermost-token");
    rmSync(secret);
    expect((await cli.rouse("config validate")).err).toContain(`there is no file ${secret}`);
    const mended = typed(lines);
    const { code } = await cli.rouse("init --channel mattermost --no-test", { prompts: mended });
    expect([code, mended.left]).toEqual([0, []]);
    expect((await cli.rouse("config validate")).code).toBe(0);
  });

  it("shows and tests a sender again, with the secret that it has", async () => {
    expect((await cli.rouse("init --yes --no-test --preset github")).code).toBe(0);
    const file = join(cli.dir, ".rouse/secrets/github");
    const before = readFileSync(file, "utf8");
    const again = await cli.rouse("init --yes --preset github");
    expect([again.code, again.err]).toEqual([0, ""]);
    expect(again.out).toContain(before.trim());
    expect(again.out).toContain("The reply, delivered to");
    expect(readFileSync(file, "utf8")).toBe(before);
  });

  it("takes the next free port, and `start` names it", async () => {
    const taken = createServer();
    // Another gateway, or another test, may have it already.
    await new Promise<void>((done) => {
      taken.once("error", () => done());
      taken.listen(7420, "127.0.0.1", done);
    });
    ends.push(() => new Promise((done) => taken.close(done)));
    const { out } = await cli.rouse("init --yes --no-test");
    const port = /Port 7420 is taken: the gateway will listen on (\d+)/.exec(out)?.[1];
    expect(readFileSync(join(cli.dir, "rouse.json5"), "utf8")).toContain(`port: ${port}`);
    const refused = await createGateway({ cwd: cli.dir, env: {}, workers: false, port: 7420 });
    await expect(refused.start()).rejects.toThrow(
      /^port 7420 of 127.0.0.1 is taken; \d+ is free: `--port \d+`, or gateway.port$/,
    );
    await refused.stop();
  });
});
