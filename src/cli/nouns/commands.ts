import { listed, type CommandList } from "../command-list.ts";

const watch = () => import("./watch.ts");
const work = () => import("./runs.ts");
const agents = () => import("./agents.ts");
const people = () => import("./people.ts");

export const NOUN_COMMANDS: CommandList = {
  Start: [listed("doctor", "check for common problems", watch)],
  Watch: [
    listed("status", "hooks, latencies, what waits and why, what fails", watch),
    listed("events", "what came in, and what became of it", watch),
    listed("failures", "what failed, by its cause", () => import("./failures.ts")),
    listed("runs", "what agents did, with tokens and costs", work),
    listed("deliveries", "replies on their way to a channel", work),
    listed("sessions", "conversations and their history", work),
  ],
  Agents: [
    listed("agents", "the agents of the config, with their models and tools", agents),
    listed("tools", "what agents may call, and trying it", agents),
    listed("approvals", "calls of tools that wait for a person", agents),
    listed("schedules", "when agents start by themselves, heartbeats included", agents),
    listed("memory", "what agents have noted about people and rooms", agents),
    listed("knowledge", "documents to look things up in", () => import("./knowledge.ts")),
  ],
  "People and keys": [
    listed("people", "who may write to agents, and who has linked several channels", people),
    listed("channels", "where replies go, and who may write to the agent", people),
    listed("keys", "keys of the platform API", people),
  ],
  Operate: [
    listed("config", "show and check the config", () => import("./config.ts")),
    listed("plugins", "list plugins, and add packages", () => import("./plugins.ts")),
    listed("webhooks", "senders that need set-up", () => import("./webhooks.ts")),
  ],
};
