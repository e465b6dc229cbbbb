"""Guess the language of a query by its common words, which are also those that it can lack.

Everything is in the form of tokens: folded, without accents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import Final

from hermes_sessions.text.english_words import STOP_WORDS
from hermes_sessions.text.tokenizer import words

ENGLISH: Final = "english"

# Common words of questions, by the name of the language's stemmer where there is one.
_COMMON: Final = {
    "german": """
        aber als am an auch auf aus bei beim bin bis bitte da das dass dein dem den der des die dir
        doch du ein eine einem einen einer es etwas für hab habe haben hat hatte hatten hattest hier
        ich ihr ihre im in ist ja kann können man mein meine mir mit nach nicht noch nur ob oder
        schon sein seine sich sie sind so über um und uns unser unsere vom von vor wann war waren
        warum was welche welchem welchen welcher welches wenn wer werden wie wieder wieviel will wir
        wird wo wohin wurde wurden zu zum zur""",
    "french": """
        à ai as au aux avait avec avez avons ce cela ces cet cette combien comment dans de des du
        elle elles en es est et été était être eu fait il ils j je l la le les leur lors lui m ma
        mais me mes mon n ne nos notre nous on ont ou où par pas pour pourquoi qu quand que quel
        quelle quelles quels qui quoi s sa se ses son sont sur t ta te tes ton tu un une va vos
        votre vous y""",
    "spanish": """
        a al algo ante como cómo con cuál cuáles cuando cuándo cuánto de del desde dónde donde
        el él ella ellos en era es esa ese eso esta está este esto fue fueron ha había hay he hemos
        hice hicimos hizo la las le les lo los me mi mis muy nos nosotros nuestra nuestro o para
        pero por porque qué que quién quien se ser si sobre su sus también te tenemos tiene tu un
        una uno usted y ya yo""",
    "portuguese": """
        a ao aos as até com como da das de dela dele do dos e é ela ele eles em era essa esse esta
        este eu foi foram há isso isto já lhe mas me meu minha na não nas no nos nós nossa nosso num
        numa o onde os ou para pela pelo por porque qual quais quando quanto que quem se sem ser seu
        sobre sua são também te tem temos tinha um uma você""",
    "italian": """
        a abbiamo ad ai al alla alle anche avete c che chi ci come con cosa cui da dal dalla dei del
        della delle di dove e è ed era gli ha hai hanno ho i il in io la le lei li lo lui ma mi mia
        mio ne nei nel nella noi non nostra nostro o per perché più qual quale quali quando quanto
        questa questo se sei si sia sono su sua suo sul sulla ti tra tu un una uno vi""",
    "dutch": """
        aan al als bij dan dat de deze die dit door een er ge geen had hadden hebben heb heeft hem
        het hier hij hoe hoeveel hun ik in is je kan maar me met mijn naar niet nog nu of om omdat
        ons onze ook op over te toen tot uit van voor waar waarom wanneer waren was wat we welk
        welke werd wie wij worden wordt ze zich zij zijn zo""",
    "swedish": """
        allt att av blev bli de dem den denna det detta dig din du då efter ej eller en ett för
        från ha hade han har hon hur i inte jag kan man med mig min mitt måste ni när någon något
        och om oss på sedan sig sin ska skulle som till under upp ut vad var varför vara vart vem vi
        vid vilka vilken vilket vår våra är över""",
    "norwegian": """
        alle at av ble bli da de deg dem den der det denne dette du eller en er et etter for fra ha
        hadde han har hun hva hvem hvilke hvilken hvilket hvor hvorfor hvordan i ikke jeg kan med
        meg men min mitt må noe noen når og også om opp oss over på seg ser sin skal skulle som til
        under ut var ved vi vår være""",
    "danish": """
        af alle at blev bliver da de dem den denne der deres det dette dig din du efter eller en er
        et for fra få har have havde han hun hvad hvem hvilke hvilken hvilket hvor hvordan hvorfor
        hvornår i ikke jeg kan man med mig min mit når og også om op os over på sig skal skulle som
        til ud under var ved vi vil vor være""",
    "finnish": """
        ei ja joka jos kanssa kuin kuinka kun kuka me mihin mikä millä milloin minkä missä mistä
        mitä mutta myös ne niin nyt oli olimme olemme oliko olla olen on ovat se sen siinä sitä tai
        tämä tässä vai voi meidän meillä minun""",
    "hungarian": """
        a az azt be csak de e egy el én és ez ezt fel ha hogy hogyan hol hová ki kell lesz le meg
        melyik mennyi mert mi miért mikor mit mivel nem ő s van volt voltak vagy már mint""",
    "polish": """
        a ale bo by był była było były czy co czemu dla do gdy gdzie i ich ile jak jaka jaki jakie
        jako je jego jej jest już kiedy kto które który która lub ma mam mamy mi mnie mój my na nam
        nas nasz nie o od on ona po pod przez przy się są skąd ten to tu w we z za ze że
        dlaczego""",
    "czech": """
        a aby ale bez bude by byl byla bylo byly co čem do jak jaká jaké jaký jako je jeho její jsem
        jsme jsou k kam kde kdo kdy která které který ma máme mi mne na nad náš ne o od on ona po
        pod pro proč před při s se si tak ten to u už v ve z za že""",
    "romanian": """
        a al ale am ar are as au ca care ce cel cine când cât cu cum da de din după ea el este eu e
        fi fost i în la le lor lui mai mea meu mi ne noi nostru nu o pe pentru prin s sa să se si și
        sunt un una unde unei unui va ve""",
    "turkish": """
        ama bir biz bize bizim bu bunu çok da daha de diye en gibi hangi her için ile ise ki kim mi
        mı mu mü nasıl ne neden nerede nereye niçin niye o olan olarak oldu onu sen siz şu ve veya
        ya zaman kadar""",
    "catalan": """
        a al als amb aquest aquesta com d de del dels el ella els em en era és es et ha han hem hi i
        l la les li m ma mes més n no nos o on per però perquè què quan quin quina s se si són un
        una va vam""",
    "indonesian": """
        ada adalah agar akan apa apakah atau bagaimana bahwa berapa dan dari dengan di dia dimana
        ini itu ke kami kapan kita kenapa mana mengapa oleh pada saya sebuah siapa sudah telah untuk
        yang""",
    "russian": """
        а без бы был была были было быть в вам вас во вот все вы где да для до его ее если есть еще
        же за и из или им их к как какая какие какой какую когда кого кому кто куда ли мне мы мой на
        над нам нас наш не него нее ней нет но ну о об он она они от откуда по под почему при про с
        сколько со так там то тогда ты у уже что чтобы чем эта эти это этот я""",
    "ukrainian": """
        а або але без би був була були було в ви від він вона вони вже де для до з за звідки і із її
        й його коли кого кому хто який яка яке які як ми мій на нам нас наш не ні о по при про та те
        ти то у це цей чи чому що щоб я є скільки""",
    "greek": """
        από για δεν εγώ είναι έχει ή η θα και κατά με μας μου να ο οι όταν ότι που πού πότε ποια
        ποιο ποιος πως πώς σε στα στη στην στις στο στον στους τα τη την της τι τις το τον του των
        ήταν γιατί""",
    "arabic": """
        أن أو أي أين إلى التي الذي إن ان او اي اين الى على عن في كان كانت كم كيف كنا لا لم لماذا لقد
        ما ماذا متى مع من هذا هذه هل هو هي هنا و قد تم أنا انا نحن""",
    "persian": """
        از است اگر این آن با بر برای به بود تا چرا چطور چه چند چگونه را شد شده در که کجا کدام کی ما
        من می و هم یا یک""",
    "hebrew": """
        אבל אם אני אנחנו את איך איפה איזה אילו אל או הוא היא היה היו הם זה זאת כי כמה כן לא למה לנו
        לי מה מי מתי על עם של שלנו שלי כבר רק גם""",
    "hindi": """
        और का की के को कब कहाँ कहां किस किसने कितना कितने कैसे कौन क्या क्यों था थी थे ने में मैं
        मेरा यह ये वह वे से है हैं हम हमने हमारा हो पर भी तो ही एक लिए""",
    "vietnamese": """
        ai bao các cái chúng cho có của để đã đâu đến đi đó được gì giờ hay khi là làm lúc mà mấy
        nào này nhiều như nhưng những ở ra sao ta tại thế thì tôi từ và vào về vì với""",
}


@cache
def _common_words() -> dict[str, frozenset[str]]:
    english = frozenset(STOP_WORDS)
    others = {name: frozenset(words(text)) for name, text in _COMMON.items()}
    return {ENGLISH: english} | others


def languages_of(tokens: Iterable[str]) -> tuple[str, ...]:
    """Return the languages that have most of their common words among the tokens of a query; none
    if there is no common word.
    """
    asked = list(tokens)
    counts = {
        name: sum(token in common for token in asked) for name, common in _common_words().items()
    }
    most = max(counts.values())
    return tuple(name for name, count in counts.items() if count == most) if most else ()


def common_words_of(languages: Collection[str]) -> frozenset[str]:
    """Return the common words of languages; those of English if there is none."""
    common = _common_words()
    if ENGLISH in languages or not languages:
        return common[ENGLISH]
    return frozenset().union(*(common[name] for name in languages))
