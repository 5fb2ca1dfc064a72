import type { Phrases } from "./types.ts";

export const JAPANESE: Phrases = {
  locale: "ja",
  pairing: (code) =>
    `管理者が承認した方にのみ返信します。このコードを管理者に伝えてください：${code}。有効期限は1時間です。`,
  paired: "承認されました。もう一度メッセージを送信してください。",
  greeting: (agent) =>
    `こんにちは。${agent} です。ご用件をお書きください。\`/help\` でコマンドの一覧が表示されます。`,
  newConversation: "次のメッセージから新しい会話が始まります。",
  nothingToStop: "停止するものはありません。",
  stopped: "停止しました。",
  stoppedTurns: (count) => `${count}件の応答を停止しました。`,
  notStopped: (count) => `${count}件の応答を停止できませんでした。1分後にもう一度お試しください。`,
  waits: (tool, code) =>
    `エージェントが ${tool} の呼び出しについての決定を待っているため、メッセージは待機中です（承認 ${code}）。/stop を送信すると中止できます。`,
  apology: "現在お答えできません。運用担当者には通知済みです。",
  apologyToOwner: (reason, runId) => `回答できませんでした：${reason}（${runId}）`,
  modelAway: "モデルが再び応答し次第、お答えします。",
  noAnswer: "それについてはお答えできることがありません。",
  outOfRoom: "お答えする前に文字数の上限に達しました。一度にお尋ねになる量を減らしてください。",
  help: {
    new: "新しい会話を始める",
    stop: "実行中の応答を停止する",
    status: "エージェント、モデル、実行中の応答を表示する",
    agent: "この会話のエージェントを表示または変更する",
    link: "コードでこのチャンネルを別のチャンネルとリンクする",
    unlink: "このチャンネルのリンクを解除する",
    approve: "コードで呼び出しまたは人を承認する",
    deny: "コードで呼び出しまたは人を拒否する",
    help: "この一覧を表示する",
  },
  status: {
    agent: "エージェント：",
    model: "モデル：",
    session: "セッション：",
    running: "実行中の応答：",
    waiting: "待機中の応答：",
    tokens: "今日のトークン数：",
    noModel: "なし",
  },
  agents: {
    current: (agent) => `この会話のエージェントは ${agent} です。`,
    choices: (commands) => `選択できるもの：${commands}。`,
    fixed: "この会話のエージェントはここでは変更できません。",
    unknown: "そのエージェントはここにはいません。",
    chosen: (agent) => `これからは ${agent} がここで応答します。会話はエージェントごとに別々です。`,
  },
  decisions: {
    notAllowed: "あなたはこのエージェントの承認者ではないため、何も決定されませんでした。",
    noPerson:
      "このコードで待っている人はいません。コードが間違っているか、期限切れか、使用済みです。",
    personApproved: (person, channel) =>
      `承認しました：「${person}」は ${channel} で書き込めます。`,
    personDenied: (person, channel) =>
      `拒否しました：「${person}」は ${channel} で応答を受け取りません。`,
    made: {
      approve: (tool) => `承認しました：${tool} を呼び出します。`,
      deny: (tool) => `拒否しました：${tool} は呼び出されません。`,
      repeat: (tool) => `${tool} をもう一度呼び出します。`,
      done: (tool) => `${tool} の呼び出しは完了したものとして扱います。`,
      give_up: (tool) => `中止しました：${tool} は再び呼び出されず、実行は終了します。`,
    },
    past: {
      approve: "承認",
      deny: "拒否",
      repeat: "再実行",
      done: "完了扱い",
      give_up: "中止",
    },
    before: (code, past, by, at) =>
      `承認 ${code} はすでに決定済みです（${past}、${by}、${at}）。決定は変更できません。`,
    noApproval: "このコードの承認はありません。",
    expired: (code) => `承認 ${code} は期限切れです。呼び出しは行われません。`,
    wrongVerdict: (code, verdicts) =>
      `承認 ${code} にはこの決定は使えません。${verdicts} と送信してください。`,
    runEnded: (code) => `承認 ${code} の実行は終了しているため、決定するものはありません。`,
    changed: (code) => `呼び出しの引数が変わったため、承認 ${code} は無効になりました。`,
  },
  questions: {
    wants: (code, agent, tool) =>
      `**承認 ${code}**: エージェント ${agent} が ${tool} の呼び出しを求めています。`,
    unknown: (code, agent, tool) =>
      `**承認 ${code}**: エージェント ${agent} が ${tool} を呼び出しましたが、効果があったかどうかは不明です。`,
    cut: (count, command) => `[省略: ${count} 文字。${command} で表示できます]`,
    why: (reason) => `確認の理由: ${reason}`,
    until: (time) => `期限は ${time} です。`,
    or: "または",
    instruction: (forms) => `${forms} と返信してください。`,
    labels: {
      approve: "承認",
      deny: "拒否",
      repeat: "もう一度呼び出す",
      done: "完了として扱う",
      give_up: "中止",
    },
    ended: (past, by, at) => `**${past}**: ${by}、${at}。`,
    expired: (at) => `**期限切れ**: ${at}。`,
  },
  links: {
    code: (code) =>
      `10分以内に、もう一つのチャンネルから \`/link ${code}\` を送信してください。コードを他の人に渡さないでください。送信した人はあなたの会話を共有します。`,
    linked: (channel) =>
      `${channel} とリンクしました。そちらとこちらのダイレクトメッセージは一つの会話になります。\`/unlink\` で解除できます。`,
    unlinked: "リンクを解除しました。ここのダイレクトメッセージは再び独立した会話になります。",
    notLinked: "このチャンネルはリンクされていません。",
    notDirect:
      "`/link` はダイレクトメッセージでのみ使えます。ここに送信されたコードは無効になりました。",
    mainSession:
      "あなたのダイレクトメッセージはエージェントのメインの会話に属するため、このチャンネルはリンクできません。管理者は設定に他のチャンネルを記載できます。",
    wrongCode:
      "このコードは間違っているか、期限切れか、使用済みです。もう一つのチャンネルで `/link` を送信して新しいコードを取得してください。",
    sameChannel: "このコードはもう一つのチャンネル用です。そちらから送信してください。",
    alreadyLinked: "これらのチャンネルはすでにリンクされています。",
    differentPeople:
      "設定ではこれらのチャンネルは別々の人のものなので、リンクしませんでした。管理者は変更できます。",
    tooMany: "試行回数が多すぎます。1時間後にもう一度お試しください。",
    full: "これ以上チャンネルをリンクできません。",
  },
};
