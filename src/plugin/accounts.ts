import type { Issue } from "../core/errors.ts";
import type { FoundSection, Section } from "./sections.ts";

/** One of several of a kind: what is set for it, and where. */
export interface Account {
  id: string;
  /** Another name of the channel. */
  alias?: string;
  section: Section;
  path: string;
}

const NAME = /^[a-z0-9][a-z0-9-]{0,39}$/;
const isSection = (value: unknown): value is Section =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The accounts of a channel, from `accounts: { <name>: { … } }` in its section: the section's other settings apply to all. The
 * first account is the channel that the plugin's id means, each further one is `<id>:<name>`. Without `accounts` the section is the account.
 */
export function parseAccounts(
  id: string,
  { kind, path }: FoundSection,
  section: Section,
): { accounts: Account[]; issues: Issue[] } {
  const { accounts, ...shared } = section;
  if (kind !== "channels" || accounts === undefined)
    return { accounts: [{ id, section, path }], issues: [] };
  if (!isSection(accounts) || Object.keys(accounts).length === 0)
    return {
      accounts: [],
      issues: [
        { path: `${path}.accounts`, message: "must be an object with a section for each account" },
      ],
    };
  const issues: Issue[] = [];
  const made = Object.entries(accounts).map(([name, own], index): Account => {
    const at = `${path}.accounts.${name}`;
    if (!NAME.test(name))
      issues.push({ path: at, message: "name it with lower-case letters, digits and `-`" });
    if (!isSection(own))
      issues.push({ path: at, message: "must be an object with the account's settings" });
    const account = { section: { ...shared, ...(isSection(own) ? own : {}) }, path: at };
    return index === 0
      ? { id, alias: `${id}:${name}`, ...account }
      : { id: `${id}:${name}`, ...account };
  });
  return { accounts: issues.length > 0 ? [] : made, issues };
}
