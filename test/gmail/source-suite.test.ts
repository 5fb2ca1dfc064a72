import gmail from "../../plugins/gmail/index.ts";
import { createTestContext, testSource } from "../../src/testing/index.ts";
import { createGmailWorld } from "./support.ts";

testSource("gmail", async () => {
  const mail = await createGmailWorld();
  mail.google.pubsub.holdMs = 50;
  await mail.setup();
  const { account, endpoints } = mail.google;
  const config = gmail.config?.parse({ account, credentials: "installed.json", endpoints });
  const given = { baseDir: mail.dir, stateDir: async () => mail.file(".rouse/plugins/gmail") };
  return {
    create() {
      const source = config && gmail.source?.(createTestContext(config, given));
      if (!source) throw new Error("the plugin offers no source");
      return source;
    },
    async emit(text) {
      mail.google.receive({ subject: text });
      return undefined;
    },
    secrets: ["token-canary", "refresh-canary", "secret-canary"],
    close: () => mail.close(),
  };
});
