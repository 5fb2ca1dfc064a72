import { createHmac } from "node:crypto";
import { testScheme } from "rouse/testing";
import plugin from "./index.ts";

for (const [name, scheme] of Object.entries(plugin.schemes ?? {}))
  testScheme(name, {
    scheme,
    secrets: ["a-secret-of-acme-0123456789", "another-secret-0123456789"],
    tolerance: 300,
    // Written from Acme's documentation and not from the scheme, so that the two check each other.
    sign({ body, secret, time }) {
      const signature = createHmac("sha256", secret).update(`${time}.${body}`).digest("hex");
      return { headers: { "acme-timestamp": String(time), "acme-signature": signature } };
    },
  });
