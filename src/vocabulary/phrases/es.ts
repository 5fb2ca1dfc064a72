import type { Phrases } from "./types.ts";

export const SPANISH: Phrases = {
  locale: "es",
  pairing: (code) =>
    `Solo respondo a personas aprobadas por mi operador. Dale este código: ${code}. Es válido durante una hora.`,
  paired: "Has sido aprobado. Envía tu mensaje otra vez.",
  greeting: (agent) =>
    `¡Hola! Soy ${agent}. Escríbeme lo que necesitas. \`/help\` muestra los comandos.`,
  newConversation: "Con tu próximo mensaje empieza una conversación nueva.",
  nothingToStop: "No hay nada que detener.",
  stopped: "Detenido.",
  stoppedTurns: (count) => `Detenido: ${count} respuestas.`,
  notStopped: (count) =>
    `No se pudieron detener ${count} respuestas. Vuelve a intentarlo en un minuto.`,
  waits: (tool, code) =>
    `Tu mensaje espera porque el agente espera una decisión sobre una llamada a ${tool} (aprobación ${code}). Escribe /stop para cancelarla.`,
  apology: "Ahora mismo no puedo responder; mi operador ya está informado.",
  apologyToOwner: (reason, runId) => `No he podido responder: ${reason} (${runId})`,
  modelAway: "Responderé en cuanto mi modelo vuelva a responder.",
  noAnswer: "No tengo respuesta para eso.",
  outOfRoom: "Me quedé sin espacio antes de poder responder. Por favor, pide menos a la vez.",
  help: {
    new: "empezar una conversación nueva",
    stop: "detener la respuesta en curso",
    status: "mostrar el agente, el modelo y lo que está en curso",
    agent: "mostrar el agente de esta conversación o elegir otro",
    link: "vincular este canal con otro tuyo, con un código",
    unlink: "terminar el vínculo de este canal",
    approve: "aprobar una llamada o a una persona, con el código",
    deny: "rechazar una llamada o a una persona, con el código",
    help: "mostrar esta lista",
  },
  status: {
    agent: "Agente: ",
    model: "Modelo: ",
    session: "Sesión: ",
    running: "Respuestas en curso: ",
    waiting: "Respuestas en espera: ",
    tokens: "Tokens hoy: ",
    noModel: "ninguno",
  },
  agents: {
    current: (agent) => `El agente de esta conversación es ${agent}.`,
    choices: (commands) => `Puedes elegir: ${commands}.`,
    fixed: "El agente de esta conversación no se puede cambiar aquí.",
    unknown: "Ese agente no existe aquí.",
    chosen: (agent) =>
      `A partir de ahora responde aquí ${agent}. Cada agente tiene su propia conversación.`,
  },
  decisions: {
    notAllowed: "No puedes aprobar nada para este agente, así que no se ha decidido nada.",
    noPerson: "Nadie espera con este código: es incorrecto, ha caducado o ya se usó.",
    personApproved: (person, channel) => `Aprobado: «${person}» puede escribir en ${channel}.`,
    personDenied: (person, channel) => `Rechazado: «${person}» no recibe respuesta en ${channel}.`,
    made: {
      approve: (tool) => `Aprobado: se llama a ${tool}.`,
      deny: (tool) => `Rechazado: no se llama a ${tool}.`,
      repeat: (tool) => `Se vuelve a llamar a ${tool}.`,
      done: (tool) => `La llamada a ${tool} se da por hecha.`,
      give_up: (tool) => `Abandonado: no se vuelve a llamar a ${tool} y la ejecución termina.`,
    },
    past: {
      approve: "aprobada",
      deny: "rechazada",
      repeat: "por repetir",
      done: "dada por hecha",
      give_up: "abandonada",
    },
    before: (code, past, by, at) =>
      `La aprobación ${code} ya se decidió (${past}, ${by}, ${at}). Una decisión no se puede cambiar.`,
    noApproval: "No hay ninguna aprobación con este código.",
    expired: (code) => `La aprobación ${code} ha caducado: la llamada no se hace.`,
    wrongVerdict: (code, verdicts) =>
      `Eso no corresponde a la aprobación ${code}. Escribe ${verdicts}.`,
    runEnded: (code) =>
      `La ejecución de la aprobación ${code} ha terminado, así que no hay nada que decidir.`,
    changed: (code) =>
      `Los argumentos de la llamada han cambiado, así que la aprobación ${code} ya no vale.`,
  },
  questions: {
    wants: (code, agent, tool) =>
      `**Aprobación ${code}**: el agente ${agent} quiere llamar a ${tool}.`,
    unknown: (code, agent, tool) =>
      `**Aprobación ${code}**: el agente ${agent} ha llamado a ${tool}, y no se sabe si la llamada tuvo efecto.`,
    cut: (count, command) => `[recortado: ${count} caracteres; ${command} los muestra]`,
    why: (reason) => `Por qué se pregunta: ${reason}`,
    until: (time) => `La pregunta vale hasta ${time}.`,
    or: "o",
    instruction: (forms) => `Responde ${forms}.`,
    labels: {
      approve: "Aprobar",
      deny: "Rechazar",
      repeat: "Repetir la llamada",
      done: "Dar por hecha",
      give_up: "Abandonar",
    },
    ended: (past, by, at) => `**${past}** por ${by}, ${at}.`,
    expired: (at) => `**Caducada**, ${at}.`,
  },
  links: {
    code: (code) =>
      `Envíame \`/link ${code}\` desde tu otro canal en diez minutos. No des el código a nadie: quien lo envíe comparte tu conversación.`,
    linked: (channel) =>
      `Vinculado con ${channel}. Tus mensajes directos allí y aquí comparten ahora una conversación. \`/unlink\` lo termina.`,
    unlinked: "Desvinculado. Tus mensajes directos tienen aquí de nuevo su propia conversación.",
    notLinked: "Este canal no está vinculado.",
    notDirect:
      "`/link` solo funciona en mensajes directos. Un código enviado aquí ya no es válido.",
    mainSession:
      "Tus mensajes directos forman parte de la conversación principal del agente, así que este canal no se puede vincular. El operador puede indicar tus otros canales en la configuración.",
    wrongCode:
      "Este código es incorrecto, ha caducado o ya se usó. Envía `/link` en tu otro canal para obtener uno nuevo.",
    sameChannel: "Este código es para tu otro canal: envíamelo desde allí.",
    alreadyLinked: "Estos canales ya están vinculados.",
    differentPeople:
      "Según la configuración, estos canales pertenecen a personas distintas, así que no se han vinculado. El operador puede cambiarlo.",
    tooMany: "Demasiados intentos. Vuelve a intentarlo en una hora.",
    full: "No se puede vincular ningún otro canal.",
  },
};
