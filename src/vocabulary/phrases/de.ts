import type { Phrases } from "./types.ts";

export const GERMAN: Phrases = {
  locale: "de",
  pairing: (code) =>
    `Ich antworte nur Personen, die mein Betreiber freigegeben hat. Gib dem Betreiber diesen Code: ${code}. Er gilt eine Stunde.`,
  paired: "Du bist freigegeben. Bitte sende deine Nachricht noch einmal.",
  greeting: (agent) =>
    `Hallo! Ich bin ${agent}. Schreib mir, was du brauchst. \`/help\` zeigt die Befehle.`,
  newConversation: "Mit deiner nächsten Nachricht beginnt eine neue Unterhaltung.",
  nothingToStop: "Es gibt nichts abzubrechen.",
  stopped: "Abgebrochen.",
  stoppedTurns: (count) => `Abgebrochen: ${count} Antworten.`,
  notStopped: (count) =>
    `${count} Antworten konnten nicht abgebrochen werden. Versuche es in einer Minute noch einmal.`,
  waits: (tool, code) =>
    `Deine Nachricht wartet, weil der Agent auf eine Entscheidung über einen Aufruf von ${tool} wartet (Freigabe ${code}). Mit /stop brichst du den Vorgang ab.`,
  apology: "Ich kann gerade nicht antworten; mein Betreiber weiß Bescheid.",
  apologyToOwner: (reason, runId) => `Das konnte ich nicht beantworten: ${reason} (${runId})`,
  modelAway: "Ich antworte, sobald mein Modell wieder antwortet.",
  noAnswer: "Darauf habe ich keine Antwort.",
  outOfRoom:
    "Mein Platz war zu Ende, bevor ich antworten konnte. Bitte frag nach weniger auf einmal.",
  help: {
    new: "eine neue Unterhaltung beginnen",
    stop: "die laufende Antwort abbrechen",
    status: "Agent, Modell und laufende Antworten zeigen",
    agent: "den Agenten dieser Unterhaltung zeigen oder wechseln",
    link: "diesen Kanal mit einem anderen von dir verbinden, mit einem Code",
    unlink: "die Verbindung dieses Kanals beenden",
    approve: "einen Aufruf oder eine Person freigeben, mit dem Code",
    deny: "einen Aufruf oder eine Person ablehnen, mit dem Code",
    help: "diese Liste zeigen",
  },
  status: {
    agent: "Agent: ",
    model: "Modell: ",
    session: "Sitzung: ",
    running: "Laufende Antworten: ",
    waiting: "Wartende Antworten: ",
    tokens: "Tokens heute: ",
    noModel: "keines",
  },
  agents: {
    current: (agent) => `Der Agent dieser Unterhaltung ist ${agent}.`,
    choices: (commands) => `Zur Wahl stehen: ${commands}.`,
    fixed: "Der Agent dieser Unterhaltung lässt sich hier nicht wechseln.",
    unknown: "Diesen Agenten gibt es hier nicht.",
    chosen: (agent) =>
      `Ab jetzt antwortet hier ${agent}. Jeder Agent hat seine eigene Unterhaltung.`,
  },
  decisions: {
    notAllowed: "Du darfst für diesen Agenten nichts freigeben, deshalb wurde nichts entschieden.",
    noPerson: "Mit diesem Code wartet niemand: Er ist falsch, abgelaufen oder schon benutzt.",
    personApproved: (person, channel) => `Freigegeben: „${person}“ darf auf ${channel} schreiben.`,
    personDenied: (person, channel) =>
      `Abgelehnt: „${person}“ bekommt auf ${channel} keine Antwort.`,
    made: {
      approve: (tool) => `Freigegeben: ${tool} wird aufgerufen.`,
      deny: (tool) => `Abgelehnt: ${tool} wird nicht aufgerufen.`,
      repeat: (tool) => `${tool} wird noch einmal aufgerufen.`,
      done: (tool) => `Der Aufruf von ${tool} gilt als erledigt.`,
      give_up: (tool) =>
        `Aufgegeben: ${tool} wird nicht noch einmal aufgerufen, und der Vorgang endet.`,
    },
    past: {
      approve: "freigegeben",
      deny: "abgelehnt",
      repeat: "wird wiederholt",
      done: "gilt als erledigt",
      give_up: "aufgegeben",
    },
    before: (code, past, by, at) =>
      `Über die Freigabe ${code} wurde schon entschieden (${past}, ${by}, ${at}). Eine Entscheidung lässt sich nicht ändern.`,
    noApproval: "Es gibt keine Freigabe mit diesem Code.",
    expired: (code) => `Die Freigabe ${code} ist abgelaufen: Der Aufruf findet nicht statt.`,
    wrongVerdict: (code, verdicts) => `Das passt nicht zur Freigabe ${code}. Schreibe ${verdicts}.`,
    runEnded: (code) =>
      `Der Vorgang der Freigabe ${code} ist beendet, es gibt nichts mehr zu entscheiden.`,
    changed: (code) =>
      `Die Argumente des Aufrufs haben sich geändert, deshalb gilt die Freigabe ${code} nicht mehr.`,
  },
  questions: {
    wants: (code, agent, tool) =>
      `**Freigabe ${code}**: der Agent ${agent} möchte ${tool} aufrufen.`,
    unknown: (code, agent, tool) =>
      `**Freigabe ${code}**: der Agent ${agent} hat ${tool} aufgerufen, und ob der Aufruf gewirkt hat, ist nicht bekannt.`,
    cut: (count, command) => `[gekürzt: ${count} Zeichen; ${command} zeigt sie]`,
    why: (reason) => `Warum gefragt wird: ${reason}`,
    until: (time) => `Die Frage gilt bis ${time}.`,
    or: "oder",
    instruction: (forms) => `Antworte ${forms}.`,
    labels: {
      approve: "Freigeben",
      deny: "Ablehnen",
      repeat: "Wiederholen",
      done: "Gilt als erledigt",
      give_up: "Aufgeben",
    },
    ended: (past, by, at) => `**${past}** von ${by} am ${at}.`,
    expired: (at) => `**Abgelaufen** am ${at}.`,
  },
  links: {
    code: (code) =>
      `Sende mir innerhalb von zehn Minuten \`/link ${code}\` von deinem anderen Kanal. Gib den Code niemandem: Wer ihn sendet, teilt deine Unterhaltung.`,
    linked: (channel) =>
      `Mit ${channel} verbunden. Deine Direktnachrichten dort und hier gehören jetzt zu einer Unterhaltung. \`/unlink\` beendet das.`,
    unlinked: "Getrennt. Deine Direktnachrichten hier haben wieder eine eigene Unterhaltung.",
    notLinked: "Dieser Kanal ist nicht verbunden.",
    notDirect:
      "`/link` geht nur in Direktnachrichten. Ein Code, der hier gesendet wurde, gilt nicht mehr.",
    mainSession:
      "Deine Direktnachrichten gehören zur Hauptunterhaltung des Agenten, deshalb kann dieser Kanal nicht verbunden werden. Der Betreiber kann deine anderen Kanäle in der Konfiguration nennen.",
    wrongCode:
      "Dieser Code ist falsch, abgelaufen oder schon benutzt. Sende `/link` auf deinem anderen Kanal für einen neuen.",
    sameChannel: "Dieser Code ist für deinen anderen Kanal: Sende ihn mir von dort.",
    alreadyLinked: "Diese Kanäle sind schon verbunden.",
    differentPeople:
      "Laut Konfiguration gehören diese Kanäle verschiedenen Personen, deshalb wurden sie nicht verbunden. Der Betreiber kann das ändern.",
    tooMany: "Zu viele Versuche. Versuche es in einer Stunde noch einmal.",
    full: "Es kann kein weiterer Kanal verbunden werden.",
  },
};
