import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { plainText } from "../../src/core/text.ts";
import { holesIn } from "../../src/testing/holes.ts";
import { withoutHoles } from "../contract/holes.ts";
import { byHookToken, compile, input } from "./world.ts";

interface Example {
  name: string;
  examples: Record<string, unknown>[];
}
const examples = createRequire(import.meta.url)("@octokit/webhooks-examples") as
  | { default?: Example[] }
  | Example[];
const events = Array.isArray(examples) ? examples : (examples.default ?? []);
const { set, issues } = await compile({ presets: byHookToken(["github", "gmail", "stripe"]) });

const expected: Record<string, string> = {
  issues: "github.issue",
  pull_request: "github.pull-request",
  pull_request_review: "github.review",
  pull_request_review_comment: "github.review-comment",
  issue_comment: "github.comment",
  discussion: "github.discussion",
  discussion_comment: "github.discussion-comment",
  commit_comment: "github.commit-comment",
  push: "github.push",
  release: "github.release",
  workflow_run: "github.workflow-failed",
};

describe("the github preset", () => {
  it("compiles", () => expect(issues).toEqual([]));

  it("has hundreds of recorded bodies to go by", () => {
    expect(events.flatMap((event) => event.examples).length).toBeGreaterThan(200);
  });

  it.each(events.map((event) => [event.name, event.examples] as const))(
    "takes every recorded %s without a failure",
    async (name, bodies) => {
      for (const body of bodies.map(withoutHoles)) {
        const outcome = await set.run(input("github", body));
        expect(["actions", "unmatched"]).toContain(outcome.kind);
        if (outcome.kind !== "actions") continue;
        expect(outcome.mapping).toBe(expected[name]);
        const [first] = outcome.results;
        expect(first?.ok).toBe(true);
        if (!first?.ok) continue;
        expect(first.draft.missing).toEqual([]);
        expect(holesIn(plainText(first.draft.content))).toEqual([]);
        expect(holesIn(String(first.draft.fields.name))).toEqual([]);
        expect(String(first.draft.fields.sessionKey)).toMatch(/^hook:github:[^:]+:/);
      }
    },
  );

  // No recorded run of a workflow failed, and no recorded review has a text.
  const withoutWork = new Set(["workflow_run", "pull_request_review"]);
  it.each(Object.keys(expected).filter((name) => !withoutWork.has(name)))(
    "makes work of some recorded %s",
    async (name) => {
      const bodies = events.find((event) => event.name === name)?.examples ?? [];
      const outcomes = await Promise.all(bodies.map((body) => set.run(input("github", body))));
      expect(outcomes.some((outcome) => outcome.kind === "actions")).toBe(true);
    },
  );

  it("reads like something a person would want to read", async () => {
    const body = events
      .find((event) => event.name === "issues")
      ?.examples.find((example) => example["action"] === "opened");
    const outcome = await set.run(input("github", body));
    if (outcome.kind !== "actions" || !outcome.results[0]?.ok) throw new Error("no draft");
    expect(plainText(outcome.results[0].draft.content)).toMatch(
      /^Issue #\d+ of \S+\/\S+ was opened by \S+: /,
    );
    expect(outcome.results[0].draft.content[0]).toEqual({ text: "Issue #", outside: false });
  });

  it("tells of failed workflow runs only", async () => {
    const run = {
      action: "completed",
      repository: { full_name: "a/b" },
      workflow_run: {
        id: 5,
        name: "CI",
        conclusion: "failure",
        head_branch: "main",
        actor: { login: "me" },
        head_commit: { message: "m" },
        html_url: "u",
      },
    };
    expect(await set.run(input("github", run))).toMatchObject({
      kind: "actions",
      mapping: "github.workflow-failed",
    });
    expect(
      (
        await set.run(
          input("github", { ...run, workflow_run: { ...run.workflow_run, conclusion: "success" } }),
        )
      ).kind,
    ).toBe("unmatched");
  });
});

describe("the gmail preset", () => {
  const message = {
    id: "18c",
    from: "Ann <ann@example.com>",
    subject: "Hi",
    snippet: "Hello there",
    body: "Hello there,\nall well?",
  };

  it("makes one run for each message", async () => {
    const outcome = await set.run(
      input("gmail", { source: "gmail", messages: [message, { ...message, id: "18d" }] }),
    );
    if (outcome.kind !== "actions") throw new Error(outcome.kind);
    expect(outcome.list).toBe(true);
    const drafts = outcome.results.map((result) => (result.ok ? result.draft : undefined));
    expect(drafts.map((draft) => draft?.fields.sessionKey)).toEqual([
      "hook:gmail:18c",
      "hook:gmail:18d",
    ]);
    expect(plainText(drafts[0]?.content ?? [])).toBe(
      "New mail\nFrom: Ann <ann@example.com>\nSubject: Hi\n\nHello there,\nall well?\n\nhttps://mail.google.com/mail/#all/18c",
    );
  });

  it("skips a batch without messages", async () => {
    expect(await set.run(input("gmail", { source: "gmail", messages: [] }))).toMatchObject({
      kind: "skipped",
      mapping: "gmail.message",
    });
  });
});

describe("the amounts of the stripe preset", () => {
  // https://docs.stripe.com/currencies. ISK and UGX have no decimals, but Stripe gives them with two.
  const none = [
    "BIF",
    "CLP",
    "DJF",
    "GNF",
    "JPY",
    "KMF",
    "KRW",
    "MGA",
    "PYG",
    "RWF",
    "VND",
    "VUV",
    "XAF",
    "XOF",
    "XPF",
  ];
  const three = ["BHD", "JOD", "KWD", "OMR", "TND"];
  const two = ["EUR", "USD", "ISK", "UGX", "HUF", "TWD"];
  const amounts = [
    ...none.map((code) => `2200 ${code}`),
    ...three.map((code) => `2.200 ${code}`),
    ...two.map((code) => `22.00 ${code}`),
  ];
  const object = {
    id: "x_1",
    charge: "ch_1",
    customer: "cus_1",
    amount: 2200,
    amount_refunded: 2200,
    amount_due: 2200,
  };

  it.each(["charge.failed", "charge.dispute.created", "charge.refunded", "invoice.payment_failed"])(
    "have the decimals of their currency in %s",
    async (type) => {
      const told: string[] = [];
      for (const amount of amounts) {
        const currency = amount.slice(-3).toLowerCase();
        const outcome = await set.run(
          input("stripe", { id: "evt_1", type, data: { object: { ...object, currency } } }),
        );
        if (outcome.kind !== "actions" || !outcome.results[0]?.ok) throw new Error(outcome.kind);
        const text = plainText(outcome.results[0].draft.content);
        told.push(text.includes(amount) && !/\d \d|[\d.]2200/.test(text) ? amount : text);
      }
      expect(told).toEqual(amounts);
    },
  );
});
