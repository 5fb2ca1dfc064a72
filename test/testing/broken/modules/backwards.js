export default async ({ bytes }) => ({
  blocks: new TextDecoder()
    .decode(bytes)
    .split("\n")
    .filter(Boolean)
    .toReversed()
    .map((text) => ({ text })),
});
