import { useResource } from "../../resource.ts";
import { Doctor, Mappings, TopFailures } from "./found.tsx";
import { Summary } from "./health.tsx";
import { Hooks } from "./hooks.tsx";
import { Channels, NewestHooks } from "./newest.tsx";
import type { GatewayStatus, OpenFailures } from "./types.ts";
import { Usage } from "./usage.tsx";
import "./style.css";

/** The health of the gateway and its open problems. Each part loads by itself and links to its page. */
export function Page() {
  const status = useResource<{ status: GatewayStatus }>("/status", { live: true });
  const failures = useResource<OpenFailures>("/failures?status=open&limit=5", { live: true });
  return (
    <>
      <header class="page-head">
        <h1>Overview</h1>
      </header>
      <div class="page-body">
        <Summary status={status} failures={failures.data} />
        <Hooks />
        <div class="overview-columns">
          <NewestHooks />
          <TopFailures failures={failures} />
        </div>
        <div class="overview-columns">
          <Channels status={status.data?.status} />
          <Mappings />
        </div>
        <div class="overview-columns">
          <Doctor />
          <Usage />
        </div>
      </div>
    </>
  );
}
