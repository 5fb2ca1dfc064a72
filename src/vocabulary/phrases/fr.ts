import type { Phrases } from "./types.ts";

export const FRENCH: Phrases = {
  locale: "fr",
  pairing: (code) =>
    `Je ne réponds qu'aux personnes approuvées par mon opérateur. Donnez-lui ce code : ${code}. Il est valable une heure.`,
  paired: "Vous avez été approuvé. Veuillez renvoyer votre message.",
  greeting: (agent) =>
    `Bonjour ! Je suis ${agent}. Écrivez-moi ce dont vous avez besoin. \`/help\` affiche les commandes.`,
  newConversation: "Une nouvelle conversation commence avec votre prochain message.",
  nothingToStop: "Il n'y a rien à arrêter.",
  stopped: "Arrêté.",
  stoppedTurns: (count) => `Arrêté : ${count} réponses.`,
  notStopped: (count) => `${count} réponses n'ont pas pu être arrêtées. Réessayez dans une minute.`,
  waits: (tool, code) =>
    `Votre message attend, car l'agent attend une décision sur un appel de ${tool} (approbation ${code}). Écrivez /stop pour y mettre fin.`,
  apology: "Je ne peux pas répondre pour le moment ; mon opérateur en a été informé.",
  apologyToOwner: (reason, runId) => `Je n'ai pas pu répondre : ${reason} (${runId})`,
  modelAway: "Je répondrai dès que mon modèle répondra à nouveau.",
  noAnswer: "Je n'ai pas de réponse à cela.",
  outOfRoom:
    "Je n'avais plus de place avant de pouvoir répondre. Demandez-moi moins à la fois, s'il vous plaît.",
  help: {
    new: "commencer une nouvelle conversation",
    stop: "arrêter la réponse en cours",
    status: "afficher l'agent, le modèle et les réponses en cours",
    agent: "afficher l'agent de cette conversation ou en choisir un autre",
    link: "associer ce canal à un autre des vôtres, avec un code",
    unlink: "mettre fin à l'association de ce canal",
    approve: "approuver un appel ou une personne, avec le code",
    deny: "refuser un appel ou une personne, avec le code",
    help: "afficher cette liste",
  },
  status: {
    agent: "Agent : ",
    model: "Modèle : ",
    session: "Session : ",
    running: "Réponses en cours : ",
    waiting: "Réponses en attente : ",
    tokens: "Jetons aujourd'hui : ",
    noModel: "aucun",
  },
  agents: {
    current: (agent) => `L'agent de cette conversation est ${agent}.`,
    choices: (commands) => `Vous pouvez choisir : ${commands}.`,
    fixed: "L'agent de cette conversation ne peut pas être changé ici.",
    unknown: "Cet agent n'existe pas ici.",
    chosen: (agent) => `Désormais, ${agent} répond ici. Chaque agent a sa propre conversation.`,
  },
  decisions: {
    notAllowed: "Vous n'êtes pas autorisé à approuver pour cet agent : rien n'a été décidé.",
    noPerson: "Personne n'attend avec ce code : il est faux, expiré ou déjà utilisé.",
    personApproved: (person, channel) => `Approuvé : « ${person} » peut écrire sur ${channel}.`,
    personDenied: (person, channel) =>
      `Refusé : « ${person} » ne reçoit pas de réponse sur ${channel}.`,
    made: {
      approve: (tool) => `Approuvé : ${tool} est appelé.`,
      deny: (tool) => `Refusé : ${tool} n'est pas appelé.`,
      repeat: (tool) => `${tool} est appelé une nouvelle fois.`,
      done: (tool) => `L'appel de ${tool} est considéré comme effectué.`,
      give_up: (tool) => `Abandonné : ${tool} n'est plus appelé et l'exécution se termine.`,
    },
    past: {
      approve: "approuvé",
      deny: "refusé",
      repeat: "à répéter",
      done: "considéré comme effectué",
      give_up: "abandonné",
    },
    before: (code, past, by, at) =>
      `L'approbation ${code} a déjà été décidée (${past}, ${by}, ${at}). Une décision ne peut pas être modifiée.`,
    noApproval: "Il n'y a pas d'approbation avec ce code.",
    expired: (code) => `L'approbation ${code} a expiré : l'appel n'a pas lieu.`,
    wrongVerdict: (code, verdicts) =>
      `Cela ne convient pas à l'approbation ${code}. Écrivez ${verdicts}.`,
    runEnded: (code) =>
      `L'exécution de l'approbation ${code} est terminée : il n'y a plus rien à décider.`,
    changed: (code) =>
      `Les arguments de l'appel ont changé : l'approbation ${code} n'est plus valable.`,
  },
  questions: {
    wants: (code, agent, tool) =>
      `**Approbation ${code}** : l'agent ${agent} veut appeler ${tool}.`,
    unknown: (code, agent, tool) =>
      `**Approbation ${code}** : l'agent ${agent} a appelé ${tool}, et on ne sait pas si l'appel a eu un effet.`,
    cut: (count, command) => `[coupé : ${count} caractères ; ${command} les affiche]`,
    why: (reason) => `Pourquoi cette question : ${reason}`,
    until: (time) => `La question est ouverte jusqu'au ${time}.`,
    or: "ou",
    instruction: (forms) => `Répondez ${forms}.`,
    labels: {
      approve: "Approuver",
      deny: "Refuser",
      repeat: "Répéter l'appel",
      done: "Considérer fait",
      give_up: "Abandonner",
    },
    ended: (past, by, at) => `**${past}** par ${by} le ${at}.`,
    expired: (at) => `**Expiré** le ${at}.`,
  },
  links: {
    code: (code) =>
      `Envoyez-moi \`/link ${code}\` depuis votre autre canal dans les dix minutes. Ne donnez ce code à personne : qui l'envoie partage votre conversation.`,
    linked: (channel) =>
      `Associé à ${channel}. Vos messages directs là-bas et ici partagent désormais une seule conversation. \`/unlink\` y met fin.`,
    unlinked: "Dissocié. Vos messages directs ont de nouveau ici leur propre conversation.",
    notLinked: "Ce canal n'est pas associé.",
    notDirect:
      "`/link` fonctionne seulement dans les messages directs. Un code envoyé ici n'est plus valable.",
    mainSession:
      "Vos messages directs font partie de la conversation principale de l'agent, ce canal ne peut donc pas être associé. L'opérateur peut indiquer vos autres canaux dans la configuration.",
    wrongCode:
      "Ce code est faux, expiré ou déjà utilisé. Envoyez `/link` sur votre autre canal pour en obtenir un nouveau.",
    sameChannel: "Ce code est destiné à votre autre canal : envoyez-le-moi depuis celui-ci.",
    alreadyLinked: "Ces canaux sont déjà associés.",
    differentPeople:
      "Selon la configuration, ces canaux appartiennent à des personnes différentes : ils n'ont pas été associés. L'opérateur peut changer cela.",
    tooMany: "Trop de tentatives. Réessayez dans une heure.",
    full: "Aucun autre canal ne peut être associé.",
  },
};
