const toPattern = (words: string, flags = "u"): RegExp =>
  new RegExp(`(?<![\\p{L}\\p{M}])(?:${words.split(" ").join("|")})(?![\\p{L}\\p{M}])`, flags);

/** Words with which a question begins that goes on with the one before. */
const BEGINS = toPattern(
  "and but so also or then what\\sabout how\\sabout und aber oder auch dann was\\sist\\smit wie\\sist\\ses\\smit et mais ou aussi alors qu'en\\sest-il y e o pero también entonces qué\\shay\\sde ma " +
    "anche allora mas também então en maar ook dan och men också og også ja mutta entä i a ale oraz też także také и а но или также тогда і й та або też και κι αλλά és de și si dar " +
    "ve ama peki ya و لكن ثم و(?:من|ما|ماذا|أين|اين|هل|كم|متى|كيف|لماذا) اما پس ו(?:מה|מי|איפה|איך|מתי|כמה) אבל אז और लेकिन तो फिर tapi lalu dan và còn thế 그리고 그럼 그러면 그런데 근데 그건 또",
  "uy",
);
/** Words that stand for what was named before. */
const REFERS = toPattern(
  "it its they them their he him his she her hers that those this these there ones " +
    "ihn ihm ihnen dessen deren dafür davon damit darüber dazu daran darin dort dies diese diesem diesen dieser dieses jene jener jenes " +
    "lui elle elles celui celle ceux celles cela ça là-bas ello ella ellas ellos él eso esa ese esto esta este estos estas allí ahí lo " +
    "lei loro esso essa questo questa quello quella ciò ele ela eles elas isso isto aquilo dele dela lhe lá hij hem haar hun hen dit deze daar ervan " +
    "han hon hun dess deras deres där der jego jej ich go tam ten tego ho jeho její jich toho tam " +
    "он она оно они его её ее ему ей им их него неё нее них этот эта это эти этого там він вона воно вони його її їх йому цей ця це ці " +
    "o onu onun onlar onları bunu bunun bunlar orada هو هي هم هذا هذه ذلك تلك هناك له لها لهم به بها عنه عنها منه منها فيه فيها آن این آنها آنجا הוא היא הם זה זאת אלה שם אותו אותה לו לה " +
    "αυτό αυτή αυτός αυτά αυτού αυτής εκεί यह वह इस उस इसे उसे इसका उसका वे वहाँ itu ini dia mereka tersebut nó họ đó này ấy 그것 그거 그걸 그게 이것 이거 그는 그녀 거기",
);
/** Words that ask for more of the same. */
const ADDS = toPattern(
  "else other others another more too noch sonst weitere weiteren andere anderen autre autres encore más otro otra otros altro altri ancora mais outro outra outros " +
    "ander andere nog mer annan annat fler flere andre jeszcze inny inni ještě jiný ещё еще тоже другие другой ще інші başka daha آخر أخرى أيضا ايضا دیگر עוד אחר άλλος άλλη άλλο άλλοι और lain lagi khác nữa 더 다른",
);
const UNSPACED_BEGINS =
  /^(?:那么|那麼|那|还有|還有|然后|然後|所以|では|じゃあ|それでは|それ|そして|また|ほかに|他に|แล้ว|และ|แต่)|呢[?？]?$/u;
const UNSPACED_REFERS =
  /[它他她]|这[个個些里裡]|[这這那][个個些里裡]|其(?!实|實)|还|還|另外|それ|これ|あれ|その|この|あの|そこ|彼|ほかに|他に|มัน|นั้น|นี้|อีก|ที่นั่น/u;
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u;
const WORD = /[\p{L}\p{N}\p{M}]+/gu;
/** A question of so few words, or characters in scripts without spaces, hardly says what it is about. */
const FEW_WORDS = 2;
const FEW_CHARACTERS = 4;
/** A longer question says itself what it is about. */
const MANY_WORDS = 12;
const SOME_WORDS = 7;
const MANY_CHARACTERS = 20;
/** So many questions that go on with each other are followed back. */
const MAX_CHAIN = 4;

/** True if a question needs the one before it to be understood. */
function isFollowUp(question: string): boolean {
  // A question in Spanish begins with its mark. "Sie" is the person who is asked.
  const text = question.replace(/^[\s\p{P}]+/u, "");
  if (UNSPACED.test(text)) {
    const length = text.replaceAll(/[\p{P}\s]/gu, "").length;
    return (
      length <= FEW_CHARACTERS ||
      UNSPACED_BEGINS.test(text) ||
      (length <= MANY_CHARACTERS && UNSPACED_REFERS.test(text))
    );
  }
  const count = text.match(WORD)?.length ?? 0;
  if (count <= FEW_WORDS) return true;
  const lower = text.toLowerCase();
  BEGINS.lastIndex = 0;
  return (
    (count <= MANY_WORDS &&
      (BEGINS.test(lower) || REFERS.test(lower) || / sie(?!\p{L})/u.test(text))) ||
    (count <= SOME_WORDS && ADDS.test(lower))
  );
}

/**
 * Returns the questions that a question goes on with, back to one that says itself what it is about; undefined if it does so.
 * `earlier` are the questions before it, newest first.
 */
export function findEarlierQuestions(
  question: string,
  earlier: Iterable<string>,
): string | undefined {
  if (question.trim() === "" || !isFollowUp(question)) return undefined;
  const found: string[] = [];
  for (const before of earlier) {
    const text = before.trim();
    if (text === "" || text === question.trim()) continue;
    found.push(text);
    if (!isFollowUp(text) || found.length === MAX_CHAIN) break;
  }
  return found.length === 0 ? undefined : found.join("\n");
}
