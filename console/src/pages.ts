import type { ComponentType } from "preact";

/** A page of the console: its name in the address, which is also its folder in `pages/`, and its title in the rail. */
export interface PageEntry {
  name: string;
  title: string;
  /** Pages for development are not in the rail. */
  section: "Watch" | "Build" | "Operate" | "Development";
  /** What is counted beside the title if it is not zero. */
  badge?: "approvals";
}

/** All pages, in the order of the rail. */
export const PAGES: readonly PageEntry[] = [
  { name: "overview", title: "Overview", section: "Watch" },
  { name: "live", title: "Live", section: "Watch" },
  { name: "events", title: "Events", section: "Watch" },
  { name: "failures", title: "Failures", section: "Watch" },
  { name: "runs", title: "Runs", section: "Watch" },
  { name: "approvals", title: "Approvals", section: "Watch", badge: "approvals" },
  { name: "mappings", title: "Mappings", section: "Build" },
  { name: "documents", title: "Documents", section: "Build" },
  { name: "chat", title: "Chat", section: "Build" },
  { name: "sessions", title: "Sessions", section: "Operate" },
  { name: "deliveries", title: "Deliveries", section: "Operate" },
  { name: "refusals", title: "Refused", section: "Operate" },
  { name: "system", title: "System", section: "Operate" },
  { name: "components", title: "Components", section: "Development" },
];

const modules = import.meta.glob<{ Page: ComponentType }>("./pages/*/index.tsx");

/** Loads a page. Each is a chunk of its own. */
export async function loadPage(name: string): Promise<ComponentType> {
  const load = modules[`./pages/${name}/index.tsx`];
  if (!load) throw new Error(`there is no folder pages/${name}`);
  return (await load()).Page;
}
