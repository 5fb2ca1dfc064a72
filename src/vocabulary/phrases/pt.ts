import type { Phrases } from "./types.ts";

export const PORTUGUESE: Phrases = {
  locale: "pt",
  pairing: (code) =>
    `Só respondo a pessoas aprovadas pelo meu operador. Dê-lhe este código: ${code}. É válido durante uma hora.`,
  paired: "Você foi aprovado. Envie a sua mensagem novamente.",
  greeting: (agent) =>
    `Olá! Eu sou ${agent}. Escreva-me o que precisa. \`/help\` mostra os comandos.`,
  newConversation: "Uma nova conversa começa com a sua próxima mensagem.",
  nothingToStop: "Não há nada para parar.",
  stopped: "Parado.",
  stoppedTurns: (count) => `Parado: ${count} respostas.`,
  notStopped: (count) =>
    `Não foi possível parar ${count} respostas. Tente de novo dentro de um minuto.`,
  waits: (tool, code) =>
    `A sua mensagem está à espera, porque o agente espera uma decisão sobre uma chamada de ${tool} (aprovação ${code}). Escreva /stop para a cancelar.`,
  apology: "Não consigo responder agora; o meu operador já foi avisado.",
  apologyToOwner: (reason, runId) => `Não consegui responder: ${reason} (${runId})`,
  modelAway: "Respondo assim que o meu modelo voltar a responder.",
  noAnswer: "Não tenho resposta para isso.",
  outOfRoom: "Fiquei sem espaço antes de conseguir responder. Por favor, peça menos de cada vez.",
  help: {
    new: "começar uma nova conversa",
    stop: "parar a resposta em curso",
    status: "mostrar o agente, o modelo e o que está em curso",
    agent: "mostrar o agente desta conversa ou escolher outro",
    link: "ligar este canal a outro seu, com um código",
    unlink: "terminar a ligação deste canal",
    approve: "aprovar uma chamada ou uma pessoa, com o código",
    deny: "recusar uma chamada ou uma pessoa, com o código",
    help: "mostrar esta lista",
  },
  status: {
    agent: "Agente: ",
    model: "Modelo: ",
    session: "Sessão: ",
    running: "Respostas em curso: ",
    waiting: "Respostas em espera: ",
    tokens: "Tokens hoje: ",
    noModel: "nenhum",
  },
  agents: {
    current: (agent) => `O agente desta conversa é ${agent}.`,
    choices: (commands) => `Pode escolher: ${commands}.`,
    fixed: "O agente desta conversa não pode ser mudado aqui.",
    unknown: "Esse agente não existe aqui.",
    chosen: (agent) =>
      `A partir de agora ${agent} responde aqui. Cada agente tem a sua própria conversa.`,
  },
  decisions: {
    notAllowed: "Não pode aprovar nada para este agente, por isso nada foi decidido.",
    noPerson: "Ninguém espera com este código: está errado, expirou ou já foi usado.",
    personApproved: (person, channel) => `Aprovado: “${person}” pode escrever em ${channel}.`,
    personDenied: (person, channel) => `Recusado: “${person}” não recebe resposta em ${channel}.`,
    made: {
      approve: (tool) => `Aprovado: ${tool} é chamado.`,
      deny: (tool) => `Recusado: ${tool} não é chamado.`,
      repeat: (tool) => `${tool} é chamado mais uma vez.`,
      done: (tool) => `A chamada de ${tool} é dada como feita.`,
      give_up: (tool) => `Abandonado: ${tool} não é chamado de novo e a execução termina.`,
    },
    past: {
      approve: "aprovada",
      deny: "recusada",
      repeat: "a repetir",
      done: "dada como feita",
      give_up: "abandonada",
    },
    before: (code, past, by, at) =>
      `A aprovação ${code} já foi decidida (${past}, ${by}, ${at}). Uma decisão não pode ser mudada.`,
    noApproval: "Não há nenhuma aprovação com este código.",
    expired: (code) => `A aprovação ${code} expirou: a chamada não é feita.`,
    wrongVerdict: (code, verdicts) =>
      `Isso não corresponde à aprovação ${code}. Escreva ${verdicts}.`,
    runEnded: (code) =>
      `A execução da aprovação ${code} terminou, por isso não há nada para decidir.`,
    changed: (code) =>
      `Os argumentos da chamada mudaram, por isso a aprovação ${code} já não é válida.`,
  },
  questions: {
    wants: (code, agent, tool) => `**Aprovação ${code}**: o agente ${agent} quer chamar ${tool}.`,
    unknown: (code, agent, tool) =>
      `**Aprovação ${code}**: o agente ${agent} chamou ${tool}, e não se sabe se a chamada teve efeito.`,
    cut: (count, command) => `[cortado: ${count} caracteres; ${command} mostra-os]`,
    why: (reason) => `Porque se pergunta: ${reason}`,
    until: (time) => `A pergunta vale até ${time}.`,
    or: "ou",
    instruction: (forms) => `Responda ${forms}.`,
    labels: {
      approve: "Aprovar",
      deny: "Recusar",
      repeat: "Repetir a chamada",
      done: "Dar como feita",
      give_up: "Abandonar",
    },
    ended: (past, by, at) => `**${past}** por ${by}, ${at}.`,
    expired: (at) => `**Expirada**, ${at}.`,
  },
  links: {
    code: (code) =>
      `Envie-me \`/link ${code}\` do seu outro canal dentro de dez minutos. Não dê o código a ninguém: quem o enviar partilha a sua conversa.`,
    linked: (channel) =>
      `Ligado a ${channel}. As suas mensagens diretas lá e aqui partilham agora uma conversa. \`/unlink\` termina isso.`,
    unlinked: "Desligado. As suas mensagens diretas aqui têm de novo uma conversa própria.",
    notLinked: "Este canal não está ligado.",
    notDirect: "`/link` só funciona em mensagens diretas. Um código enviado aqui já não é válido.",
    mainSession:
      "As suas mensagens diretas fazem parte da conversa principal do agente, por isso este canal não pode ser ligado. O operador pode indicar os seus outros canais na configuração.",
    wrongCode:
      "Este código está errado, expirou ou já foi usado. Envie `/link` no seu outro canal para obter um novo.",
    sameChannel: "Este código é para o seu outro canal: envie-o de lá.",
    alreadyLinked: "Estes canais já estão ligados.",
    differentPeople:
      "Segundo a configuração, estes canais pertencem a pessoas diferentes e não foram ligados. O operador pode mudar isso.",
    tooMany: "Demasiadas tentativas. Tente de novo dentro de uma hora.",
    full: "Não é possível ligar mais canais.",
  },
};
