import type { ApprovalView } from "../../../../src/operate/people/approvals.ts";

export type Verdict = ApprovalView["verdicts"][number];

/** What each decision is called, and the key that makes it. */
export const VERDICTS: Record<Verdict, { label: string; key: string; done: string }> = {
  approve: { label: "Approve", key: "a", done: "Approved" },
  deny: { label: "Deny", key: "d", done: "Denied" },
  repeat: { label: "Repeat the call", key: "r", done: "The call is repeated" },
  done: { label: "Treat as done", key: "t", done: "Treated as done" },
  give_up: { label: "Give up", key: "x", done: "The run is ended" },
};

/** What is asked before a decision that cannot be taken back and that may do harm. */
export const QUESTIONS: Partial<Record<Verdict, { title: string; text: string }>> = {
  repeat: { title: "Make this call again?", text: "It may have been carried out already." },
  give_up: { title: "End this run?", text: "It ends as failed. What it has done stays done." },
};
