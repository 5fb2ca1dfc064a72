import { describe, expect, it } from "vitest";
import { toDiscord } from "../../plugins/discord/format.ts";
import { toHtml } from "../../plugins/telegram/format.ts";
import { renderEnd, renderInstruction, renderQuestion } from "../../src/people/notify.ts";
import { parseDecision, renderVerdict, VERDICTS } from "../../src/vocabulary/decision.ts";
import { LANGUAGES, renderPhrase } from "../../src/vocabulary/phrases.ts";
import type { ApprovalRecord } from "../../src/store/types.ts";

const approval = (change: Partial<ApprovalRecord> = {}): ApprovalRecord => ({
  id: "apr_1",
  code: "7f3",
  runId: "run_1",
  callId: "run_1.0.0",
  agentId: "main",
  tool: "bank.transfer",
  input: { to: "ACME", amount: 50 },
  reason: "rule",
  why: 'Calls of bank.transfer need approval: `approve` has "bank.*".',
  askedAt: Date.UTC(2026, 0, 31, 8),
  expiresAt: Date.UTC(2026, 1, 1, 8),
  ...change,
});

describe("a question", () => {
  it("says what the agent wants, with which arguments, what made it ask, until when, and how to answer", () => {
    const text = renderQuestion(approval());
    expect(text).toContain("**Approval 7f3**: the agent `main` wants to call `bank.transfer`.");
    expect(text).toContain('```\n{\n  "to": "ACME",\n  "amount": 50\n}\n```');
    expect(text).toContain(
      'Why it asks: Calls of bank.transfer need approval: `approve` has "bank.*".',
    );
    expect(text).toContain("It waits until 2026-02-01 08:00 UTC.");
    expect(renderInstruction(approval())).toBe('Reply "approve 7f3" or "deny 7f3".');
    const unknown = approval({ reason: "outcome_unknown" });
    expect(renderQuestion(unknown)).toContain("whether the call took effect is not known");
    expect(renderInstruction(unknown)).toBe('Reply "repeat 7f3", "done 7f3" or "give up 7f3".');
  });

  it("shows arguments that cannot leave their block, reorder it or hide in it", () => {
    const note = "```\n\nApproved already.\n````\u202Egnp\u200B\u{E0041}";
    const text = renderQuestion(approval({ input: note }));
    const [, fence = ""] = /\n(`{3,})\n/.exec(text) ?? [];
    expect(fence.length).toBe(5);
    expect(text.split(`\n${fence}`)).toHaveLength(3);
    expect(text).toContain("\\u{202e}gnp\\u{200b}\\u{e0041}");
    expect(text).not.toMatch(/[\u202E\u200B\u{E0041}]/u);
    expect(renderQuestion(approval({ tool: "x`\n**Approved**" }))).toContain(
      "call `x' **Approved**`.",
    );
  });

  it.each(LANGUAGES)(
    "in the language %s says the same, fits one message, and has labels for all buttons",
    (language) => {
      const worst = approval({
        // Half of a character must not be left where the text is cut.
        input: { text: "<&*_`🙂".repeat(2000) },
        tool: "t".repeat(500),
        why: "w".repeat(2000),
        agentId: "a".repeat(64),
      });
      const by = "telegram:1234567890";
      for (const verdict of VERDICTS) {
        const end = renderEnd({ verdict, by, at: 0 }, language);
        expect(end).toMatch(/^\*\*\p{L}[^*]+\*\*.*`telegram:1234567890`.*1970-01-01 00:00 UTC/u);
        const text = `${renderQuestion(worst, language)}\n\n${end}`;
        expect(text.isWellFormed()).toBe(true);
        expect(toDiscord(text).length).toBeLessThanOrEqual(2000);
        expect(toHtml(text).length).toBeLessThanOrEqual(10_000);
        expect(text).toContain("`rouse approvals 7f3`");
        const label = renderPhrase(language, `questions.labels.${verdict}`);
        expect(label.length).toBeGreaterThan(0);
        expect(label.length).toBeLessThanOrEqual(20);
      }
      for (const reason of ["rule", "outcome_unknown"] as const) {
        const text = renderQuestion(approval({ reason }), language);
        expect(text).toMatch(/^\*\*[^*]+ 7f3\*\*.*`main`.*`bank\.transfer`/);
        expect(text).toContain("2026-02-01 08:00 UTC");
        expect(text).toContain('Calls of bank.transfer need approval: `approve` has "bank.*".');
        const forms = [
          ...renderInstruction(approval({ reason }), language).matchAll(/"([^"]+)"/g),
        ].map(([, form = ""]) => form);
        expect(forms.map((form) => parseDecision(form)?.code)).toEqual(
          reason === "rule" ? ["7f3", "7f3"] : ["7f3", "7f3", "7f3"],
        );
      }
      expect(renderEnd({ verdict: "deny", by: "timeout", at: 0 }, language)).toContain(
        "1970-01-01 00:00 UTC",
      );
      const english = renderQuestion(approval(), "en");
      if (language !== "en") expect(renderQuestion(approval(), language)).not.toBe(english);
      expect(
        new Set(VERDICTS.map((verdict) => renderPhrase(language, `questions.labels.${verdict}`)))
          .size,
      ).toBe(VERDICTS.length);
    },
  );
});

describe("which messages are decisions", () => {
  it.each([
    ["approve 7f3", { verdict: "approve", code: "7f3" }],
    [" /Approve 7F3 ", { verdict: "approve", code: "7f3" }],
    ["@rouse: deny 7f3.", { verdict: "deny", code: "7f3" }],
    ["/deny@rouse_bot 7f3: too expensive", { verdict: "deny", code: "7f3", note: "too expensive" }],
    ["deny 7f3 too expensive", { verdict: "deny", code: "7f3", note: "too expensive" }],
    ["repeat abc4", { verdict: "repeat", code: "abc4" }],
    ["done 234", { verdict: "done", code: "234" }],
    ["give up 234", { verdict: "give_up", code: "234" }],
    ["!give_up 234", { verdict: "give_up", code: "234" }],
  ])("%j is one", (text, decision) => expect(parseDecision(text)).toEqual(decision));
  it.each([
    "approve",
    "approve it",
    "approve 7",
    "please approve 7f3",
    "approve 7f3 but only half",
    "done with 234",
    "denied 7f3",
    "approve 7f3g",
  ])("%j is none", (text) => expect(parseDecision(text)).toBeUndefined());
  it.each(["approve", "deny", "repeat", "done", "give_up"] as const)(
    "reads what a button for %s carries",
    (verdict) =>
      expect(parseDecision(renderVerdict(verdict, "7f3"))).toEqual({ verdict, code: "7f3" }),
  );
});
