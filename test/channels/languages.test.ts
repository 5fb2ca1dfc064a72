import { rmSync } from "node:fs";
import { afterEach, expect, it } from "vitest";
import { approvalWorld, type ApprovalWorld } from "../approvals/world.ts";
import { message, sayOn, sentOn } from "./pipe.ts";
import { startTelegram, type TelegramServer } from "./telegram-server.ts";

let world: ApprovalWorld;
let ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  await world.close();
  rmSync(world.dir, { recursive: true, force: true });
  for (const end of ends.splice(0)) await end();
  ends = [];
});

/** Says something, and returns what the gateway answers there. */
async function answer(text: string, more: object): Promise<string> {
  const before = sentOn(world).length;
  const said = message(text, more);
  await sayOn(world, said);
  const answered = await world.until(async () =>
    sentOn(world)
      .slice(before)
      .find(({ to }) => to === said.to),
  );
  return String(answered["text"]);
}

it("a turn that fails says so in the language of the sender, with the error as it is", async () => {
  world = await approvalWorld();
  world.model.handler = (_request, response) => void response.writeHead(400).end("{}");
  expect(await answer("hello", { language: "es" })).toMatch(
    /^No he podido responder: .*\w.* \(run_\w+\)$/,
  );
});

it("language: a person who waits for a decision and one who decides get answers in their own language", async () => {
  world = await approvalWorld({
    agent: { approve: ["*"] },
    config: { tools: { approvers: ["pipe:zoe"] } },
  });
  await sayOn(world, message("Pay.", { from: "bob", to: "dm-bob", language: "de" }));
  const [asked] = await world.open();
  const code = asked?.code ?? "";
  await world.until(async () => sentOn(world).length === 1);
  const zoe = { from: "zoe", to: "dm-zoe", language: "fr" };
  expect(await answer("Hello?", { from: "bob", to: "dm-bob", language: "pt-BR" })).toContain(
    `chamada de bank.transfer (aprovação ${code})`,
  );
  expect(await answer(`approve ${code}`, { from: "bob", to: "dm-bob", language: "de" })).toBe(
    "Du darfst für diesen Agenten nichts freigeben, deshalb wurde nichts entschieden.",
  );
  expect(await answer(`repeat ${code}`, zoe)).toBe(
    `Cela ne convient pas à l'approbation ${code}. Écrivez \`approve ${code}\`, \`deny ${code}\`.`,
  );
  expect(await answer("approve abcdef", zoe)).toBe("Il n'y a pas d'approbation avec ce code.");
  expect(await answer("approve HK7X3PTW", zoe)).toMatch(/^Personne n'attend avec ce code/);
  await sayOn(world, message(`deny ${code}`, { ...zoe, to: "other-zoe" }));
  const denied = await world.until(async () => sentOn(world).find(({ to }) => to === "other-zoe"));
  expect(denied["text"]).toBe(`Refusé : \`bank.transfer\` n'est pas appelé. (${code})`);
  expect(await answer(`/approve ${code}`, { ...zoe, language: "ru" })).toMatch(
    new RegExp(`^По запросу ${code} решение уже принято \\(отклонено, pipe:zoe, `),
  );
});

it("a decision about a person is confirmed in the language of the approver", async () => {
  world = await approvalWorld({
    config: {
      tools: { approvers: ["pipe:ann"] },
      channels: { pipe: { allowFrom: ["ann"], dmPolicy: "pairing" } },
    },
  });
  const codes = [];
  for (const from of ["eve", "kim"]) {
    const text = await answer("hello", { from, to: `dm-${from}`, language: "de" });
    codes.push(/[A-Z\d]{8}/.exec(text)?.[0]);
  }
  expect(await answer(`deny ${codes[1]}`, { language: "ar" })).toBe(
    "تم الرفض: لن يتلقى «kim» ردودًا على pipe.",
  );
  expect(await answer(`approve ${codes[0]}`, { language: "es" })).toBe(
    "Aprobado: «eve» puede escribir en pipe.",
  );
});

/** Somebody whose app has this language writes to the bot. */
function orderOn(telegram: TelegramServer, language_code: string): void {
  const from = { id: 42, first_name: "A", is_bot: false, language_code };
  telegram.write("Pay.", { from });
}

it("an approver whose message it is about is asked in the language of the app, with buttons, and so is the outcome", async () => {
  const telegram = await startTelegram();
  ends.push(() => telegram.close());
  const channels = { telegram: { token: telegram.token, apiUrl: telegram.url, allowFrom: ["42"] } };
  world = await approvalWorld({
    agent: { approve: ["*"] },
    config: {
      owner: {},
      channels,
      language: "de",
      tools: { approvers: ["operator", "telegram:42"] },
    },
  });
  orderOn(telegram, "ja");
  const [asked] = await world.open();
  const code = asked?.code ?? "";
  await world.until(async () => telegram.messages.length === 1);
  const question = telegram.messages[0];
  expect(question?.text).toContain(
    `承認 ${code}: エージェント main が bank.transfer の呼び出しを求めています。`,
  );
  expect(question?.text).toContain("確認の理由: ");
  expect(question?.text).toMatch(/期限は \d{4}-\d\d-\d\d \d\d:\d\d UTC です。/);
  expect(question?.text).not.toMatch(/wants to call|Why it asks|It waits until|möchte/);
  expect(question?.buttons.map(({ text }) => text)).toEqual(["承認", "拒否"]);
  telegram.press("拒否", 42, undefined, "ja");
  await world.until(async () => question?.buttons.length === 0);
  await world.until(async () => telegram.notices.length === 1);
  expect(telegram.notices[0]).toBe(
    `拒否しました：\`bank.transfer\` は呼び出されません。 (${code})`,
  );
  // The event of the press has it in English.
  const { events } = (await world.admin("/admin/v1/events")).body;
  expect(JSON.stringify(events)).toContain("Denied: `bank.transfer` is not called.");
  expect(question?.text).toMatch(/拒否: telegram:42、\d{4}-\d\d-\d\d \d\d:\d\d UTC。$/);
  expect(world.bank.calls).toEqual([]);
  await world.runEnded(asked?.runId ?? "");
});

it("the next approver is asked in the words of the first; whoever's channel tells no language is answered in `language` of the config", async () => {
  const telegram = await startTelegram();
  ends.push(() => telegram.close());
  const channels = {
    pipe: { allowFrom: ["ann"] },
    telegram: { token: telegram.token, apiUrl: telegram.url, allowFrom: ["42"] },
  };
  world = await approvalWorld({
    agent: { approve: ["*"] },
    config: {
      owner: {},
      channels,
      language: "de",
      tools: { approvers: ["telegram:42", "pipe:zoe"] },
    },
  });
  // The bot was blocked in the meantime.
  telegram.fail("blocked", { method: "sendMessage" });
  orderOn(telegram, "ar");
  const [asked] = await world.open();
  const code = asked?.code ?? "";
  const { text } = await world.until(
    async () => sentOn(world).find(({ to }) => to === "zoe") as { text: string } | undefined,
  );
  expect(text).toContain(`**الموافقة ${code}**: يريد الوكيل \`main\` استدعاء \`bank.transfer\`.`);
  expect(text).toContain(`أجب "approve ${code}" أو "deny ${code}".`);
  expect(await answer(`approve ${code}`, { from: "zoe", to: "dm-zoe" })).toBe(
    `Freigegeben: \`bank.transfer\` wird aufgerufen. (${code})`,
  );
  // With a language of the app that one counts.
  expect(await answer("/agent", { to: "dm-ann", language: "fr" })).toBe(
    "L'agent de cette conversation est main.",
  );
  expect(await answer("/agent", { to: "dm-ann" })).toBe("Der Agent dieser Unterhaltung ist main.");
});
