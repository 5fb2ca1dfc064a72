/** Paths of 16 × 16 line drawings, one for each page of the rail. */
const PATHS: Readonly<Record<string, string>> = {
  overview: "M2.5 13.5v-5M6.2 13.5v-11M9.8 13.5V7M13.5 13.5v-9",
  live: "M1.5 8h3l2-5 3 10 2-5h3",
  events: "M8 1.5v8m0 0L5 6.7m3 2.8 3-2.8M2 9.5v3a1.5 1.5 0 0 0 1.5 1.5h9a1.5 1.5 0 0 0 1.5-1.5v-3",
  failures: "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.6v.1",
  runs: "M4 2.5 12.5 8 4 13.5z",
  approvals: "M14 8A6 6 0 1 1 8 2m-2.2 5.6 2 2L14 3.4",
  mappings: "M2 4h3.5L10 12h4m0 0-2-2m2 2-2 2M2 12h3.5l1-1.8M9 5.8 10 4h4m0 0-2-2m2 2-2 2",
  documents:
    "M9 1.5H4.5A1.5 1.5 0 0 0 3 3v10a1.5 1.5 0 0 0 1.5 1.5h7A1.5 1.5 0 0 0 13 13V5.5zm0 0v4h4M5.5 8.5h5M5.5 11.5h5",
  chat: "M2 3.5h12v8H7.5L4.5 14v-2.5H2z",
  sessions:
    "M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M10.5 2.700a2.5 2.5 0 0 1 0 4.600M12 9.800c1.6.5 2.5 1.9 2.5 3.7",
  deliveries: "m14.5 1.5-13 5 5 2.5m8-7.5-5 13-3-5.5m8-7.5-8 7.5",
  refusals: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M3.8 3.800l8.4 8.4",
  system: "M2.5 2.5h11v4.5h-11zM2.5 9h11v4.5h-11zM5 4.700v.1M5 11.200v.1",
};

const LINES = {
  fill: "none",
  stroke: "currentColor",
  "stroke-width": "1.4",
  "stroke-linecap": "round",
  "stroke-linejoin": "round",
} as const;

/** The drawing of a page. The title beside it says the same. */
export function Icon({ name }: { name: string }) {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true" {...LINES}>
      <path d={PATHS[name]} />
    </svg>
  );
}

/** Two sheets, one over the other: copies what stands beside it. */
export const CopyIcon = () => (
  <svg width="12" height="12" viewBox="0 0 16 16" aria-hidden="true" {...LINES}>
    <path d="M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3" />
  </svg>
);

/** The mark of the product: a hook that wakes something. */
export const Mark = () => (
  <svg viewBox="0 0 20 20" aria-hidden="true" {...LINES} stroke-width="2">
    <path d="M6 2.5v9a4.5 4.5 0 0 0 9 0V10M12.5 12 15 9.5l2.5 2.5" />
    <circle cx="6" cy="2.8" r="0.6" fill="currentColor" />
  </svg>
);
