/** A text as a shell takes it whole. */
export const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** The gateway's settings of hooks, from the admin API. */
export interface HooksAnswer {
  base: string;
  enabled: boolean;
  publicUrl: string | null;
  tokenInShell: string | null;
}

/** The URL for senders, and the hook token as a shell reads it. If the config has the token as plain text, the shell reads `ROUSE_HOOK_TOKEN`. */
export const toHookTarget = (
  { base, publicUrl, tokenInShell }: HooksAnswer,
  url: string | undefined,
): { url: string; token: string } => ({
  url: `${publicUrl ?? url ?? location.origin}${base}`,
  token: tokenInShell ?? "${ROUSE_HOOK_TOKEN:?set it to the token of hooks.token}",
});
