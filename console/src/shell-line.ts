/** A text as a shell takes it whole. */
export const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** What the gateway says of its hooks. */
export interface HooksAnswer {
  base: string;
  enabled: boolean;
  publicUrl: string | null;
  tokenInShell: string | null;
}

/** Where senders post, and how a shell reads the hook token. One that the config has as plain text is asked for. */
export const toHookTarget = (
  { base, publicUrl, tokenInShell }: HooksAnswer,
  url: string | undefined,
): { url: string; token: string } => ({
  url: `${publicUrl ?? url ?? location.origin}${base}`,
  token: tokenInShell ?? "${ROUSE_HOOK_TOKEN:?set it to the token of hooks.token}",
});
