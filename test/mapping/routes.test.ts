import { describe, expect, it } from "vitest";
import { createChannels } from "../../src/delivery/channels.ts";
import type { Channel } from "../../src/plugin/api.ts";
import { fakeChannel } from "../delivery/support.ts";
import { compile } from "./world.ts";

const parseRecipient: Channel["parseRecipient"] = (to) =>
  /^[a-z]+$/.test(to) ? { ok: true, to } : { ok: false, message: "must be small letters" };
const listen = async () => undefined;
const OWN: Record<string, Partial<Channel>> = {
  rooms: { parseRecipient },
  lobby: { parseRecipient, defaultTo: "lobby" },
  spare: { parseRecipient, defaultTo: "owner", fallback: true },
  talk: { parseRecipient, listen, allowFrom: ["owner"] },
  mute: { parseRecipient, listen, allowFrom: [] },
  console: { defaultTo: "terminal", fallback: true },
};
const KNOWN = Object.keys(OWN).map((id) => ({ id }));

async function warningsOf(configured: string, more: object) {
  const loaded = configured
    .split(" ")
    .map((id): [string, Channel] => [id, fakeChannel(OWN[id]).channel]);
  const channels = createChannels(KNOWN, new Map(loaded), new Set(["console"]));
  const { issues, warnings } = await compile(
    { mappings: [{ id: "m", match: { path: "m" }, messageTemplate: "x", ...more }] },
    {},
    undefined,
    channels,
  );
  expect(issues).toEqual([]);
  return warnings;
}

describe("loading warns of a mapping whose replies can have no route", () => {
  it.each<[string, string, object, string, string]>([
    ["no fallback", "rooms", {}, "channel", '"rooms" has no default recipient'],
    ["two channels, neither a fallback", "rooms lobby", {}, "channel", "name `channel` and `to`"],
    ["nobody may write", "mute", { channel: "last" }, "channel", "set its `defaultTo`"],
    [
      "the channel is not configured",
      "rooms",
      { channel: "spare", to: "ops" },
      "channel",
      "`channels.spare`",
    ],
    ["the channel has no recipient", "rooms", { channel: "rooms" }, "channel", "name `to`"],
    [
      "the channel does not take the recipient",
      "rooms",
      { channel: "rooms", to: "+1555" },
      "to",
      "small letters",
    ],
    ["no channel takes the recipient", "talk lobby", { to: "+1555" }, "to", "name the `channel`"],
    [
      "there is more than one channel for a recipient",
      "rooms mute",
      { to: "{{to}}" },
      "to",
      "name the `channel`",
    ],
    ["the recipient is empty", "lobby", { to: "" }, "to", "`to` is empty"],
  ])("if %s", async (_name, configured, more, field, message) => {
    const path = `hooks.mappings[0].${field}`;
    expect(await warningsOf(configured, more)).toEqual([
      { path, message: expect.stringContaining(message) as unknown },
    ]);
  });

  it.each<[string, string, object]>([
    ["there is only the terminal", "console", {}],
    ["there is only the terminal and a recipient is named", "console", { to: "me" }],
    ["the only channel has a default recipient", "lobby", {}],
    ["a fallback has a default recipient", "rooms spare", {}],
    ["the owner may write", "talk rooms", {}],
    ["people may write on the named channel", "talk rooms", { channel: "talk" }],
    ["the recipient comes with the event", "rooms", { to: "{{to}}" }],
    ["the channel comes with the event", "rooms", { channel: "{{channel}}" }],
    ["nothing is delivered", "rooms", { deliver: false }],
    ["nothing is done", "rooms", { shadow: true }],
    ["a transform may name the channel", "rooms", { transform: { jsonata: "{}" } }],
    ["it only wakes", "rooms", { action: "wake", textTemplate: "x", messageTemplate: undefined }],
  ])("and not if %s", async (_name, configured, more) => {
    expect(await warningsOf(configured, more)).toEqual([]);
  });
});
