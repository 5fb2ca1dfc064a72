import { z } from "zod";
import type { TurnExtension } from "../agent/extensions.ts";
import { findScheduleIssues, toTrigger } from "../config/schedule-checks.ts";
import { OWN_SOURCE, SCHEDULE_TOOL } from "../core/tool-names.ts";
import type { Tool } from "../contract/kinds.ts";
import type { Store } from "../store/types.ts";
import type { ApprovedSchedules } from "./proposals.ts";

const INPUT = z.strictObject({
  cron: z.string().optional().describe("Five fields: minute, hour, day of the month, month, day of the week. Either this or `at`."),
  at: z.string().optional().describe("One time, such as 2026-01-31T08:00, in the time zone."),
  timezone: z.string().default("UTC").describe("An IANA name, such as Europe/Berlin."),
  prompt: z
    .string()
    .min(1)
    .max(8_000)
    .describe("What you will be asked then. You will not see this conversation: write all that you will need."),
  deliver: z.boolean().default(true).describe("Whether the answer is sent to the owner."),
});
const DESCRIPTION =
  "Proposes a schedule, which asks you something at a time or regularly. A person has to approve each schedule before it exists.";
const MAX_APPROVALS = 200;

/** What the tool keeps schedules in, and what it reads approvals from. */
export interface ScheduleToolDeps {
  store: Pick<Store, "list">;
  approved: Pick<ApprovedSchedules, "add">;
}

/**
 * Creates the tool by which an agent proposes a schedule. Every call of it waits for a person, whatever rules there are. A prompt
 * that the agent wrote with text from outside in view counts as text from outside.
 */
export function createScheduleTool({ store, approved }: ScheduleToolDeps): TurnExtension {
  const tool: Tool<typeof INPUT> = {
    name: SCHEDULE_TOOL,
    description: DESCRIPTION,
    input: INPUT,
    idempotent: true,
    exclusive: true,
    async execute({ cron, at, timezone, prompt, deliver }, { agentId, runId, callId }) {
      const times = { id: "proposed", cron, every: undefined, at, timezone };
      const [issue] = findScheduleIssues({ ...times, prompt, catchUp: "once", jitter: 0 });
      if (issue) return `There is no schedule: ${[issue.path, issue.message].filter(Boolean).join(" ")}.`;
      const approvals = await store.list("approvals", { runId, limit: MAX_APPROVALS });
      const approval = approvals.find((one) => one.callId === callId && one.decision?.verdict === "approve");
      if (!approval?.decision) return "There is no schedule: no person has approved it.";
      const outside = approval.reason === "untrusted";
      const { by } = approval.decision;
      const added = await approved.add({ agentId, trigger: toTrigger(times), prompt, outside, deliver, callId, runId, by });
      return `The schedule ${added.id} exists; ${by} has approved it.`;
    },
  };
  return { id: OWN_SOURCE, tools: [tool], warning: "" };
}
