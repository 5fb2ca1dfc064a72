/** A page of the console: its name in the address, which is also its folder in `pages/`, and its title in the rail. */
export interface PageEntry {
  name: string;
  title: string;
  /** Pages for development are not in the rail. */
  section: "Watch" | "Build" | "Operate" | "Development";
  /** `g` and then this letter goes there. */
  key?: string;
  /** The number beside the title, shown if it is not zero. */
  badge?: "approvals" | "failures" | "runs" | "deliveries";
}

/** All pages, in the order of the rail. */
export const PAGES: readonly PageEntry[] = [
  { name: "overview", title: "Overview", section: "Watch", key: "o" },
  { name: "live", title: "Live", section: "Watch", key: "l" },
  { name: "events", title: "Events", section: "Watch", key: "e" },
  { name: "failures", title: "Failures", section: "Watch", key: "f", badge: "failures" },
  { name: "runs", title: "Runs", section: "Watch", key: "r", badge: "runs" },
  { name: "approvals", title: "Approvals", section: "Watch", key: "a", badge: "approvals" },
  { name: "mappings", title: "Mappings", section: "Build", key: "m" },
  { name: "documents", title: "Documents", section: "Build", key: "d" },
  { name: "chat", title: "Chat", section: "Build", key: "c" },
  { name: "sessions", title: "Sessions", section: "Operate", key: "s" },
  { name: "deliveries", title: "Deliveries", section: "Operate", key: "v", badge: "deliveries" },
  { name: "refusals", title: "Refused", section: "Operate", key: "x" },
  { name: "system", title: "System", section: "Operate", key: "y" },
  { name: "components", title: "Components", section: "Development" },
];
