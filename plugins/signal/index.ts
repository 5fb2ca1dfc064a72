import { z } from "zod";
import { definePlugin } from "#plugin";
import { measure } from "./format.ts";
import { listen } from "./receive.ts";
import { accountOf, parseRecipient } from "./recipient.ts";
import { probe, send } from "./send.ts";

/**
 * Signal's apps take 2048 bytes in a message's body and drop what is longer; the daemon makes an attachment of a text
 * over 2000. Not in its manual: from the apps' and the daemon's source.
 */
const LONGEST_MESSAGE = 2_000;

const normal = (to: string): string => {
  const parsed = parseRecipient(to);
  return parsed.ok ? parsed.to : to;
};
const person = z.string().refine((to) => /^(?:\+|uuid:)/.test(normal(to)) && parseRecipient(to).ok, {
  error: "must be a number like +15551234567 or an account id like uuid:01234567-89ab-cdef-0123-456789abcdef",
});

/** Signal, by a `signal-cli daemon --http` that holds the account. */
export default definePlugin({
  id: "signal",
  config: z.strictObject({
    url: z
      .url({ protocol: /^https?$/ })
      .default("http://127.0.0.1:8080")
      .describe("Address of `signal-cli daemon --http`. It asks for no password: keep it on this machine."),
    account: person.describe("The agent's own account on the daemon: its number, or its account id as uuid:…"),
    allowFrom: z.array(person).default([]).describe("Who may speak to the agent: numbers or account ids (uuid:…). Empty: nobody."),
    defaultTo: z
      .string()
      .refine((to) => parseRecipient(to).ok, { error: "must be +15551234567, uuid:<account id>, u:name.01 or group:<id>" })
      .optional()
      .describe("The recipient where none is named: +15551234567, uuid:…, u:name.01 or group:<id>."),
  }),
  channel({ config, fetch, clock, log }) {
    const daemon = { url: config.url.replace(/\/+$/, ""), account: accountOf(normal(config.account)), fetch };
    const allowFrom = config.allowFrom.map(normal);
    return {
      limit: LONGEST_MESSAGE,
      measure,
      allowFrom,
      parseRecipient,
      ...(config.defaultTo === undefined ? {} : { defaultTo: normal(config.defaultTo) }),
      send: (message, signal) => send(daemon, message, signal),
      probe: (signal) => probe(daemon, signal),
      listen: (signal, host) => listen({ ...daemon, allowFrom, log, now: () => clock.now() }, signal, host),
    };
  },
});
