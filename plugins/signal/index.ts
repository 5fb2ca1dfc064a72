import { z } from "zod";
import {
  channelConfig,
  httpUrl,
  normalForm,
  phoneNumber,
  recipients,
  typingSetting,
} from "#channel-kit";
import { definePlugin } from "#plugin";
import { createFileFetcher } from "./files.ts";
import { listen } from "./receive.ts";
import { createChannel, createRpc, render } from "./send.ts";

/**
 * Signal's apps take 2048 bytes in a message's body and drop what is longer; the daemon makes an attachment of a text
 * over 2000. Not in its manual: from the apps' and the daemon's source.
 */
const LONGEST_MESSAGE = 2_000;

const PERSON = [
  { like: "a number with its country's code (+15551234567)", pattern: /^(\+.*)$/, to: phoneNumber },
  {
    like: "an account id (uuid:01234567-89ab-cdef-0123-456789abcdef)",
    pattern: /^(?:uuid:)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i,
    to: (id = "") => `uuid:${id.toLowerCase()}`,
  },
] as const;
const parsePerson = recipients(...PERSON);
const parseRecipient = recipients(
  ...PERSON,
  {
    like: "a username with its number (u:name.01)",
    pattern: /^(u:[a-z_][a-z0-9_]{2,31}\.\d{2,9})$/i,
    to: (name = "") => name.toLowerCase(),
  },
  {
    like: "a group by its id in base64, as `signal-cli listGroups` shows it (group:<id>)",
    // Group ids are 16 or 32 bytes; the URL-safe letters that some tools write mean the same.
    pattern: /^group:([\w+/-]{22}==|[\w+/-]{43}=)$/i,
    to: (id = "") => `group:${id.replaceAll("-", "+").replaceAll("_", "/")}`,
  },
);

const config = channelConfig(
  {
    url: httpUrl(
      "Address of `signal-cli daemon --http`. It asks for no password: keep it on this machine.",
      "http://127.0.0.1:8080",
    ),
    typing: typingSetting(),
    account: z
      .string()
      .refine(
        (text) => parsePerson(text).ok,
        `must be ${PERSON.map(({ like }) => like).join(", or ")}`,
      )
      .describe("The agent's own account on the daemon: its number, or its account id as uuid:…"),
  },
  { person: PERSON, parseRecipient },
);

/** Signal, by a `signal-cli daemon --http` that holds the account. */
export default definePlugin({
  id: "signal",
  setupQuestions: {
    name: "Signal (signal-cli)",
    where:
      "https://github.com/AsamK/signal-cli: register or link the account, then `signal-cli daemon --http`",
    fields: [
      { name: "url", ask: "Address of the daemon", value: "http://127.0.0.1:8080" },
      { name: "account", ask: "The account's number, +…" },
    ],
    owner: "your own number, +…, or your account's UUID",
  },
  config,
  channel({ config: { url, account, allowFrom }, fetch, clock, log }) {
    const own = (normalForm(parsePerson, account) ?? account).replace(/^uuid:/, "");
    const daemon = { url, account: own, allowFrom, fetch, log, now: () => clock.now() };
    return {
      ...createChannel(daemon),
      fetchFile: createFileFetcher(createRpc(daemon)),
      limit: LONGEST_MESSAGE,
      // Signal counts bytes of UTF-8.
      lengthOf: (text) => Buffer.byteLength(render(text).text),
      parseRecipient,
      listen: (signal, host) => listen(daemon, signal, host),
    };
  },
});
