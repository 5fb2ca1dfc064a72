/** Posts badly signed bodies over and over, on sixteen connections, until its parent ends it; says when the flood is under way. */
import { Agent, request } from "node:http";
import { setPriority } from "node:os";

// A flood comes from other machines: it must not take the processor from the gateway that is measured.
setPriority(15);

const url = process.argv[2] as string;
const agent = new Agent({ keepAlive: true });
const body = JSON.stringify({ n: 0, text: "x".repeat(20_000) });
const headers = {
  "content-type": "application/json",
  "x-hub-signature-256": `sha256=${"0".repeat(64)}`,
};
/** So many have been answered. */
const UNDER_WAY = 50;
let answered = 0;

const again = (): void => {
  const outgoing = request(url, { method: "POST", agent, headers }, (incoming) => {
    incoming.resume();
    incoming.on("end", () => {
      if (++answered === UNDER_WAY) process.send?.("flooding");
      again();
    });
  });
  outgoing.on("error", again);
  outgoing.end(body);
};
for (let connection = 0; connection < 16; connection++) again();
process.on("message", () => process.send?.(answered, () => process.exit(0)));
process.on("disconnect", () => process.exit(0));
