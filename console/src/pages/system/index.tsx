import { go, href, place } from "../../router.ts";
import { Tabs } from "../../ui/fields.tsx";
import { lazy } from "../../ui/lazy.tsx";
import { Agents } from "./agents.tsx";
import { Checks } from "./checks.tsx";
import { Config } from "./config.tsx";
import { Gateway } from "./gateway.tsx";
import { ApiKeys } from "./keys.tsx";
import { Mappings } from "./mappings.tsx";
import { Schedules } from "./schedules.tsx";
import "./style.css";

/** Parts that are seldom opened, and the largest one: channels, with people and pairings. */
const Channels = lazy(async () => (await import("./channels.tsx")).Channels);
const Memory = lazy(async () => (await import("./memory.tsx")).Memory);

const PARTS = [
  { name: "gateway", title: "Gateway", Part: Gateway },
  { name: "agents", title: "Agents and plugins", Part: Agents },
  { name: "schedules", title: "Schedules", Part: Schedules },
  { name: "channels", title: "Channels", Part: Channels },
  { name: "memory", title: "Memory", Part: Memory },
  { name: "mappings", title: "Mappings and paths", Part: Mappings },
  { name: "keys", title: "Keys", Part: ApiKeys },
  { name: "doctor", title: "Doctor", Part: Checks },
  { name: "config", title: "Config", Part: Config },
] as const;

/** Everything about the gateway itself, in parts that load when they are opened. */
export function Page() {
  const { Part, name } = PARTS.find((part) => part.name === place.value.id) ?? PARTS[0];
  return (
    <>
      <header class="page-head">
        <h1>System</h1>
      </header>
      <div class="system-tabs">
        <Tabs
          label="Parts of the system"
          tabs={PARTS}
          value={name}
          onChange={(part) => go(href("system", part))}
        />
      </div>
      <div class="page-body">
        <Part />
      </div>
    </>
  );
}
