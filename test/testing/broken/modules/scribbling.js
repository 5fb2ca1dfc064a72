export default async ({ bytes }) => {
  bytes.fill(0);
  return { blocks: [{ text: "one" }, { text: "two" }] };
};
