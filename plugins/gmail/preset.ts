import type { Plugin } from "#plugin";

type Preset = NonNullable<Plugin["presets"]>[number];

/** Makes one run, in a session of its own, of each message that the watcher hands over. */
export const gmailPreset: Preset = {
  id: "gmail",
  version: 1,
  description: "New mail: one run for each message, one conversation for each message.",
  mappings: [
    {
      id: "gmail.message",
      match: { path: "gmail" },
      forEach: "messages",
      name: "Gmail",
      sessionKey: "hook:gmail:{{item.id ?: item.threadId}}",
      dedupeKey: "{{item.id ?: ''}}",
      wakeMode: "next-heartbeat",
      messageTemplate: [
        "New mail",
        "From: {{item.from ?: 'unknown'}}",
        "Subject: {{item.subject ?: 'none'}}",
        "",
        "{{item.body ?: item.snippet}}",
        "",
        "{{item.id ? 'https://mail.google.com/mail/#all/' & item.id : ''}}",
      ],
    },
  ],
  samples: {
    message: {
      body: {
        source: "gmail",
        messages: [
          {
            id: "18f1",
            threadId: "18f0",
            from: "Ann <ann@example.com>",
            to: "ops@example.com",
            subject: "Invoice 7",
            date: "2026-01-02T03:04:05Z",
            snippet: "Please find",
            body: "Please find attached.",
            labels: ["INBOX"],
          },
        ],
      },
    },
  },
};
