import type { ComponentChildren } from "preact";

/** A figure that leads where the name of its row leads: Tab stops at the name only. */
export const Figure = ({ to, children }: { to: string; children: ComponentChildren }) => (
  <a href={to} tabIndex={-1}>
    {children}
  </a>
);
