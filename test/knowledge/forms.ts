/** A passage, and questions with its words in other forms: each finds the passage first, among those of all languages. */
type Pair = readonly [passage: string, ...questions: string[]];

/** Written for this test by hand. */
export const FORMS: Record<string, readonly Pair[]> = {
  German: [
    [
      "Die Krankenversicherungskarten werden am Empfang vorgelegt, bevor der Arzt kommt.",
      "Krankenversicherung",
      "Versicherungskarte",
    ],
    [
      "Die Schlüssel der Wohnungen liegen im Büro des Hausmeisters.",
      "Wohnungsschlüssel",
      "Schluessel Wohnung",
    ],
    ["Auf der Straße vor dem Tor ist das Parken nicht erlaubt.", "Strasse Parkverbot", "STRASSE"],
    ["Die Äpfel aus dem Garten sind für alle Mitarbeiter da.", "Apfel", "Gartenapfel"],
  ],
  Russian: [
    ["Ёлку в холле ставят в декабре и убирают после праздников.", "елка", "праздник ёлкой"],
    ["Ключи от квартир хранятся у дежурного на первом этаже.", "ключ от квартиры", "дежурный"],
    ["Счета поставщиков оплачивают в течение двух недель.", "оплата счёта поставщику", "поставщик"],
    [
      "Сотрудники, которые уволились, сдают пропуск в последний день.",
      "увольнение сотрудника",
      "пропуска",
    ],
  ],
  Arabic: [
    ["تُحفظ مفاتيح الشقق عند الحارس في الطابق الأول من المبنى.", "مفتاح الشقة", "المفاتيح"],
    ["يدفع المكتب فواتير الموردين في خلال أسبوعين من وصولها.", "فاتورة المورد", "دفع الفواتير"],
    ["يجب على الموظفين الذين تركوا العمل أن يعيدوا الحاسوب إلى القسم.", "الموظف", "حاسوب موظفين"],
    ["الكُتُبُ التي في المكتبة تُعار لمدة شهر واحد.", "الكتب", "كتب المكتبه"],
  ],
  Japanese: [
    ["傘の忘れ物は受付で九十日間保管します。", "忘れ物の傘", "傘を忘れた"],
    ["会議室の鍵は総務部で借りてください。", "会議室のカギを借りたい 会議室", "総務部"],
    ["ﾊﾟｽﾜｰﾄﾞは三か月ごとに変更してください。", "パスワードの変更", "パスワード"],
    ["駐車場の利用は事前に申請が必要です。", "駐車場を使う申請", "駐車場利用申請"],
  ],
  Thai: [
    ["ร่มที่ลืมไว้จะเก็บไว้ที่แผนกต้อนรับเป็นเวลาเก้าสิบวัน", "ลืมร่ม", "แผนกต้อนรับ"],
    ["กุญแจห้องประชุมอยู่ที่ฝ่ายธุรการ", "กุญแจห้องประชุม", "ฝ่ายธุรการอยู่ที่ไหน"],
    ["ต้องเปลี่ยนรหัสผ่านทุกสามเดือน", "เปลี่ยนรหัสผ่าน", "รหัสผ่าน"],
    ["โรงอาหารเปิดตั้งแต่สิบเอ็ดโมงเช้า", "โรงอาหารเปิดกี่โมง", "โรงอาหาร"],
  ],
  French: [
    ["Les chevaux du manège sont nourris le matin et le soir.", "cheval", "nourrir un cheval"],
    [
      "L'élève doit rendre ses livres à la bibliothèque avant l'été.",
      "eleve bibliotheque",
      "d'élèves",
    ],
    [
      "Les factures des fournisseurs sont payées dans les deux semaines.",
      "facture fournisseur paiement",
      "payer une facture",
    ],
    ["Aujourd'hui le cœur de la ville est fermé aux voitures.", "coeur", "voiture"],
  ],
  Spanish: [
    ["Los niños pequeños no pueden entrar en la piscina sin un adulto.", "niño piscinas", "nino"],
    ["Las facturas de los proveedores se pagan en dos semanas.", "pagar factura proveedor", "pago"],
    ["El médico recibe a los pacientes los martes.", "médicos", "medico paciente"],
    ["Las llaves de las habitaciones están en la recepción.", "llave habitación", "habitacion"],
  ],
  Turkish: [
    ["Kütüphaneden alınan kitaplar bir ay sonra geri verilir.", "kitap", "kütüphane"],
    ["IŞIKLAR gece için kapatılır ve sabah yine açılır.", "ışık", "isik"],
    ["İSTANBUL ofisinin anahtarları bu masada durur.", "istanbul", "İstanbul'daki ofisin anahtarı"],
    ["Çalışanların izinleri için bir ay önce haber verilir.", "çalışan izni", "calisan"],
  ],
  Polish: [
    ["Zgubione klucze są w biurze na pierwszym piętrze.", "klucz", "zgubiony klucz w biurach"],
    ["Pracownicy, którzy odchodzą, oddają komputer w ostatnim dniu.", "pracownik", "komputery"],
    ["Żółwie w ogrodzie są karmione co rano i wieczorem.", "żółw", "zolw"],
    [
      "Faktury od dostawców są płacone w ciągu dwóch tygodni.",
      "faktura dostawcy",
      "płatność faktury",
    ],
  ],
  Czech: [
    ["Ztracené klíče jsou v kanceláři v prvním patře.", "klíč", "ztracený klic"],
    [
      "Zaměstnanci, kteří odcházejí, vracejí počítač poslední den.",
      "zaměstnanec",
      "pocitac zamestnance",
    ],
    ["Faktury od dodavatelů se platí do dvou týdnů.", "dodavatelská faktura", "placení faktur"],
    ["Lékař přijímá pacienty v úterý a ve čtvrtek.", "lékaři", "pacient u lekare"],
  ],
  Finnish: [
    [
      "Kirjaston kirjat on palautettava kuukauden kuluessa, tai niistä tulee maksu.",
      "kirja",
      "kirjastoissa",
    ],
    ["Työntekijöiden lomat on haettava ennen kuin kesä alkaa.", "työntekijä loma", "tyontekijan"],
    [
      "Asuntojen avaimet ovat toimistossa, joka on ensimmäisessä kerroksessa.",
      "asunnon avain",
      "avainta",
    ],
    [
      "Lääkäri ottaa potilaita vastaan tiistaisin ja se on ilmaista.",
      "lääkärin vastaanotto",
      "laakari",
    ],
  ],
  Hungarian: [
    ["A könyvtárból kölcsönzött könyveket egy hónap után kell visszahozni.", "könyv", "könyvtár"],
    ["A lakások kulcsai az irodában vannak az első emeleten.", "lakáskulcs", "kulcs"],
    ["Az orvos kedden és csütörtökön fogadja a betegeket.", "orvosok beteg", "betegeknek"],
    ["A szállítók számláit két héten belül kell kifizetni.", "számla", "szamla szállítónak"],
  ],
  Chinese: [
    ["失物招领处把雨伞保存九十天。", "雨伞", "招领失物"],
    ["会议室的钥匙在行政部。", "会议室钥匙", "钥匙"],
    ["ＷＩＦＩ密码每三个月更换一次。", "wifi密码", "更换密码"],
    ["員工離職時要交還電腦。", "員工離職", "電腦"],
  ],
};
