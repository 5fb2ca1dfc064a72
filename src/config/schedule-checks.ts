import type { Issue } from "../core/errors.ts";
import { parseTrigger, type Trigger } from "../vocabulary/schedule-times.ts";
import type { Config } from "./schema/index.ts";
import type { ScheduleConfig } from "./schema/schedules.ts";

/** The id of the schedule that an agent's heartbeats are. */
export const HEARTBEAT_ID = "heartbeat";

const MIN_EVERY_MS = 1_000;
const TRIGGERS = ["cron", "every", "at"] as const;

/** Returns when a schedule of the config fires. The config has been checked: there is one of the three. */
export function toTrigger({
  cron,
  every,
  at = "",
  timezone,
}: Pick<ScheduleConfig, "cron" | "every" | "at" | "timezone">): Trigger {
  if (cron !== undefined) return { cron, timezone };
  return every === undefined ? { at, timezone } : { everyMs: every };
}

/** Returns what is wrong with a schedule, each problem with the path of its field below the schedule. */
export function findScheduleIssues(schedule: ScheduleConfig): Issue[] {
  const issues: Issue[] = [];
  const wrong = (path: string, message: string): void => void issues.push({ path, message });
  const { id, every, prompt } = schedule;
  if (id === HEARTBEAT_ID)
    wrong(
      "id",
      "is that of the agent's heartbeats: choose another id, or set `heartbeat` of the agent",
    );
  const given = TRIGGERS.filter((name) => schedule[name] !== undefined);
  if (given.length !== 1)
    wrong(
      "",
      `needs exactly one of \`cron\`, \`every\` and \`at\`; it has ${given.join(" and ") || "none"}`,
    );
  else if (every !== undefined && every < MIN_EVERY_MS) wrong("every", "must be at least a second");
  else {
    const parsed = parseTrigger(toTrigger(schedule));
    if (!parsed.ok) wrong(parsed.field, parsed.message);
  }
  if (prompt.trim() === "") wrong("prompt", "must not be blank");
  return issues;
}

/** Returns what is wrong with the schedules of all agents. */
export function scheduleIssues({ agents }: Config): Issue[] {
  return agents.list.flatMap(({ schedules }, agent) => {
    const seen = new Set<string>();
    return schedules.flatMap((schedule, index) => {
      const at = `agents.list[${agent}].schedules[${index}]`;
      const issues = findScheduleIssues(schedule).map(({ path, message }) => ({
        path: path === "" ? at : `${at}.${path}`,
        message,
      }));
      if (seen.has(schedule.id))
        issues.push({
          path: `${at}.id`,
          message: `another schedule of this agent has the id "${schedule.id}"`,
        });
      seen.add(schedule.id);
      return issues;
    });
  });
}
