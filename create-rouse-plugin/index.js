#!/usr/bin/env node
import { createInterface } from "node:readline/promises";
import { main } from "./create.js";

/** Asks one question on the terminal. */
async function ask(question) {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
}

process.exitCode = await main(process.argv.slice(2), {
  cwd: process.cwd(),
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  ...(process.stdin.isTTY && process.stdout.isTTY && { ask }),
});
