import { createHmac } from "node:crypto";
import { testPreset } from "rouse/testing";
import plugin from "./index.ts";

const secrets = [
  Buffer.from("a secret of 24 bytes xxx"),
  Buffer.from("another of 24 bytes xxxx"),
].map((bytes) => `whsec_${bytes.toString("base64")}`) as [string, string];

for (const preset of plugin.presets ?? [])
  testPreset({
    preset,
    plugins: [plugin],
    signer: {
      secrets,
      tolerance: 300,
      sign({ body, secret, time, id = "msg_1" }) {
        const key = Buffer.from(secret.slice("whsec_".length), "base64");
        const signature = createHmac("sha256", key)
          .update(`${id}.${time}.${body}`)
          .digest("base64");
        return {
          headers: {
            "webhook-id": id,
            "webhook-timestamp": String(time),
            "webhook-signature": `v1,${signature}`,
          },
        };
      },
    },
    samples: [
      {
        // Bodies as Acme posts them: record your own.
        name: "a new order",
        body: JSON.stringify({
          type: "order.created",
          data: { id: "o-1", customer: { id: "c-7", name: "Ada" } },
        }),
        expect: {
          mapping: "acme-orders.new",
          sessionKey: "hook:acme:c-7",
          text: ["New order o-1 from Ada"],
        },
      },
    ],
  });
