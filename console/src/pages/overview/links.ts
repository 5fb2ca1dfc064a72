import { href } from "../../router.ts";
import type { Finding } from "./types.ts";

/** The pages to act on a finding of the doctor. Findings of other checks lead to the System page. */
const CHECKS: Readonly<Record<string, string>> = {
  approvals: href("approvals"),
  backlog: href("runs", "", { status: "queued" }),
  breakers: href("system", "gateway"),
  config: href("system", "config"),
  deliveries: href("deliveries", "", { status: "failed" }),
  events: href("events", "", { outcome: "failed" }),
  limits: href("runs", "", { status: "parked" }),
  "mcp-servers": href("system", "gateway"),
  model: href("system", "agents"),
  routes: href("deliveries", "", { status: "no_route" }),
  runs: href("runs", "", { status: "failed" }),
  services: href("system", "gateway"),
  signatures: href("system", "mappings"),
  "system-events": href("sessions"),
  "unsafe-content": href("mappings"),
  warnings: href("mappings"),
};

/** The address of the place where a finding of the doctor is dealt with. */
export const checkHref = (id: string): string =>
  id.startsWith("channel:") ? href("system", "channels") : (CHECKS[id] ?? href("system", "doctor"));

/** The address of the place where a finding about mappings is dealt with: the mapping in the workbench. */
export function findingHref({ from, mapping }: Finding): string {
  if (from === "config") return href("system", "config");
  return href("mappings", mapping ?? "");
}
