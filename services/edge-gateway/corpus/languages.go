package corpus

import (
	"slices"
	"strings"
)

// language is one language, by sentences of it.
type language struct {
	name      string
	space     string
	sentences []string
	rare      []string // words that tokenizers have seen less often
}

// words are the words of the sentences and the rare ones.
func (l *language) words() []string {
	if l.space == "" {
		return slices.Concat(l.sentences, l.rare)
	}
	return append(strings.Fields(strings.Join(l.sentences, " ")), l.rare...)
}

var languages = []*language{
	{name: "English", space: " ", sentences: []string{
		"Please summarise the following report in three short paragraphs.",
		"The quick brown fox jumps over the lazy dog, and then it runs home.",
		"What's the difference between a process and a thread?",
		"Although the experiment had been repeated several times, nobody could reproduce the original measurement.",
		"You are a helpful assistant. Answer briefly, and say so when you do not know.",
		"In 1969 the first message was sent between two computers of the new network.",
	}, rare: []string{"Kyrgyzstan", "Liechtenstein", "bioluminescence", "otorhinolaryngologist", "Ouagadougou", "syzygy"}},
	{name: "German", space: " ", sentences: []string{
		"Bitte fasse den folgenden Bericht in drei kurzen Absätzen zusammen.",
		"Die Donaudampfschifffahrtsgesellschaft veröffentlichte gestern ihre Geschäftszahlen.",
		"Warum schläft die Katze den ganzen Nachmittag auf dem warmen Fensterbrett?",
		"Obwohl der Versuch mehrfach wiederholt wurde, ließ sich die ursprüngliche Messung nicht bestätigen.",
	}, rare: []string{"Äquatorialguinea", "Rechtsschutzversicherungsgesellschaften", "Straßenbahnhaltestelle"}},
	{name: "French", space: " ", sentences: []string{
		"Veuillez résumer le rapport suivant en trois courts paragraphes.",
		"L'élève a reçu une réponse à laquelle il ne s'attendait pas.",
		"Bien que l'expérience ait été répétée plusieurs fois, personne n'a pu reproduire la mesure.",
	}, rare: []string{"Guinée-Équatoriale", "anticonstitutionnellement", "Kirghizistan"}},
	{name: "Spanish", space: " ", sentences: []string{
		"Resume el siguiente informe en tres párrafos cortos, por favor.",
		"¿Cuál es la diferencia entre un proceso y un hilo?",
		"Aunque el experimento se repitió varias veces, nadie pudo reproducir la medición original.",
	}, rare: []string{"Kirguistán", "electroencefalografista", "Bután"}},
	{name: "Portuguese", space: " ", sentences: []string{
		"Por favor, resuma o relatório a seguir em três parágrafos curtos.",
		"Embora a experiência tenha sido repetida várias vezes, ninguém conseguiu reproduzir a medição.",
	}, rare: []string{"Quirguistão", "Azerbaijão"}},
	{name: "Polish", space: " ", sentences: []string{
		"Proszę streścić poniższy raport w trzech krótkich akapitach.",
		"W Szczebrzeszynie chrząszcz brzmi w trzcinie i Szczebrzeszyn z tego słynie.",
		"Chociaż doświadczenie powtórzono wielokrotnie, nikt nie zdołał odtworzyć pierwotnego pomiaru.",
	}, rare: []string{"Kirgistan", "Konstantynopolitańczykowianeczka", "Źródło"}},
	{name: "Finnish", space: " ", sentences: []string{
		"Tiivistä seuraava raportti kolmeen lyhyeen kappaleeseen.",
		"Vaikka koe toistettiin useita kertoja, kukaan ei pystynyt toistamaan alkuperäistä mittausta.",
		"Lentokonesuihkuturbiinimoottoriapumekaanikko lähti kesälomalle mökille.",
	}, rare: []string{"Päiväntasaajan", "epäjärjestelmällisyydellänsäkään", "Kirgisia"}},
	{name: "Hungarian", space: " ", sentences: []string{
		"Kérlek, foglald össze a következő jelentést három rövid bekezdésben.",
		"Bár a kísérletet többször megismételték, senki sem tudta reprodukálni az eredeti mérést.",
	}, rare: []string{"megszentségteleníthetetlenségeskedéseitekért", "Egyenlítői-Guinea"}},
	{name: "Turkish", space: " ", sentences: []string{
		"Lütfen aşağıdaki raporu üç kısa paragrafta özetleyin.",
		"Deney birkaç kez tekrarlanmasına rağmen kimse ilk ölçümü yeniden elde edemedi.",
	}, rare: []string{"Çekoslovakyalılaştıramadıklarımızdan", "Kırgızistan"}},
	{name: "Vietnamese", space: " ", sentences: []string{
		"Vui lòng tóm tắt báo cáo sau đây trong ba đoạn văn ngắn.",
		"Mặc dù thí nghiệm đã được lặp lại nhiều lần, không ai có thể tái tạo phép đo ban đầu.",
	}, rare: []string{"Kyrgyzstan", "nghiêng", "Thượng"}},
	{name: "Yoruba", space: " ", sentences: []string{
		"Jọ̀wọ́ ṣe àkópọ̀ ìròyìn tó tẹ̀ lé e yìí ní ìpínrọ̀ kúkúrú mẹ́ta.",
		"Bí ó tilẹ̀ jẹ́ pé wọ́n tún ìdánwò náà ṣe lọ́pọ̀ ìgbà, kò sí ẹni tó rí èsì kan náà.",
	}, rare: []string{"Orílẹ̀-èdè", "Ẹ̀kúádọ̀"}},
	{name: "Russian", space: " ", sentences: []string{
		"Пожалуйста, кратко изложите следующий отчёт в трёх коротких абзацах.",
		"Хотя опыт повторяли несколько раз, никто не смог воспроизвести первоначальное измерение.",
		"Почему кошка весь день спит на тёплом подоконнике?",
	}, rare: []string{"Экваториальная", "превысокомногорассмотрительствующий", "Кыргызстан"}},
	{name: "Ukrainian", space: " ", sentences: []string{
		"Будь ласка, стисло викладіть наведений нижче звіт у трьох коротких абзацах.",
		"Хоча дослід повторювали кілька разів, ніхто не зміг відтворити початкове вимірювання.",
	}, rare: []string{"Киргизстан", "Екваторіальна", "їжджу"}},
	{name: "Kazakh", space: " ", sentences: []string{
		"Төмендегі есепті үш қысқа абзацта қорытындылап беріңізші.",
		"Тәжірибе бірнеше рет қайталанғанымен, бастапқы өлшемді ешкім қайта ала алмады.",
	}, rare: []string{"Қырғызстан", "ұлттандырылмағандықтан"}},
	{name: "Greek", space: " ", sentences: []string{
		"Παρακαλώ συνοψίστε την παρακάτω αναφορά σε τρεις σύντομες παραγράφους.",
		"Αν και το πείραμα επαναλήφθηκε αρκετές φορές, κανείς δεν μπόρεσε να αναπαράγει την αρχική μέτρηση.",
	}, rare: []string{"Κιργιστάν", "Ισημερινή", "ἐν", "ἀρχῇ"}},
	{name: "Arabic", space: " ", sentences: []string{
		"يرجى تلخيص التقرير التالي في ثلاث فقرات قصيرة.",
		"على الرغم من تكرار التجربة عدة مرات، لم يتمكن أحد من إعادة إنتاج القياس الأصلي.",
		"ما الفرق بين العملية والخيط في نظام التشغيل؟",
	}, rare: []string{"قيرغيزستان", "أفاستسقيناكموها", "بِسْمِ", "اللَّهِ"}},
	{name: "Persian", space: " ", sentences: []string{
		"لطفاً گزارش زیر را در سه بند کوتاه خلاصه کنید.",
		"اگرچه آزمایش چندین بار تکرار شد، هیچ‌کس نتوانست اندازه‌گیری اولیه را بازتولید کند.",
	}, rare: []string{"قرقیزستان", "می‌خواهم"}},
	{name: "Hebrew", space: " ", sentences: []string{
		"אנא סכם את הדוח הבא בשלוש פסקאות קצרות.",
		"אף שהניסוי חזר על עצמו מספר פעמים, איש לא הצליח לשחזר את המדידה המקורית.",
	}, rare: []string{"קירגיזסטן", "בְּרֵאשִׁית", "הַשָּׁמַיִם"}},
	{name: "Thai", space: "", sentences: []string{
		"กรุณาสรุปรายงานต่อไปนี้เป็นสามย่อหน้าสั้น ๆ",
		"แม้ว่าจะทำการทดลองซ้ำหลายครั้ง แต่ก็ไม่มีใครสามารถวัดค่าเดิมได้อีก",
		"กระบวนการกับเธรดต่างกันอย่างไร",
	}, rare: []string{"คีร์กีซสถาน", "กรุงเทพมหานครอมรรัตนโกสินทร์"}},
	{name: "Hindi", space: " ", sentences: []string{
		"कृपया निम्नलिखित रिपोर्ट का तीन छोटे अनुच्छेदों में सारांश दें।",
		"यद्यपि प्रयोग कई बार दोहराया गया, कोई भी मूल माप को पुनः प्राप्त नहीं कर सका।",
		"प्रक्रिया और थ्रेड में क्या अंतर है?",
	}, rare: []string{"किर्गिज़स्तान", "अन्तर्राष्ट्रीयकरण"}},
	{name: "Bengali", space: " ", sentences: []string{
		"অনুগ্রহ করে নিচের প্রতিবেদনটি তিনটি ছোট অনুচ্ছেদে সংক্ষেপ করুন।",
		"যদিও পরীক্ষাটি বহুবার পুনরাবৃত্তি করা হয়েছিল, কেউ মূল পরিমাপটি পুনরুত্পাদন করতে পারেনি।",
	}, rare: []string{"কিরগিজিস্তান", "আন্তর্জাতিকীকরণ"}},
	{name: "Tamil", space: " ", sentences: []string{
		"பின்வரும் அறிக்கையை மூன்று சிறிய பத்திகளில் சுருக்கமாகக் கூறவும்.",
		"சோதனை பலமுறை மீண்டும் செய்யப்பட்டாலும், அசல் அளவீட்டை யாராலும் மீண்டும் பெற முடியவில்லை.",
	}, rare: []string{"கிர்கிஸ்தான்", "சர்வதேசமயமாக்கல்"}},
	{name: "Georgian", space: " ", sentences: []string{
		"გთხოვთ, შეაჯამოთ შემდეგი ანგარიში სამ მოკლე აბზაცში.",
		"მიუხედავად იმისა, რომ ცდა რამდენჯერმე გაიმეორეს, თავდაპირველი გაზომვა ვერავინ გაიმეორა.",
	}, rare: []string{"ყირგიზეთი", "გადმოგვახტუნებინებდნენო"}},
	{name: "Armenian", space: " ", sentences: []string{
		"Խնդրում եմ ամփոփել հետևյալ զեկույցը երեք կարճ պարբերությամբ։",
		"Թեև փորձը կրկնվեց մի քանի անգամ, ոչ ոք չկարողացավ վերարտադրել սկզբնական չափումը։",
	}, rare: []string{"Ղրղզստան"}},
	{name: "Amharic", space: " ", sentences: []string{
		"እባክዎ የሚከተለውን ሪፖርት በሦስት አጭር አንቀጾች ጠቅለል አድርገው ያቅርቡ።",
		"ሙከራው ብዙ ጊዜ ቢደገምም የመጀመሪያውን ልኬት ማንም ሊያገኝ አልቻለም።",
	}, rare: []string{"ኪርጊስታን"}},
	{name: "Burmese", space: " ", sentences: []string{
		"ကျေးဇူးပြု၍ အောက်ပါအစီရင်ခံစာကို စာပိုဒ်တိုသုံးပိုဒ်ဖြင့် အကျဉ်းချုပ်ပေးပါ။",
	}, rare: []string{"ကာဂျစ္စတန်"}},
	{name: "Chinese", space: "", sentences: []string{
		"请用三个简短的段落总结以下报告。",
		"虽然实验重复了多次，但没有人能够再现最初的测量结果。",
		"进程和线程有什么区别？",
		"我们的模型在两个小时内完成了训练。",
	}, rare: []string{"吉爾吉斯", "魑魅魍魎", "饕餮", "龘靐齉"}},
	{name: "Traditional Chinese", space: "", sentences: []string{
		"請用三個簡短的段落總結以下報告。",
		"雖然實驗重複了多次，但沒有人能夠重現最初的測量結果。",
	}, rare: []string{"籲天", "鬱鬱蔥蔥"}},
	{name: "Japanese", space: "", sentences: []string{
		"次の報告書を三つの短い段落に要約してください。",
		"実験は何度も繰り返されたが、最初の測定値を再現できた者はいなかった。",
		"プロセスとスレッドの違いは何ですか？",
	}, rare: []string{"キルギスタン", "薔薇", "檸檬", "ﾊﾝｶｸ"}},
	{name: "Korean", space: " ", sentences: []string{
		"다음 보고서를 세 개의 짧은 단락으로 요약해 주세요.",
		"실험을 여러 번 반복했지만 아무도 처음의 측정값을 재현하지 못했습니다.",
		"프로세스와 스레드의 차이점은 무엇인가요?",
	}, rare: []string{"키르기스스탄", "괜찮습니다만", "뷁"}},
}
