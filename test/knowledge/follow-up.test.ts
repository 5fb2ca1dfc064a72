import { expect, it } from "vitest";
import { findEarlierQuestions } from "../../src/turns/follow-up.ts";

const FIRST = "Where is the spare key of the boathouse kept at the harbour?";
const find = (question: string, ...before: string[]): string | undefined =>
  findEarlierQuestions(question, before.toReversed());

it.each([
  "and who else has it?",
  "Who else has it?",
  "Who has the other one?",
  "What is her phone number?",
  "When is he there?",
  "Why?",
  "Und wer hat ihn noch?",
  "Wer hat noch einen?",
  "Wann ist sie im Büro?",
  "Et qui d'autre l'a ?",
  "À qui est celle de Bo ?",
  "¿Y quién más la tiene?",
  "¿Quién más lo tiene?",
  "E chi altro ce l'ha?",
  "E quem mais tem?",
  "En wie heeft hem nog meer?",
  "Och vem mer har den?",
  "A kto jeszcze go ma?",
  "А у кого ещё он есть?",
  "У кого он сейчас лежит?",
  "Хто ще його має?",
  "Başka kimde var?",
  "ومن لديه أيضا؟",
  "أين هو الآن يا ترى؟",
  "और किसके पास है?",
  "Και ποιος άλλος το έχει;",
  "מי עוד יש לו מפתח?",
  "那还有谁有？",
  "谁还有它的钥匙？",
  "誰還有它的鑰匙？",
  "他に誰が持っていますか",
  "それは誰が持っていますか",
  "그건 누가 또 가지고 있어요?",
  "แล้วใครมีอีกบ้าง",
  "Còn ai có nữa?",
  "Siapa lagi yang punya?",
])("follow-up questions: %s continues the question before", (question) => {
  expect(find(question, FIRST)).toBe(FIRST);
});

it.each([
  "When does the harbour office open on Sundays?",
  "Wann öffnet das Hafenbüro am Sonntag?",
  "Können Sie mir sagen, wann das Büro geöffnet ist?",
  "¿Cuándo abre la oficina del puerto?",
  "À quelle heure ouvre le bureau du port ?",
  "Когда открыта контора порта в воскресенье?",
  "港口办公室星期天几点开门？",
  "港の事務所は日曜日に何時に開きますか",
])("follow-up questions: %s is understood alone", (question) => {
  expect(find(question, FIRST)).toBeUndefined();
});

it("follow-up questions: a chain of them leads back to the one that names its subject", () => {
  expect(find("And at night?", FIRST, "And who else has it?", "thanks", "Since when?")).toBe(
    ["Since when?", "thanks", "And who else has it?", FIRST].join("\n"),
  );
  expect(find("And at night?", "Older one about the fuel at the pier", FIRST)).toBe(FIRST);
  expect(find("And at night?")).toBeUndefined();
});
