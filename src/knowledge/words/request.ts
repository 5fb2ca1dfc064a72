import { getLanguagesByWord } from "./languages.ts";
import { foldSpelling } from "./spelling.ts";
import PHRASES from "./phrases.json" with { type: "json" };
import { isUnspaced } from "./tokens.ts";

const toSet = (words: string): ReadonlySet<string> => new Set(words.split(" ").map(foldSpelling));

/** Words with which people greet, thank and answer, in the languages that most people write to agents in. */
const SMALL_TALK = toSet(Object.values(PHRASES.smallTalk).join(" "));

/** Greetings by the time of the day, whose words alone say something. */
const GREETINGS =
  /(?<!\p{L})(?:good (?:morning|afternoon|evening|night|day)|gute[nr]? (?:morgen|tag|abend|nacht)|bonne (?:nuit|soirée|journée)|buen[oa]s (?:días|tardes|noches)|bo[am] (?:dia|tarde|noite)|добр\p{L}+ (?:утро|день|вечер|ранку|дня|вечора)|спокойной ночи|dzień dobry|dobr[ýé] (?:den|ráno|večer)|go[de] (?:morgon|kväll|morgen|aften|kveld|natt)|iyi (?:akşamlar|geceler|günler)|(?:صباح|مساء) الخير|selamat (?:pagi|siang|sore|malam))(?!\p{L})/gu;

/** Words with which people ask for something, and speak about the conversation: what they ask for comes behind. */
const ASKING = toSet(PHRASES.asking.join(" "));

/** Kinds of texts that people want written, and places for the answer: only before a subject do these say nothing. */
const MEDIA = toSet(PHRASES.media);

/** Matches the end of a request for a translation. */
const LANGUAGE =
  /(?:(?:^|\s)(?:in|into|to|ins|auf|en|au|al|para|para o|na|po|на|إلى|الى|naar|till|til|ke|sang)\s+)\p{L}+\s*[.!?]*\s*$/u;
const TRANSLATES =
  /(?:^|[^\p{L}])(?:translate|ubersetz\w*|übersetz\w*|tradui\w*|traduc\w*|traduz\w*|traduci|vertaal|översätt|oversæt|oversett|przetłumacz|przelož|přelož|переведи\w*|переклади|ترجم|çevir|terjemahkan|dịch)(?![\p{L}])/u;

/** The same of scripts without spaces: at the begin and at the end of a message. */
const UNSPACED_BEGIN =
  /^(?:请问|请|麻烦|拜托|谢谢|多谢|感谢|你好|您好|大家好|早上好|下午好|晚上好|晚安|再见|好的|好|嗯|是的|不是|你|您|能不能|能|可以|可否|帮我|帮忙|给我|告诉我|告诉|说说|说明(?!书)|说(?!明)|解释一下|解释|介绍一下|介绍|描述|总结一下|总结|概括|翻译一下|翻译(?=这|那|成|$)|把这个|把它|把|将|这个|这句话|这段话|写一封|写一个|写一份|写|邮件|重复|继续|再说一遍|短一点|谢|怎么样|吗|的|啊|呢|ありがとうございます|ありがとう|どうも|すみません|こんにちは|こんばんは|おはようございます|おはよう|おやすみ|はい|いいえ|お元气ですか|元气ですか|これを|それを|教えてください|教えて|说明して|してください|ください|สวัสดี|ขอบคุณ|กรุณา|ช่วย|[\s\p{P}])+/u;
const UNSPACED_END =
  /(?:谢谢|多谢|好吗|可以吗|是什么意思|怎么样|(?:翻译)?成\p{sc=Han}{1,3}[文语]|吗|呢|啊|吧|を?教えてください|を?教えて|を?说明してください|に翻译してください|に翻译して|に译して|\p{sc=Han}+语|お愿いします|你的帮助|帮助|ですか|ください|ขอบคุณ|ครับ|ค่ะ|[\s\p{P}])+$/u;

/** Works that are made up: documents have no passages for them, unless the documents are such works. */
const MADE_UP = [
  /^(?:an?\s)?(?:[\p{L}-]+\s){0,2}(?:poem|haiku|limerick|sonnet|joke|song|riddle|fairytale)s?\s(?:about|on|for)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:write|compose|create|make up|invent|tell|give|sing|recite|generate)\s(?:[\p{L}']+\s){0,2}?(?:a|an|another|some)\s(?:[\p{L}-]+\s){0,3}(?:poems?|poetry|haiku|limericks?|sonnets?|songs?|lyrics|rap|story|stories|tales?|fairytales?|jokes?|riddles?|puns?|ballads?|rhymes?|odes?)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:schreib|dicht|verfass|erfind|erzahl|erzähl|mach|sing)(?:e|en|st)?\s(?:[\p{L}]+\s){0,3}?(?:ein|eine|einen|noch einen)\s(?:[\p{L}]+\s){0,2}(?:gedicht|haiku|limerick|sonett|lied|song|rap|geschichte|märchen|witz|rätsel|ballade|reim)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:ecri|écri|compos|invent|racont|chant)\p{L}*(?:-moi|-nous)?\s(?:moi\s)?(?:un|une)\s(?:\p{L}+\s){0,2}(?:poème|haïku|sonnet|chanson|histoire|conte|blague|devinette|ballade)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:escrib|escrev|compon|invent|cuent|cuént|cont|cant|scriv|raccont)\p{L}*\s(?:me\s)?(?:un|una|um|uma|uno)\s(?:\p{L}+\s){0,2}(?:poema|haiku|soneto|canción|canção|cuento|historia|história|chiste|piada|adivinanza|poesia|poesía|canzone|storia|barzelletta|favola|conto)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:schrijf|verzin|vertel|skriv|berätta|fortæl|fortell|dikta)\s(?:\p{L}+\s){0,2}?(?:een|en|ett|et|ei)\s(?:\p{L}+\s){0,2}(?:gedicht|lied|verhaal|mop|raadsel|sprookje|dikt|digt|sång|sang|saga|historia|historie|vits|skämt|gåta)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:napisz|opowiedz|ułóż|napiš|řekni|vyprávěj|напиши|сочини|придумай|расскажи|розкажи|склади|вигадай)\p{L}*\s(?:\p{L}+\s){0,3}?(?:wiersz|piosenkę|bajkę|opowiadanie|dowcip|kawał|zagadkę|báseň|píseň|pohádku|vtip|hádanku|стих|стихи|стихотворение|поэму|песню|сказку|рассказ|историю|анекдот|шутку|загадку|вірш|пісню|казку|оповідання|жарт)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:اكتب|أكتب|ألف|احك|احكي|قل|غن)\s(?:\p{L}+\s){0,2}?(?:قصيدة|شعرا|اغنية|أغنية|قصة|حكاية|نكتة|لغزا)(?!\p{L})/u,
  /(?:^|[^\p{L}])(?:\p{L}+\s){0,4}(?:şiir|şarkı|hikaye|masal|fıkra|şaka|bilmece)\s(?:yaz|anlat|söyle|uydur)/u,
  /(?:कविता|कहानी|गीत|चुटकुला|शायरी)\s(?:\p{L}+\s){0,2}(?:लिख|सुना)/u,
  /(?:^|[^\p{L}])(?:tulis|buat|ceritakan|karang)\p{L}*\s(?:\p{L}+\s){0,2}?(?:puisi|pantun|lagu|cerita|dongeng|lelucon)(?!\p{L})|(?:viết|kể|sáng tác)\s(?:\p{L}+\s){0,3}?(?:thơ|bài hát|chuyện cười|câu chuyện|truyện)/u,
  /(?:시|노래|이야기|동화|농담|수수께끼)\s?(?:를|을|하나|한 편)?\s?(?:\S+\s)?(?:써|지어|만들어|해\s?줘|들려)/u,
  /(?:写|作|创作|编|讲|说|来|唱)(?:一|个|几|首|段|篇|则)+(?:\p{sc=Han}{0,16}?)(?:诗|歌|故事|童话|笑话|谜语|俳句|小说)/u,
  /(?:詩|诗|歌|俳句|物語|物语|話|话|冗談|冗谈|なぞなぞ|童話|童话|小説|小说)を(?:書|书|作|言|话|話|教え|聞かせ|闻かせ|歌)/u,
];

/** A word that questions keep, since it tells what is English. */
const NO_SUBJECT = /(?<!\p{L})about(?!\p{L})/gu;
const WORD = /[\p{L}\p{N}\p{M}]+/gu;

/** Leaves out the words that ask, at the begin and at the end, with frequent words between them. */
function trimSpaced(text: string): string {
  const words = [...text.matchAll(WORD)];
  const isFrequent = (word: string): boolean => getLanguagesByWord(word) !== undefined;
  let from = 0;
  let hasMedia = false;
  for (const [at, { 0: word }] of words.entries()) {
    const isMedia = MEDIA.has(word);
    hasMedia ||= isMedia;
    if (isMedia || SMALL_TALK.has(word) || ASKING.has(word)) from = at + 1;
    else if (!isFrequent(word)) break;
  }
  let to = words.length;
  for (let at = words.length - 1; at >= from; at--) {
    const word = words[at]?.[0] ?? "";
    if (SMALL_TALK.has(word)) to = at;
    else if (!isFrequent(word)) break;
  }
  const first = words[from];
  const last = words[to - 1];
  if (from < to && first && last) return text.slice(first.index, last.index + last[0].length);
  // "What is in the handbook?"
  return hasMedia ? text : "";
}

/** Returns the text to translate, without the language; empty if the request only points at it. */
function withoutLanguage(text: string): string {
  const rest = text.replace(LANGUAGE, "");
  return (rest.match(WORD) ?? []).some((word) => getLanguagesByWord(word) === undefined)
    ? rest
    : "";
}

const MORE =
  /(?<![\p{L}])(?:more|details?|mehr|weiter|plus|davantage|más|mais|di più|altro|meer|mer|mere|więcej|více|ещё|еще|подробнее|більше|daha|المزيد|أكثر|بیشتر|और|lebih|thêm|더)(?![\p{L}])|更多|多点|多一点|详细|もっと|もう少し|くわしく|详しく/u;

/** Returns whether a message without a subject asks for more about the one before. */
export const asksForMore = (message: string): boolean => MORE.test(foldSpelling(message));

/**
 * Returns what a message asks documents about, without the words that ask for it; undefined if it asks them about nothing: a
 * greeting, thanks, a word about the conversation itself, or a wish for something made up.
 */
export function getSubject(message: string): string | undefined {
  const subjects = message.split("\n").flatMap((line) => {
    const text = foldSpelling(line).trim();
    if (MADE_UP.some((pattern) => pattern.test(text))) return [];
    const told = text.replaceAll(GREETINGS, " ").replaceAll(NO_SUBJECT, " ");
    const bare = isUnspaced(told)
      ? told.replace(UNSPACED_BEGIN, "").replace(UNSPACED_END, "")
      : told;
    const trimmed = trimSpaced(bare);
    const subject = TRANSLATES.test(text) ? withoutLanguage(trimmed) : trimmed;
    return subject === "" ? [] : [subject];
  });
  return subjects.length === 0 ? undefined : subjects.join("\n");
}
