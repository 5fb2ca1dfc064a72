/** What the gateway itself says to people on channels, without a model. */
export interface Phrases {
  /** To a stranger. */
  pairing(code: string): string;
  /** To a stranger who was approved. */
  paired: string;
  newConversation: string;
  nothingToStop: string;
  stopped: string;
  stoppedTurns(count: number): string;
  /** What each command does, by its name. */
  help: Record<HelpedCommand, string>;
}

/** The commands that `/help` names, in its order. */
export const HELPED = ["new", "stop", "status", "agent", "approve", "deny", "help"] as const;
export type HelpedCommand = (typeof HELPED)[number];

const EN: Phrases = {
  pairing: (code) =>
    `I only answer people that my operator has approved. Give this code to the operator: ${code}. It is valid for one hour.`,
  paired: "You have been approved. Please send your message again.",
  newConversation: "A new conversation begins with your next message.",
  nothingToStop: "Nothing to stop.",
  stopped: "Stopped.",
  stoppedTurns: (count) => `Stopped: ${count} turns.`,
  help: {
    new: "begin a new conversation",
    stop: "stop the running answer",
    status: "show the agent, the model and what is running",
    agent: "show the agent of this conversation, or choose another one",
    approve: "approve a call or a person, by the code",
    deny: "deny a call or a person, by the code",
    help: "show this list",
  },
};

const PHRASES: Record<string, Phrases> = {
  en: EN,
  de: {
    pairing: (code) =>
      `Ich antworte nur Personen, die mein Betreiber freigegeben hat. Gib dem Betreiber diesen Code: ${code}. Er gilt eine Stunde.`,
    paired: "Du bist freigegeben. Bitte sende deine Nachricht noch einmal.",
    newConversation: "Mit deiner nächsten Nachricht beginnt eine neue Unterhaltung.",
    nothingToStop: "Es gibt nichts abzubrechen.",
    stopped: "Abgebrochen.",
    stoppedTurns: (count) => `Abgebrochen: ${count} Antworten.`,
    help: {
      new: "eine neue Unterhaltung beginnen",
      stop: "die laufende Antwort abbrechen",
      status: "Agent, Modell und laufende Antworten zeigen",
      agent: "den Agenten dieser Unterhaltung zeigen oder wechseln",
      approve: "einen Aufruf oder eine Person freigeben, mit dem Code",
      deny: "einen Aufruf oder eine Person ablehnen, mit dem Code",
      help: "diese Liste zeigen",
    },
  },
  fr: {
    pairing: (code) =>
      `Je ne réponds qu'aux personnes approuvées par mon opérateur. Donnez-lui ce code : ${code}. Il est valable une heure.`,
    paired: "Vous avez été approuvé. Veuillez renvoyer votre message.",
    newConversation: "Une nouvelle conversation commence avec votre prochain message.",
    nothingToStop: "Il n'y a rien à arrêter.",
    stopped: "Arrêté.",
    stoppedTurns: (count) => `Arrêté : ${count} réponses.`,
    help: {
      new: "commencer une nouvelle conversation",
      stop: "arrêter la réponse en cours",
      status: "afficher l'agent, le modèle et les réponses en cours",
      agent: "afficher l'agent de cette conversation ou en choisir un autre",
      approve: "approuver un appel ou une personne, avec le code",
      deny: "refuser un appel ou une personne, avec le code",
      help: "afficher cette liste",
    },
  },
  es: {
    pairing: (code) => `Solo respondo a personas aprobadas por mi operador. Dale este código: ${code}. Es válido durante una hora.`,
    paired: "Has sido aprobado. Envía tu mensaje otra vez.",
    newConversation: "Con tu próximo mensaje empieza una conversación nueva.",
    nothingToStop: "No hay nada que detener.",
    stopped: "Detenido.",
    stoppedTurns: (count) => `Detenido: ${count} respuestas.`,
    help: {
      new: "empezar una conversación nueva",
      stop: "detener la respuesta en curso",
      status: "mostrar el agente, el modelo y lo que está en curso",
      agent: "mostrar el agente de esta conversación o elegir otro",
      approve: "aprobar una llamada o a una persona, con el código",
      deny: "rechazar una llamada o a una persona, con el código",
      help: "mostrar esta lista",
    },
  },
  ru: {
    pairing: (code) => `Я отвечаю только тем, кого одобрил мой оператор. Передайте ему этот код: ${code}. Код действует один час.`,
    paired: "Вас одобрили. Отправьте сообщение ещё раз.",
    newConversation: "Со следующего сообщения начнётся новый разговор.",
    nothingToStop: "Останавливать нечего.",
    stopped: "Остановлено.",
    stoppedTurns: (count) => `Остановлено ответов: ${count}.`,
    help: {
      new: "начать новый разговор",
      stop: "остановить текущий ответ",
      status: "показать агента, модель и текущие ответы",
      agent: "показать агента этого разговора или выбрать другого",
      approve: "одобрить вызов или человека по коду",
      deny: "отклонить вызов или человека по коду",
      help: "показать этот список",
    },
  },
  zh: {
    pairing: (code) => `我只回复经管理员批准的人。请把此代码交给管理员：${code}。代码一小时内有效。`,
    paired: "您已获批准。请重新发送您的消息。",
    newConversation: "您的下一条消息将开始新的对话。",
    nothingToStop: "没有可以停止的内容。",
    stopped: "已停止。",
    stoppedTurns: (count) => `已停止 ${count} 个回复。`,
    help: {
      new: "开始新的对话",
      stop: "停止当前回复",
      status: "显示代理、模型和正在运行的回复",
      agent: "显示此对话的代理或选择其他代理",
      approve: "用代码批准调用或人员",
      deny: "用代码拒绝调用或人员",
      help: "显示此列表",
    },
  },
  ar: {
    pairing: (code) => `لا أجيب إلا من وافق عليه المشغّل. أعط المشغّل هذا الرمز: ${code}. الرمز صالح لمدة ساعة واحدة.`,
    paired: "تمت الموافقة عليك. يرجى إرسال رسالتك مرة أخرى.",
    newConversation: "تبدأ محادثة جديدة مع رسالتك التالية.",
    nothingToStop: "لا يوجد ما يمكن إيقافه.",
    stopped: "تم الإيقاف.",
    stoppedTurns: (count) => `تم إيقاف الردود: ${count}.`,
    help: {
      new: "بدء محادثة جديدة",
      stop: "إيقاف الرد الجاري",
      status: "عرض الوكيل والنموذج والردود الجارية",
      agent: "عرض وكيل هذه المحادثة أو اختيار وكيل آخر",
      approve: "الموافقة على استدعاء أو شخص بالرمز",
      deny: "رفض استدعاء أو شخص بالرمز",
      help: "عرض هذه القائمة",
    },
  },
  pt: {
    pairing: (code) => `Só respondo a pessoas aprovadas pelo meu operador. Dê-lhe este código: ${code}. É válido durante uma hora.`,
    paired: "Você foi aprovado. Envie a sua mensagem novamente.",
    newConversation: "Uma nova conversa começa com a sua próxima mensagem.",
    nothingToStop: "Não há nada para parar.",
    stopped: "Parado.",
    stoppedTurns: (count) => `Parado: ${count} respostas.`,
    help: {
      new: "começar uma nova conversa",
      stop: "parar a resposta em curso",
      status: "mostrar o agente, o modelo e o que está em curso",
      agent: "mostrar o agente desta conversa ou escolher outro",
      approve: "aprovar uma chamada ou uma pessoa, com o código",
      deny: "recusar uma chamada ou uma pessoa, com o código",
      help: "mostrar esta lista",
    },
  },
  ja: {
    pairing: (code) => `管理者が承認した方にのみ返信します。このコードを管理者に伝えてください：${code}。有効期限は1時間です。`,
    paired: "承認されました。もう一度メッセージを送信してください。",
    newConversation: "次のメッセージから新しい会話が始まります。",
    nothingToStop: "停止するものはありません。",
    stopped: "停止しました。",
    stoppedTurns: (count) => `${count}件の応答を停止しました。`,
    help: {
      new: "新しい会話を始める",
      stop: "実行中の応答を停止する",
      status: "エージェント、モデル、実行中の応答を表示する",
      agent: "この会話のエージェントを表示または変更する",
      approve: "コードで呼び出しまたは人を承認する",
      deny: "コードで呼び出しまたは人を拒否する",
      help: "この一覧を表示する",
    },
  },
};

/** The languages that there are phrases in. */
export const LANGUAGES: readonly string[] = Object.keys(PHRASES);

/** The phrases of a language tag (`de`, `pt-br`); English if there are none. */
export function getPhrases(language = "en"): Phrases {
  const [base = ""] = language.toLowerCase().split(/[-_]/);
  return Object.hasOwn(PHRASES, base) ? (PHRASES[base] as Phrases) : EN;
}
