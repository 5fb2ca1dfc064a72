import { expect, it } from "vitest";
import { ask, lastText, openWorld } from "./contents.ts";
import type { startSlack } from "./slack-server.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

const slack = VENDORS.find(({ id }) => id === "slack") as Vendor;
const mattermost = VENDORS.find(({ id }) => id === "mattermost") as Vendor;
const THREAD = "1760000000.000001";

type Alert = Partial<Awaited<ReturnType<typeof startSlack>>["written"][number]>;

/** As these programs post to Slack: without a text. */
const ALERTS: [string, Alert, string[]][] = [
  [
    "Alertmanager",
    {
      attachments: [
        {
          pretext: "Cluster eu-1",
          title: "[FIRING:1] DiskFull (db-7)",
          title_link: "https://alerts.example/#/alerts",
          text: "The disk of db-7 is 97 % full.",
          fallback: "[FIRING:1] DiskFull (db-7)",
          fields: [{ title: "Severity", value: "critical", short: true }],
        },
      ],
    },
    [
      "Alertmanager: Cluster eu-1",
      "[[FIRING:1] DiskFull (db-7)](https://alerts.example/#/alerts)",
      "The disk of db-7 is 97 % full.",
      "Severity: critical",
    ],
  ],
  [
    "Grafana",
    {
      attachments: [
        {
          title: "CPU high",
          title_link: "https://grafana.example/a",
          text: "**Firing**\n\nValue: A=93",
          fallback: "CPU high",
          footer: "Grafana v11.2.0",
        },
      ],
    },
    ["[CPU high](https://grafana.example/a)", "Value: A=93", "Grafana v11.2.0"],
  ],
  [
    "Datadog",
    { attachments: [{ fallback: "Triggered: latency of checkout", text: "" }] },
    ["Triggered: latency of checkout"],
  ],
  [
    "PagerDuty",
    {
      attachments: [
        {
          fallback: "[no preview available]",
          blocks: [
            {
              type: "section",
              text: {
                type: "mrkdwn",
                text: "*Triggered* <https://pd.example/P1|#42: queue is stuck>",
              },
              fields: [{ type: "mrkdwn", text: "*Service:* billing" }],
            } as object,
            {
              type: "actions",
              elements: [
                {
                  type: "button",
                  text: { type: "plain_text", text: "View" },
                  url: "https://pd.example/P1",
                },
              ],
            } as object,
          ],
        },
      ],
    },
    [
      "*Triggered* [#42: queue is stuck](https://pd.example/P1)",
      "*Service:* billing",
      "[View](https://pd.example/P1)",
    ],
  ],
  [
    "a program that writes rich text",
    {
      text: "A summary",
      blocks: [
        { type: "header", text: { type: "plain_text", text: "Deploy failed" } } as object,
        {
          type: "rich_text",
          elements: [
            {
              type: "rich_text_list",
              elements: [
                {
                  type: "rich_text_section",
                  elements: [
                    { type: "text", text: "see " },
                    { type: "link", url: "https://ci.example/7", text: "job 7" },
                  ],
                },
              ],
            },
          ],
        } as object,
      ],
    },
    ["Deploy failed", "see [job 7](https://ci.example/7)"],
  ],
];

it.each(ALERTS)(
  "slack: a call below an alert of %s brings what the alert says",
  async (name, alert, lines) => {
    const opened = await openWorld({
      ...slack,
      async start() {
        const far = await slack.start();
        far.sends.alert?.({
          ts: THREAD,
          thread_ts: THREAD,
          text: "",
          bot_id: "B0ALERT001",
          bot_profile: { name },
          ...alert,
        });
        return far;
      },
    });
    await ask(opened, opened.far.writes.thread?.("investigate") ?? Promise.resolve(undefined));
    const [, inside = ""] =
      /thread before"\n---\n([^]*?)\n<<<END_EXTERNAL/.exec(lastText(opened.provider)) ?? [];
    expect(inside).toContain(`${name}: `);
    for (const line of lines) expect(inside).toContain(line);
  },
);

it("mattermost: a call below a webhook's post brings its attachments", async () => {
  const opened = await openWorld(mattermost);
  opened.far.sends.alert?.({
    message: "",
    props: {
      from_webhook: "true",
      override_username: "Alertmanager",
      attachments: [{ title: "DiskFull", fields: [{ title: "Host", value: "db-7" }] }],
    },
  });
  await ask(opened, opened.far.writes.thread?.("investigate") ?? Promise.resolve(undefined));
  expect(lastText(opened.provider)).toMatch(
    /thread before"\n---\n(?:.*\n)*Alertmanager: DiskFull\nHost: db-7\n/,
  );
});
