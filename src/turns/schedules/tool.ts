import { z } from "zod";
import { duration, optionalField, switchField, text } from "../../config/schema/common.ts";
import type { Clock } from "../../core/clock.ts";
import type { TurnExtension } from "../../agent/types.ts";
import { findApprovedCall } from "../../people/rules.ts";
import { findScheduleIssues, toTrigger } from "../../config/schedule-checks.ts";
import { OWN_SOURCE, SCHEDULE_TOOL } from "../../vocabulary/tool-names.ts";
import type { Tool } from "../../contract/kinds.ts";
import type { AskedSchedule, Reads } from "../../store/types.ts";
import { parseTrigger } from "../../vocabulary/schedule-times.ts";
import type { ApprovedSchedules } from "./proposals.ts";

const INPUT = z.strictObject({
  cron: optionalField(
    z.string(),
    "Five fields: minute, hour, day of the month, month, day of the week. Either this, `every` or `at`.",
  ),
  every: duration.optional().describe("The time between two firings, such as 6h."),
  at: z.string().optional().describe("One time, such as 2026-01-31T08:00, in the time zone."),
  timezone: z.string().default("UTC").describe("An IANA name, such as Europe/Berlin."),
  prompt: text
    .max(8_000)
    .describe(
      "What you will be asked then. You will not see this conversation: write all that you will need.",
    ),
  deliver: switchField(
    "Whether the answer is sent: to where the answers of this conversation go, or else to the owner.",
    true,
  ),
});
const DESCRIPTION =
  "Proposes a schedule, which asks you something at a time or regularly. A person has to approve each schedule before it exists.";

/** The list in which the tool keeps schedules, and the store from which it reads approvals. */
export interface ScheduleToolDeps {
  store: Reads;
  approved: Pick<ApprovedSchedules, "add">;
  clock: Pick<Clock, "now">;
}

/** Finds the conversation in which a run was asked for a schedule; undefined for the owner's main session. */
async function findAsked(runId: string, store: Reads): Promise<AskedSchedule | undefined> {
  const run = await store.runs.get(runId);
  if (!run || run.spec.session.origin === "main") return undefined;
  // A proposal of a schedule's run belongs to the conversation that asked for that schedule.
  if (run.kind === "schedule") return run.spec.schedule.asked;
  const { session } = run.spec;
  if (run.route?.status !== "route") return { session };
  const { replyTo: _replyTo, ...route } = run.route.route;
  return { session, route };
}

/**
 * Creates the tool by which an agent proposes a schedule. Every call of it waits for a person, whatever rules there are. A prompt
 * that the agent wrote with text from outside in view counts as text from outside.
 */
export function createScheduleTool({ store, approved, clock }: ScheduleToolDeps): TurnExtension {
  const tool: Tool<typeof INPUT> = {
    name: SCHEDULE_TOOL,
    description: DESCRIPTION,
    input: INPUT,
    idempotent: true,
    exclusive: true,
    async execute({ cron, every, at, timezone, prompt, deliver }, { agentId, runId, callId }) {
      const times = { id: "proposed", cron, every, at, timezone };
      const [issue] = findScheduleIssues({ ...times, prompt, catchUp: "once" });
      if (issue)
        return `There is no schedule: ${[issue.path, issue.message].filter(Boolean).join(" ")}.`;
      const [now, parsed] = [clock.now(), parseTrigger(toTrigger(times))];
      // The model has another date in mind, or the approver took longer.
      if (parsed.ok && parsed.times.next(now) === undefined)
        return `There is no schedule: at is over, as it is ${new Date(now).toISOString()} now.`;
      const approval = await findApprovedCall(runId, callId, store);
      if (!approval) return "There is no schedule: no person has approved it.";
      const outside = approval.reason === "untrusted";
      const { by } = approval.decision;
      const asked = await findAsked(runId, store);
      const proposed = {
        agentId,
        trigger: toTrigger(times),
        prompt,
        outside,
        deliver,
        callId,
        runId,
        by,
        ...(asked && { asked }),
      };
      const added = await approved.add(proposed);
      return `The schedule ${added.id} exists; ${by} has approved it.`;
    },
  };
  return { id: OWN_SOURCE, tools: [tool], warning: "" };
}
