export default async ({ bytes }) => {
  if (bytes.length !== 8) await new Promise(() => {});
  return { blocks: [{ text: "one" }, { text: "two" }] };
};
