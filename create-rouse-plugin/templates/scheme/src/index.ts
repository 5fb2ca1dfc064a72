import { definePlugin } from "rouse/plugin";

/** Verifies the signatures of Acme. */
export default definePlugin({
  id: "acme",
  schemes: {
    acme: {
      description: "Acme signs the time and the body.",
      docs: "https://acme.example/docs/webhooks",
      algorithm: "hmac-sha256",
      signature: { header: "acme-signature" },
      signed: "{timestamp}.{raw}",
      timestamp: { at: { header: "acme-timestamp" }, toleranceSeconds: 300 },
    },
  },
});
