import { createHmac } from "node:crypto";
import { resolve } from "node:path";
import { definePlugin } from "../../../src/plugin/api.ts";
import {
  testExtractor,
  testPreset,
  testScheme,
  testTransform,
  type PresetOptions,
  type SchemeSample,
} from "../../../src/testing/index.ts";

const sign: SchemeSample["sign"] = ({ body, secret, time }) => {
  const signature = createHmac("sha256", secret).update(`${time}.${body}`).digest("hex");
  return {
    headers: { "acme-timestamp": String(time), "acme-signature": signature, "acme-token": secret },
  };
};
const scheme: SchemeSample["scheme"] = {
  algorithm: "hmac-sha256",
  signature: { header: "acme-signature" },
  signed: "{timestamp}.{raw}",
  timestamp: { at: { header: "acme-timestamp" } },
};
const { timestamp: _, ...timeless } = scheme;
const secrets: [string, string] = ["a-secret-of-acme-0123456789", "another-secret-0123456789"];
const schemes: [string, SchemeSample["scheme"]][] = [
  ["accepts what its sender signed", { ...scheme, signed: "{raw}" }],
  [
    "refuses each changed byte",
    {
      algorithm: "equals",
      signature: { header: "acme-token" },
      timestamp: { at: { header: "acme-timestamp" } },
    },
  ],
  [
    "states the time that its sender signs",
    { ...timeless, signed: "{header:acme-timestamp}.{raw}" },
  ],
  [
    "refuses a time that is too old",
    { ...scheme, timestamp: { at: { header: "acme-timestamp" }, toleranceSeconds: 3000 } },
  ],
  ["needs each header of the signature", { ...timeless, signed: "{header:acme-timestamp}.{raw}" }],
];
for (const [expected, document] of schemes)
  testScheme(expected, { scheme: document, secrets, sign, tolerance: 300 });

const mapping = {
  id: "shop.new",
  match: { path: "shop", payload: { type: "order" } },
  sessionKey: "hook:shop:{{id}}",
  messageTemplate: "Order {{id}}",
};
const samples: PresetOptions["samples"] = [
  {
    name: "an order",
    body: '{"type":"order","id":7}',
    expect: { mapping: "shop.new", sessionKey: "hook:shop:7", text: ["Order 7"] },
  },
];
const presets: [
  string,
  Partial<typeof mapping> & Record<string, unknown>,
  Partial<PresetOptions>?,
][] = [
  ["an order becomes a run", { messageTemplate: "Something new" }],
  [
    "has no template line of more than 200 characters",
    { messageTemplate: `Order {{id}} ${"x".repeat(200)}` },
  ],
  ["leaves an unrelated body alone", { match: { path: "shop" } as never }],
  ["an order is done once", { dedupeKey: "{{$now()}}" }],
  [
    "takes different events for different ones",
    { dedupeKey: "order" },
    { samples: [samples[0], { ...samples[0], name: "another", body: '{"type":"order","id":8}' }] },
  ],
  [
    "an order makes no run",
    {},
    { samples: [{ ...samples[0], expect: { mapping: null, sessionKey: null, text: [] } }] },
  ],
  [
    "is refused if it is stale",
    { auth: { scheme: { ...scheme, timestamp: { ...scheme.timestamp, toleranceSeconds: 3000 } } } },
    { signer: { secrets, sign, tolerance: 300 } },
  ],
  [
    "is refused with an altered byte",
    { auth: { scheme: { algorithm: "equals", signature: { header: "acme-token" } } } },
    { signer: { secrets, sign } },
  ],
];
for (const [expected, { auth, ...change }, options] of presets) {
  const id = expected.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const preset = {
    id,
    ...(auth !== undefined && { auth }),
    mappings: [{ ...mapping, ...change }],
  } as never;
  testPreset({
    preset,
    samples,
    plugins: [definePlugin({ id: "shop", presets: [preset] })],
    ...options,
  });
}

const module = (name: string): string => resolve(import.meta.dirname, "modules", name);
const payload = { text: "hello" };
for (const [expected, name] of [
  ["says hello", "silent.js"],
  ["gives the same for the same payload", "random.js"],
  ["does not fail on", "careless.js"],
] as const)
  testTransform(expected, {
    module: module(name),
    samples: [{ name: "says hello", payload, expect: { text: ["hello"] } }],
  });

const document = {
  filename: "a.txt",
  bytes: new TextEncoder().encode("one\ntwo\n"),
  expect: { text: ["one", "two"] as [string, string] },
};
for (const [expected, name, change] of [
  ["reads a.txt", "backwards.js", {}],
  ["ends with an error or with text if a document is empty", "stuck.js", {}],
  ["does not change the document", "scribbling.js", {}],
  ["names its file types", "backwards.js", { extensions: [".TXT"] }],
] as const)
  testExtractor(expected, {
    extractor: { extensions: ["txt"], mediaTypes: [], module: `file://${module(name)}`, ...change },
    samples: [document],
  });
