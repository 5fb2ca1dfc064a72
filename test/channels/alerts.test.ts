import { expect, it } from "vitest";
import { ask, lastText, openWorld, pass } from "./contents.ts";
import { samplesOf } from "./samples.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

const slack = VENDORS.find(({ id }) => id === "slack") as Vendor;
const mattermost = VENDORS.find(({ id }) => id === "mattermost") as Vendor;
const THREAD = "1760000000.000001";

it.each(samplesOf("slack").alerts ?? [])(
  "slack: a call below an alert of $name brings what the alert says",
  async ({ name, alert, lines }) => {
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
  await pass(opened.world, await opened.far.writes.chatter("unrelated words"));
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
    /<<<EXTERNAL_CONTENT \w+>>>[^]*thread before"\n---\n(?:.*\n)*Alertmanager: DiskFull\nHost: db-7\n/,
  );
  expect(lastText(opened.provider)).not.toContain("unrelated words");
});
