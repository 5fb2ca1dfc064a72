import { useEffect, useRef } from "preact/hooks";
import { signOut } from "./api.ts";
import { openApprovals, useOpenApprovals } from "./open-approvals.ts";
import type { GatewayStatus } from "./pages/overview/types.ts";
import { PAGES, type PageEntry } from "./pages.ts";
import { useResource } from "./resource.ts";
import { href, place } from "./router.ts";
import { number } from "./ui/format.ts";
import { Icon, Mark } from "./ui/icon.tsx";

const SECTIONS = ["Watch", "Build", "Operate"] as const;
const UNDER_WAY = ["queued", "collecting", "running", "waiting", "parked"];

interface Badge {
  count: number;
  /** The state of the counted records, in words. */
  of: string;
}

/** The counts beside the titles of pages: open approvals and failures, runs in progress, and deliveries that wait. */
function useBadges(): Record<NonNullable<PageEntry["badge"]>, Badge> {
  useOpenApprovals();
  const failures = useResource<{ counts: { open: number } }>("/failures?status=open&limit=1", {
    live: true,
  });
  const status = useResource<{ status: GatewayStatus }>("/status", { live: true });
  const { counts = {}, waiting } = status.data?.status ?? {};
  return {
    approvals: { count: openApprovals.value, of: "waiting for approval" },
    failures: { count: failures.data?.counts.open ?? 0, of: "open" },
    runs: {
      count: UNDER_WAY.reduce((sum, state) => sum + (counts[`runs.${state}`] ?? 0), 0),
      of: "under way",
    },
    deliveries: { count: waiting?.delivery.count ?? 0, of: "waiting to be sent" },
  };
}

/** The pages, with what is counted of them, and what belongs to none. */
export function Rail({ onHelp }: { onHelp(): void }) {
  const badges = useBadges();
  const current = place.value.page;
  const rail = useRef<HTMLElement>(null);
  // In a narrow window the rail is a line that moves sideways.
  useEffect(
    () =>
      rail.current
        ?.querySelector("[aria-current]")
        ?.scrollIntoView({ block: "nearest", inline: "center" }),
    [current],
  );
  return (
    <nav ref={rail} class="rail" aria-label="Pages">
      <a class="brand" href={href("overview")}>
        <Mark />
        Rouse
      </a>
      {SECTIONS.map((section) => (
        <div key={section} class="group">
          <h2>{section}</h2>
          {PAGES.filter((page) => page.section === section).map(({ name, title, badge }) => {
            const { count, of } = badge ? badges[badge] : { count: 0, of: "" };
            return (
              <a key={name} href={href(name)} aria-current={current === name ? "page" : undefined}>
                <Icon name={name} />
                {title}
                {count > 0 ? (
                  <span class="count" title={`${number(count)} ${of}`}>
                    {number(count)}
                  </span>
                ) : null}
              </a>
            );
          })}
        </div>
      ))}
      <div class="foot">
        <button type="button" class="button plain" onClick={onHelp}>
          Keys <kbd>?</kbd>
        </button>
        <button type="button" class="button plain" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </nav>
  );
}
