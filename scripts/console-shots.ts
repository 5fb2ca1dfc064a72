/**
 * Takes pictures of every page of the console: with a history of nine days, empty, failed, gone, signed out, and while the
 * gateway is away; in both themes, 1280 and 390 pixels wide. `--serve` keeps the gateway with the history and takes none.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openBrowser } from "../test/console/browser.ts";
import { openCamera, type Scene } from "./gallery/camera.ts";
import { play } from "./gallery/history.ts";
import { toPalette } from "./gallery/palette.ts";
import { CHAT, findDetails, toStates } from "./gallery/scenes.ts";
import { openGallery, type Gallery } from "./gallery/world.ts";

const HELP = `Usage: npm run console:shots -- [options]

  --out <folder>   where the pictures go (default: rouse-console in the folder for temporary files)
  --only <text>    only scenes with this text in their name, such as "events" or "-empty"
  --docs           takes the pictures of the documentation only, into docs/images
  --serve          starts the gateway with its history, prints its address and token, and waits for Ctrl C`;

const { values } = parseArgs({
  options: {
    out: { type: "string" },
    only: { type: "string", default: "" },
    serve: { type: "boolean" },
    docs: { type: "boolean" },
    help: { type: "boolean" },
  },
});
const DAYS = 9;
/** Each page is a folder. The page of the components is for development: it needs no other state. */
const pages = readdirSync(new URL("../console/src/pages", import.meta.url)).filter(
  (name) => name !== "components",
);
const folder = resolve(values.out ?? join(tmpdir(), "rouse-console"));

async function openFilled(): Promise<Gallery> {
  const gallery = await openGallery(DAYS);
  const began = Date.now();
  await play(gallery);
  console.log(
    `${gallery.url}/console has a history of ${DAYS} days, made in ${Math.round((Date.now() - began) / 1000)} s`,
  );
  return gallery;
}

/** The pictures that pages of the documentation show: the scene, its look, and the name of the picture. */
const DOCS_IMAGES = [
  ["overview", "1280-light", "overview"],
  ["events-unmatched", "1280-light", "event"],
  ["events", "390-light", "phone"],
  ["failures-detail", "1280-light", "failures"],
  ["runs-waiting", "1280-light", "run"],
  ["approvals-detail", "1280-light", "approvals"],
  ["mappings-detail", "1280-light", "workbench"],
] as const;

/** Keeps the pictures of the documentation, with few colours. */
async function keepForDocs(gallery: Gallery): Promise<void> {
  const details = await findDetails(gallery);
  await shoot(
    gallery,
    [
      { name: "overview", hash: "#/overview" },
      { name: "events", hash: "#/events" },
      ...details,
    ].filter(({ name }) => DOCS_IMAGES.some(([scene]) => scene === name)),
  );
  const images = fileURLToPath(new URL("../docs/images", import.meta.url));
  mkdirSync(images, { recursive: true });
  for (const [scene, look, image] of DOCS_IMAGES)
    writeFileSync(
      join(images, `${image}.png`),
      toPalette(readFileSync(join(folder, `${scene}-${look}.png`))),
    );
  console.log(`The pictures of the documentation are in ${images}`);
}

/** Takes the wanted scenes of one gateway. One that fails is reported, and the others are taken. */
async function shoot(gallery: Gallery, scenes: readonly Scene[]): Promise<void> {
  const browser = await openBrowser();
  const camera = await openCamera(browser.context, gallery.url, gallery.operatorToken, folder);
  for (const scene of scenes.filter(({ name }) => name.includes(values.only)))
    try {
      await camera(scene);
      console.log(scene.name);
    } catch (error) {
      console.error(`${scene.name}: ${String(error)}`);
      process.exitCode = 1;
    }
  await browser.close();
}

async function main(): Promise<void> {
  if (values.help) return console.log(HELP);
  const filled = await openFilled();
  if (values.serve) {
    console.log(`Token: ${filled.operatorToken}`);
    await new Promise((ended) => process.once("SIGINT", ended).once("SIGTERM", ended));
    return filled.stop();
  }
  mkdirSync(folder, { recursive: true });
  if (values.docs) {
    await keepForDocs(filled);
    return filled.stop();
  }
  const plain = [...pages, "components"].map((name) => ({ name, hash: `#/${name}` }));
  await shoot(filled, [...plain, ...(await findDetails(filled)), CHAT, ...toStates(pages)]);
  await filled.stop();
  const empty = await openGallery(0);
  await shoot(
    empty,
    pages.map((name) => ({ name: `${name}-empty`, hash: `#/${name}` })),
  );
  await empty.stop();
  console.log(`The pictures are in ${folder}`);
}

await main();
// The browser stays open for the whole process.
process.exit();
