import { text } from "node:stream/consumers";
import { replaceFile } from "../../src/core/replace-file.ts";

/** Saves the texts of standard input in turn, until it is killed. */
const [, , file = ""] = process.argv;
const texts = JSON.parse(await text(process.stdin)) as string[];
process.stdout.write("ready\n");
for (let turn = 0; ; turn++) await replaceFile(file, texts[turn % texts.length] as string);
