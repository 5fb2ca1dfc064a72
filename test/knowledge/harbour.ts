/** A harbour's handbook in several languages, with questions that it answers and questions that it does not. */
export interface Handbook {
  passages: readonly string[];
  /** Questions, each with the place of the passage that answers it. */
  answered: readonly (readonly [question: string, passage: number])[];
  /** By kind: creative work, small talk, about the conversation itself, and questions about something else. */
  unanswered: readonly string[];
}

export const HANDBOOKS: Record<string, Handbook> = {
  English: {
    passages: [
      "The harbour office is open from seven in the morning to six in the evening. On Sundays it is closed; write to the office or call the harbourmaster.",
      "Boats longer than twelve metres pay thirty euros a night. Fees are due on arrival and include water, electricity and the showers.",
      "Lost property is kept in the blue cabinet beside the cellar door for ninety days. After that it goes to the sea rescue.",
      "In a storm all boats double their lines. The siren sounds three times when the sea gets too rough to leave.",
      "Fuel is sold at the east pier. Smoking is forbidden there, and engines have to be switched off while you fill the tank.",
      "Dogs are kept on a leash on all piers. Children under ten wear a life jacket near the water.",
    ],
    answered: [
      ["When does the harbour office open?", 0],
      ["how much does a night cost for a big boat", 1],
      ["Tell me please where lost property is kept", 2],
      ["What happens when there is a storm?", 3],
      ["Can you explain where I can buy fuel?", 4],
      ["Write an email to a guest about the fees for boats", 1],
      ["Translate the rule about dogs into French", 5],
      ["Summarize what the handbook says about smoking at the pier", 4],
      ["Thanks! And do children need a life jacket?", 5],
      ["siren", 3],
    ],
    unanswered: [
      "Write a poem about the sea",
      "write me a short story about a boat in a storm",
      "Compose a song about the harbour",
      "Tell me a joke",
      "Tell me a joke about sailors at sea",
      "thanks!",
      "Good morning, how are you?",
      "ok great, thank you very much",
      "Who are you and what can you do?",
      "Translate this to French",
      "Can you make it shorter please?",
      "Summarize our conversation",
      "What is the capital of Australia?",
      "Who won the football world cup in 1998?",
      "How do I cook spaghetti carbonara?",
      "What is 17 times 23?",
      "Write a Python function that reverses a list",
      "Which planet is the biggest one in the solar system?",
      "How can I get a mortgage for a house?",
      "Good night",
    ],
  },
  German: {
    passages: [
      "Das Hafenbüro ist von sieben Uhr morgens bis sechs Uhr abends geöffnet. Am Sonntag ist es geschlossen.",
      "Boote über zwölf Meter zahlen dreißig Euro für eine Nacht. Die Gebühren werden bei der Ankunft bezahlt, Wasser und Strom sind dabei.",
      "Fundsachen liegen neunzig Tage lang im blauen Schrank neben der Kellertür. Danach gehen sie an die Seenotretter.",
      "Bei Sturm werden alle Leinen der Boote verdoppelt. Die Sirene ertönt dreimal, wenn das Meer zu rau ist.",
      "Hunde werden auf allen Stegen an der Leine geführt. Kinder unter zehn Jahren tragen eine Schwimmweste.",
    ],
    answered: [
      ["Wann öffnet das Hafenbüro?", 0],
      ["Was kostet eine Nacht für ein großes Boot?", 1],
      ["Sag mir bitte, wo die Fundsachen liegen", 2],
      ["Müssen Kinder eine Schwimmweste tragen?", 4],
      ["Schreib eine Mail über die Gebühren für Boote", 1],
    ],
    unanswered: [
      "Schreib ein Gedicht über das Meer",
      "Schreibe mir eine kurze Geschichte über ein Boot im Sturm",
      "Erzähl mir einen Witz",
      "Danke!",
      "Guten Morgen, wie geht es dir?",
      "Übersetze das bitte ins Englische",
      "Fass unser Gespräch zusammen",
      "Was ist die Hauptstadt von Australien?",
      "Wie koche ich Spaghetti?",
    ],
  },
  Russian: {
    passages: [
      "Контора порта открыта с семи часов утра до шести часов вечера. В воскресенье она закрыта.",
      "Лодки длиннее двенадцати метров платят тридцать евро за ночь.",
      "Потерянные вещи хранятся в синем шкафу девяносто дней.",
      "В шторм все швартовы удваивают. Сирена звучит три раза, когда море слишком бурное.",
    ],
    answered: [
      ["Когда открыта контора порта?", 0],
      ["Сколько платят лодки за ночь?", 1],
      ["Скажи, пожалуйста, где хранятся потерянные вещи?", 2],
    ],
    unanswered: [
      "Напиши стихотворение о море",
      "Расскажи анекдот",
      "Спасибо!",
      "Привет, как дела?",
      "Переведи это на английский",
      "Какая столица Австралии?",
    ],
  },
  Arabic: {
    passages: [
      "مكتب الميناء مفتوح من الساعة السابعة صباحا حتى السادسة مساء، وهو مغلق يوم الأحد.",
      "تدفع القوارب التي يزيد طولها عن اثني عشر مترا ثلاثين يورو في الليلة.",
      "تحفظ المفقودات في الخزانة الزرقاء تسعين يوما.",
      "عند العاصفة تضاعف الحبال، وتدوي صفارة الإنذار ثلاث مرات عندما يهيج البحر.",
    ],
    answered: [
      ["متى يفتح مكتب الميناء؟", 0],
      ["كم تدفع القوارب في الليلة؟", 1],
      ["أين تحفظ المفقودات من فضلك؟", 2],
    ],
    unanswered: [
      "اكتب قصيدة عن البحر",
      "احك لي نكتة",
      "شكرا جزيلا",
      "مرحبا، كيف حالك؟",
      "ترجم هذا إلى الإنجليزية",
      "ما هي عاصمة أستراليا؟",
    ],
  },
  Chinese: {
    passages: [
      "港口办公室早上七点开门，晚上六点关门，星期日休息。",
      "超过十二米的船每晚付三十欧元，费用在到达时支付，包括水电和淋浴。",
      "失物放在地窖门旁边的蓝色柜子里，保存九十天。",
      "暴风雨时所有的船都要加倍缆绳。海上风浪太大时，警报会响三次。",
    ],
    answered: [
      ["港口办公室几点开门？", 0],
      ["船每晚要付多少钱？", 1],
      ["请告诉我失物放在哪里", 2],
      ["写一封邮件说明船每晚的费用", 1],
    ],
    unanswered: [
      "写一首关于大海的诗",
      "讲个笑话",
      "谢谢！",
      "你好，你怎么样？",
      "把这个翻译成英文",
      "澳大利亚的首都是哪里？",
      "写一个关于船和暴风雨的故事",
    ],
  },
  Japanese: {
    passages: [
      "港の事務所は朝七時から夕方六時まで開いています。日曜日は休みです。",
      "十二メートルを超える船は一晩三十ユーロを払います。",
      "忘れ物は青い棚に九十日間保管されます。",
      "嵐のときは船のロープを二重にします。海が荒れるとサイレンが三回鳴ります。",
    ],
    answered: [
      ["港の事務所は何時に開きますか", 0],
      ["忘れ物はどこに保管されますか", 2],
      ["船は一晩いくら払いますか", 1],
    ],
    unanswered: [
      "海についての詩を書いて",
      "冗談を言って",
      "ありがとうございます",
      "こんにちは、お元気ですか",
      "これを英語に翻訳してください",
      "オーストラリアの首都はどこですか",
    ],
  },
};
