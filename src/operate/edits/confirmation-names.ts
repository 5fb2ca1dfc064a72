/** Changes that need a confirmation by name, with the question to confirm: they set who may call, which code runs, and so on. */
export const CONFIRMATIONS = {
  auth: "how callers of a path authenticate",
  allowUnsafeExternalContent: "that text from outside stands without the boundary",
  "transform.module": "which code runs",
  recipient: "a `channel` or `to` with an expression, so out of the event",
  "failing-tests": "nothing, but tests of `hooks.testsDir` fail with it, or cannot be read",
} as const;
export type Confirmation = keyof typeof CONFIRMATIONS;
export const CONFIRMATION_NAMES = Object.keys(CONFIRMATIONS) as Confirmation[];

/** Says what of a change is not confirmed, and how to do so. */
export function renderOpenConfirmations(
  open: readonly Confirmation[],
  given: readonly string[],
): string {
  const sets = open.filter((name) => name !== "failing-tests");
  const reasons = [
    ...(sets.length === 0 ? [] : [`the change sets ${sets.join(", ")}`]),
    ...(open.length === sets.length ? [] : ["tests fail with the change"]),
  ];
  return `${reasons.join(", and ")}: nothing was written; to go on, confirm by name with --confirm ${[...given, ...open].join(",")}`;
}
