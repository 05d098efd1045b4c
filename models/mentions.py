"""Where a reply names options, and what it says of them: states, denies, asks, or merely mentions."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

from data.records import LETTERS
from models.reply_text import ANSWER_MARK, plain_text

# Only the first and the last mentions of a text with more than these are looked at closely: a reply that names
# options thousands of times has no verdict in its middle.
MOST_MENTIONS = 1000
_LEFT, _RIGHT = 90, 70  # characters of context; every pattern below is applied to so much and no more

# --- letters ---------------------------------------------------------------------------------------------------------
# Python's \b sees no boundary between a Chinese character and a letter, so boundaries are spelt out. Latin and Greek
# and Cyrillic letters, digits, degrees, initials (D.C.), ranges (A-D) and apostrophes (C'est) make no token.
_WORD = "0-9A-Za-zÀ-ÖØ-öø-ɏͰ-ӿ"
_BEFORE_LETTER = rf"(?<![{_WORD}°&+'])(?<!\b[A-Za-z]\.)(?<!\bPh\.)(?<![A-Za-z]-)(?<!\b[Nn]/)"
_AFTER_LETTER = rf"(?![{_WORD}&+]|'[A-Za-z]|\.[A-Za-z](?![A-Za-z])|-(?:[a-z]|[A-Z](?![a-z])))"
_LETTER = re.compile(rf"{_BEFORE_LETTER}(?P<one>[A-Ha-d]){_AFTER_LETTER}")
_SEVERAL = re.compile(rf"(?<![{_WORD}])(?P<letters>[A-D]{{2,4}})(?![{_WORD}])")
_UNIT_BEFORE = re.compile(
    r"(?:选择?项|图片|图像|照片|图|\b(?:options?|choices?|images?|pictures?|photos?|photographs?|figures?|fig\.?|pics?|letter"
    r"|panel|dish))\s?(?:号|no\.?|number)?\s?#?\s?\(?\s?$",
    re.I,
)
_UNIT_AFTER = re.compile(r" ?(?:选?项|号?图片?|答案)")
_NOT_AN_OPTION_BEFORE = re.compile(
    r"(?:\b(?:vitamins?|provitamins?|vit\.?|plans?|grades?|hepatitis|class|category|groups?|teams?|section|appendix|tables?"
    r"|steps?|parts?|level|exhibit|points?|model|series|size|cup|studio|notes?|zone|gate|block|building|hall|unit|room|bus"
    r"|line|route|version|phase|stage|season|volume|column|row|axis|side|types?|schedule|omega|mr\.?|mrs\.?|dr\.?)\s?-?\s?"
    r"|维生素|维他命|维|计划|血型|等级|型号|附录|方案|\d ?|(?-i:\ban? ))$",
    re.I,
)
_NOT_AN_OPTION_AFTER = re.compile(
    r"(?:级|股|站|超(?!过)|位|座|区|栋|型|罩|计划|族|轮|大调|小调|语言|群)|\s?(?:vitamins?|complex|major|minor)\b", re.I
)
# What may follow the letter A in Latin text; before any other word it is the article.
_NEVER_AFTER_ARTICLE = re.compile(
    r" (?:is|isn't|was|are|or|and|nor|through|because|since|as|but|for|with|would|wouldn't|should|shouldn't|must"
    r"|may|might"
    r"|could|can|cannot|can't|does|doesn't|do|don't|seems?|appears?|looks?|shows?|remains|stands|wins|fits?"
    r"|best\s(?:fits?|match|matches|describes|suits|represents|answers)|matches|which|due|based|has|it|not|also"
    r"|from|if|to|vs|than|instead|rather|being|only)\b"
)
_LATIN_WORD = re.compile(r" (?![B-D]\b)[A-Za-zÀ-ɏ]")
_LINE_ENDS = re.compile(r"[ .。!)]*(?:$|\n)")
_WRAPPER = set('*`$"”’」』》〉】)]}')

# --- numbers, for options that are images ----------------------------------------------------------------------------
_NUMERALS = {
    **{char: place for place, char in enumerate("一二三四五六七八九十", 1)},
    **{"两": 2, "one": 1, "two": 2, "three": 3, "four": 4},
}
_ORDINALS = {
    word: place
    for place, words in enumerate(
        ("first 1st", "second 2nd", "third 3rd", "fourth 4th last", "fifth 5th", "sixth 6th"), 1
    )
    for word in words.split()
}
_NUMBER = re.compile(
    r"(?:(?<![如见])(?:图片|图像|照片|图|选项)|\b(?:pictures?|images?|photos?|figures?|fig\.?|pics?|options?|choices?|dish|number|no\.))[\s-]?"
    r"(?:no\.?|number|第|编号:?)?\s?#?\s?\(?(?P<digit>\d{1,2})\)?(?!\d|[.:]\d|\s?%|-\d)"
    r"|\b(?:pictures?|images?|photos?|figures?)\s(?:number\s)?(?P<spelt>one|two|three|four)\b"
    r"|(?<![如见])图片?(?P<figure>[一二三四五六七八九])(?![一二三四五六七八九十样般直些下起所])"
    r"|(?P<backwards>倒数)?第\s?(?P<ordinal>[一二三四五六七八九十]|\d{1,2})\s?(?:(?:张|幅|副)(?:图片?|照片|图像)?"
    r"|(?:个|道|项|份|盘|种|款|号)(?:图片?|照片|图像|菜品?|选项|食物|美食|答案|(?=[。,.;!?\s)]|$|是正确|最)))"
    r"|(?P<lastone>最后一)(?:张|幅|副)(?:图片?|照片|图像)?"
    r"|(?<!\d)(?P<number>\d{1,2}|[一二三四五六七八九])\s?号(?:图片?|照片|选项|(?=[。,.;!?\s)]|$))"
    r"|\b(?:(?P<fromend>second|2nd|third|3rd)(?:[\s-](?:to|from)(?:[\s-]the)?)?[\s-]last"
    r"|(?P<penultimate>penultimate|last\sbut\sone))"
    r"(?:\s(?:picture|image|photo|photograph|one|dish)\b)?"
    r"|\b(?P<word>first|second|third|fourth|fifth|sixth|last|1st|2nd|3rd|4th|5th|6th)\s"
    r"(?:picture|image|photo|photograph|figure|pic|option|choice|dish|one)\b"
    r"|(?:^|\bthe\s)(?P<alone>first|second|third|fourth|last|1st|2nd|3rd|4th)(?=\s?[.!。]?\s?$)",
    re.I,
)
_FROM_THE_RIGHT = re.compile(r"右(?!图)[^,。;.\n]{0,6}第|\bfrom\s(?:the\s)?(?:right|bottom|end)\b", re.I)
_DIGIT = re.compile(rf"(?<![{_WORD}.:/-])(?P<digit>[0-9])(?![{_WORD}/%]|[.:]\d|-\d)")

# --- what is said of a mention ---------------------------------------------------------------------------------------
_GAP = r"[^.。!?;,\n]"  # within a clause
# Words between a cue and the option it points at. Possessive: once read they are never given back, so nothing that a
# reply may hold makes these patterns slow.
_FILL = (
    r"(?:\s|[:(=-]|(?:the|an?|most|likely|probably|clearly|definitely|indeed|simply|actually|still|option|choice|letter"
    r"|number|image|picture|photo|dish|one|labell?ed|marked|as|it's|it|that|this|is|would|be|to|in|either|both|answer)\b"
    r"|选择|选项|答案|应该|应当|大概|的|是|为|选|应|就|该|在|了|第|图片|图|项|则|当|定|成)*+$"
)
_DENIED_BEFORE = re.compile(
    r"(?:不(?:是|选|为|应|会|太?可能|能|可以?|要|该|属于|包括|包含|符合|认为|觉得|建议|推荐)|(?:没有?|未)(?=选)|并非|而非|绝非|非|排除(?:了|掉)?|除(?:了|去|开|掉)?"
    r"|淘汰(?:了|掉)?"
    r"|剔除(?:了|掉)?|否定了?|去掉|放弃|勿|别|比|不同于|有别于|区别于"
    r"|(?:\b(?:not|never|cannot|nor|neither|exclud(?:e[sd]?|ing)|eliminat(?:e[sd]?|ing)|rul(?:e[sd]?|ing)\sout"
    r"|reject(?:s|ed|ing)?|discard(?:s|ed|ing)?|dismiss(?:es|ed|ing)?|except(?:\sfor)?|other\sthan|rather\sthan|instead\sof"
    r"|unlike(?:ly)?|than|without|against|avoid|least\s(?:likely|probable|suitable|appropriate|plausible|fitting"
    r"|relevant)|(?:any|every)(?:thing|where|\s?one)\sbut|(?:all|every)\s(?:\w{2,10}\s)?but|no\s?(?:one|body)"
    r"|no\slonger|(?<!no\s)(?<!without\s)(?<!out\sa\s)doubt|compared\s(?:to|with))|n't))"
    r"(?:\s|[(]|(?:the|an?|be|is|was|it's|its|it|that|this|to|option|options|choice|choices|answer|choose|select"
    r"|pick|think|would|will|should"
    r"|believe|say|go|with|for|correct|right|image|images|picture|pictures|photo|dish|likely|really|necessarily|as|from"
    r"|both|either|any|of|what|we|see|in)\b|选择|选项|答案|应该|可能|的|是|为|选|会|能|图片|图|第|了|掉|项)*+$",
    re.I,
)
_GLOSS = r"(?:\s?\([^()\n]{0,60}\))?"
_DENIED_AFTER = re.compile(
    rf"{_GLOSS}(?:\s?[)\]])?\s?(?:"
    r"[:-]?\s?(?:(?:选项|这张图|中的菜|的菜|的|都|均|也|则|显然|明显|肯定|就|并|皆|完全|可能|应该|可以|可|被|全|全都|似乎|好像|看来|看起来|看上去|首先|是|选项))*+"
    r"(?:不(?:同|对|正确|是(?!\s?(?:选项|图|\(|[A-D](?![A-Za-z])))|符合|合适|合|可能|适合|属于|行|应|会|准确|恰当|成立|满足|匹配|相符|像|太(?:可能|符合|合适|对|像))"
    r"|会?错|不(?:能|可以?|用|应该?|要|必)?(?:选|考虑|看)|不可以|不能(?=[,。.!]|\s?$)|无法成立|绝?无可能|没(?:有)?(?:可能|道理)|排除|并非|有误|无关|相比|相较"
    r"|[以之]外|(?:与|和|跟)[^,。;.\n]{1,8}?(?:不符|不一致|不同|无关|矛盾|不匹配|不相符))|[:-]?\s?[✗×]|[:-]\s?(?:no|false|incorrect|wrong"
    r"|not|eliminated|excluded|ruled\sout|rejected)\b|[.)]?\s?(?:no|false|incorrect|wrong)(?=\s?[.,;!)\n]|\s?$)"
    r"|\((?:incorrect|wrong|no|✗)\)"
    r"|(?:(?:is|are|was|were|can|could|would|should|do|does|did|must|may|might|seems?|looks?|appears?|will)\b)\s?"
    r"(?:(?:be|clearly|definitely|also|both|all|probably|likely|simply|obviously|certainly|most|therefore|thus)\s)*+"
    r"(?:not\b|incorrect|wrong|ruled\sout|eliminated|excluded|unlikely|less\b|out\b|false\b)"
    r"|(?:is|are|was|were|do|does|did|ca|could|would|should|wo)n't\b|cannot\b|fails?\b|has\snothing\sto|✗)",
    re.I,
)
_ASKED = re.compile(r"\s?\)?\s?(?:吗|呢|么|是什么|是啥|指什么)?\s?\?")
_ANSWER_CUE = re.compile(
    rf"(?:{ANSWER_MARK}"
    # answer is, answer: / answer to this question is / answer (
    rf"|(?<!possible )(?<!candidate )(?<!to )\banswers?\b(?!\s(?:choices|options|candidates))"
    rf"(?:{_GAP}{{0,60}}?\b(?:is|was|be|being)\b|[^.。!?;\n]{{0,40}}?[:=]|\s?->?|\s?[(])"
    r"|(?<!second )(?<!third )(?<!next )(?<!other )(?<!backup )(?<!each )(?<!every )(?<!alternative )"
    r"(?<!wrong )(?<!incorrect )"
    r"\b(?:option|choice|letter|pick|selection|selected|prediction|verdict|label|solution|match)\b\s?(?:is\b|[:=])"
    # the best choice is / most suitable one would be
    rf"|\b(?:correct|right|best|closest|optimal|ideal|proper|(?:most|more)\s\w{{2,20}})\b{_GAP}{{0,40}}?"
    r"(?:\b(?:is|was|be)\b|[:=])"
    # I would select, we choose, choosing
    r"|\b(?:select(?:s|ed|ing)?|cho(?:ose|oses|osing|se|sen)|pick(?:s|ed|ing)?|go(?:ing)?\s(?:with|for)|opt(?:ed|ing)?\sfor|vote\sfor"
    r"|(?:i'd|i'll|let's|would)\sgo|settle\son)\b"
    r"|(?:^|\n|\()\s?(?:选项|选择)\s?[:=]|\bans\s?[.:=]"
    rf"|(?:答案|正解)(?!选项){_GAP}{{0,16}}?(?:是|为|选|应|在|[:=])|(?:答案|正解)\s?\)?\s?[:(]|答\s?:|而应?该?是"
    r"|(?<![候备精人筛任])(?<!第[二三四])选(?!项)(?:(?!择?了)|(?<![\u3400-\u9fff]选)|(?<=[我终后以此就是只便]选))择?(?:的?(?:是|为|了|出|定|择))?"
    r"|[挑猜投]选?|勾选|归为|应(?:该|当)?(?:是|为|选|属于|归为)"
    rf"|(?:正确|最为?(?:合适|适合|符合|可能|佳|好|优|恰当|接近|匹配|准确|贴切|相符|像|合理|贴近)|符合|更可能|很可能|极可能){_GAP}{{0,14}}?"
    r"(?:是|为|应|属于|选|[:=])"
    rf"|(?:所以|因此|故而?|综上(?:所述)?|由此可[见知]){_GAP}{{0,30}}?(?:是|为|属于|选)"
    r")" + _FILL,
    re.I,
)
# "answer B", "答案B", and the word as a heading with the option on the next line.
_ANSWER_WORD = re.compile(
    r"(?:\banswer |(?:答案|正解) ?\)? ?"
    r"|(?:^|\n)\s?\(?(?:(?:the|my|final|correct|最终|正确|参考)\s?){0,3}(?:answer|答案)\s?\)?\s?\n)\(?$",
    re.I,
)
# These point at an option only where the clause ends with it: "so D", but not "so option D looks like soup".
_ENDING_CUE = re.compile(
    r"(?:\b(?:so|therefore|thus|hence|consequently|leav(?:es|ing)(?:\s(?:us|me|only))?(?:\swith)?|left\swith"
    r"|overall|conclusion|finally|ultimately|accordingly|summary|conclude|decision|result"
    r"|output|final|guess|assistant|namely|i\.e\.|say|(?:more|most)\slikely|probably|definitely|ans\.?)\s?(?:[,:-]|->|=>|is\b)*\s?"
    r"|\bit(?:'s|\sis|\smust\sbe|\shas\sto\sbe|\sshould\sbe|\swould\sbe|\swill\sbe)\s"
    r"|\b(?:think|believe|guess|feel|suspect|say|suggest|recommend|assume|conclude|lean(?:ing)?\stowards?)\b\s?"
    r"|(?:所以|因此|故|综上(?:所述)?|总之|可见|于是|那么|从而|因而|最终|最后|结论|智能助手|我认为|我觉得|我猜|认为|觉得|判断|推测|猜测|确定"
    r"|推断|倾向于?|即|也就是(?:说)?|就是|便是)\s?[,:]?\s?"
    r")" + _FILL,
    re.I,
)
# "B. Wait, no: C", 不对，是C
_CORRECTION_CUE = re.compile(
    r"(?:(?:(?<=[,.。;!?~\n-])|(?<=[,.。;!?~\n-]\s)|(?<=\s)(?=[哦啊噢呃哎嗯不错等]))"
    r"(?:(?:哦|啊|噢|呃|哎|嗯)?(?:不对?|错了?|等等|等一下|更正)|(?:no|nope|wait|sorry|actually|correction|scratch\sthat"
    r"|on\ssecond\sthoughts?"
    r"|i\smean|make\sthat|or\srather)\b)(?:\s?[,:.!;-]{1,4}\s?|(?<=actually)\s|(?<=sorry)\s|(?<=mean)\s|(?<=that)\s"
    r"|(?<=rather)\s))++" + _FILL,
    re.I,
)
# "the safe choice is the salad in Option (C)"
_CUE_AND_PLACE = re.compile(
    rf"\b(?:answer|choice|option|pick|one|dish)\b{_GAP}{{0,40}}?\b(?:is|would\sbe)\b{_GAP}{{2,60}}?\b(?:in|from"
    rf"|of)\s(?:the\s)?$",
    re.I,
)
# "the dish in the picture is (a typical) Hunan dish": not yet an answer, but more than the names around it
_IDENTIFIED_CUE = re.compile(
    r"(?:(?:图中|图片|照片|画面|这道|这是|这个|该|此|它|本)[^。.!?;,\n]{0,16}?(?:是|为|属于|来自|源自|起源于|源于|出自)(?:一道|一种|典型的?|经典的?|传统的?|著名的?"
    r"|中国的?)*+"
    r"|\b(?:this|the|it)\b[^。.!?;,\n]{0,50}?\b(?:is|belongs\sto|comes\sfrom|originate[sd]\s(?:from|in)"
    r"|is\spart\sof)\s(?:(?:from|an?|the|typical|classic"
    r"|traditional|famous|popular|indeed|actually|clearly|most\slikely|likely|part\sof)\s)*+)$",
    re.I,
)
_BUT = re.compile(
    r"(?:但是?|不过|然而|而|相比之下|其中|只有|\b(?:but|while|whereas|only|however,?)\s?(?:the\s)?)\s?$", re.I
)
_MORE = re.compile(
    r"\s?(?:中的菜?|的菜?)?(?:更|最)(?!后|初|近)|\sis\s(?:(?:likely|probably|clearly|definitely|perhaps)\s)?(?:the\s)?(?:more"
    r"|most|\w{2,12}(?:ier|iest))\b",
    re.I,
)
_CONCLUSION_CUE = re.compile(
    r"(?:\b(?:therefore|thus|so|hence|consequently)\b[^.。!?;\n]{0,70}?\b(?:is|be|to|as|in)\s)" + _FILL, re.I
)
# "The mildest is B" answers where it is the only superlative of the reply.
_SUPERLATIVE = (
    rf"(?:最(?!后|初|近|早|终)[^.。!?;,\nA-Z]{{1,8}}?的{_GAP}{{0,6}}?(?:是|为|:)"
    rf"|\b(?:least\s(?!likely|prob|suit|appr|plaus|fitt|relev|poss)\w{{2,20}}|\w{{2,12}}iest|mildest|lightest"
    rf"|hottest|sweetest|darkest)\b{_GAP}{{0,40}}?\bis\b)"
)
_ANY_SUPERLATIVE = re.compile(_SUPERLATIVE, re.I)
_SUPERLATIVE_CUE = re.compile(_SUPERLATIVE + _FILL, re.I)
_ENDS = re.compile(
    r"\s?(?:$|[)\].,;:!?。、\n✓(]|-\s|(?:because|since|as|for|based|due|given|with|instead|rather|not|and|but|which|after"
    r"|from|according)\b|因为|由于|的?(?=[。,.!;\s)]|$)|这|吧|了|啊|呢|而)",
    re.I,
)
# "the closest distractor is B", "a common mistake is choosing B", "let's consider B first": no answer
_TRAP = re.compile(
    r"(?:\b(?:distractors?|mistakes?|traps?|wrong|incorrect|errors?|misconception|runner[\s-]?up|second[\s-]best"
    r"|alternative(?:ly)?|plausible\sbut)\b"
    r"(?:(?!\b(?:so|thus|therefore|hence|but|and)\b)[^.。!?;,\n])*|(?:易错|误选|错选|误以为|干扰项|陷阱|其次|备选)[^.。!?;,\n]*)\Z",
    re.I,
)
_LOOKED_AT = re.compile(
    r"(?:\b(?:consider|(?:start|begin)(?:ing)?\swith|as\sfor|(?:what|how)\sabout|let\sus\s(?:look\sat|examine"
    r"|analy[sz]e)"
    r"|let's\s(?:look\sat|examine|analy[sz]e))\s(?:the\s)?|先来?看|至于)$",
    re.I,
)
_ONLY_BEFORE = re.compile(r"(?:\bonly\s(?:the\s)?|只有|唯有|仅有?)$", re.I)
_MOST_AT_THE_END = re.compile(
    r"\s?(?:中的)?(?:菜品?|的)?(?:看起来|看上去|应该)?最(?!像|可能|接近)[^,。;.!\n]{1,3}[。.!]?|\s(?:is|looks"
    r"|seems)\s(?:the\s)?(?:most\s\w{2,14}|\w{2,12}iest|mildest|lightest)[.!]?"
)
_ONLY_CUE = re.compile(r"(?:只(?:能|有|可以?|剩下?)|唯有|仅有|仅剩)(?:吃|选择?|是)?$")
_WEAK_CUE = re.compile(
    r"(?:\b(?:could|might|may|possibly|perhaps|maybe|like|similar\sto|resembles?)\b"
    r"|(?<![最很更极])(?<!接近的)(?<!合适的)(?<!答案)可能|也许|或许|看起来|类似)" + _FILL,
    re.I,
)
_VERDICT_AFTER = re.compile(
    rf"{_GLOSS}\s?(?:[:,-]\s?)?(?:"
    r"(?:选项|这张图?|这道菜|这一?项|中的菜品?|的菜品?|才|就|都|均|显然|应该|应|看起来|看上去|似乎|无疑|明显|确实|则|最终|将|会|算|是|为|属于"
    r"|唯一|一个|本题|该题|此题|题目)*+"
    r"(?:正确(?!率)|对(?:的|了)?(?=[。,.!;\s]|$)|最为?(?:合适|适合|符合|恰当|贴切|相符|合理)|(?:最为?|更为?|较为?)(?:合适|符合|可能|好|佳|优|接近|匹配|准确|恰当|贴切)"
    r"(?=的?(?:答案|选项|选择|[。,.!;\s]|$)|题|描述|要求|问题|条件)|答案|正解|✓|为准)"
    r"|(?:is|are|was|would\sbe|should\sbe|must\sbe|seems(?:\sto\sbe)?|appears(?:\sto\sbe)?|looks|being|will\sbe)\s"
    r"(?:(?:clearly|definitely|probably|indeed|therefore|thus|the|our|my|likely(?=\sthe)|both|all|only|single|final|overall|obviously"
    r"|an?(?=\s(?:better|correct|right)))\s)*+"
    r"(?:correct|right|best(?![\s-]known)|better\s(?:choice|answer|option|match|fit)|accurate|answer|closest"
    r"|(?:most|more)\s(?:suitable|appropriate|probable|accurate|fitting|correct|plausible|reasonable)"
    r"|(?:most|more)\slikely(?=\s(?:answer|choice|option|candidate|match|one|correct|than|the\s(?:correct|answer|right))|\s?[.,!;]|\s?$))"
    r"|(?:best|most\sclosely|clearly)\s(?:fits?|match(?:es)?|describes?|represents?|answers?|suits?)\b"
    r"|fits?\sbest|matches\sbest|it\sis\b(?=\s?(?:[.!]|$))|✓|(?:is\s)?correct\b)",
    re.I,
)
_TICK_OR_CROSS = re.compile(r"\s?[✓✗×]")
_TICK_OR_LETTER = re.compile(rf"(?P<tick>[✓✗×])|(?<![{_WORD}])[A-D](?![{_WORD}])")
_LEADING_TICK = re.compile(r"(?P<new>^|\n)?(?:(?P<tick>✓)|[✗×]) ?\(?\Z")
# Words that turn a clause round, and those that only look like it. A letter or a text that is merely mentioned in such
# a clause is no answer: there are more ways to deny than can be listed.
_NO_NEGATION = (
    r"不[仅但过难愧错少管论敢二]|不得不|不用说|不知道|不确定|不清楚|不一样|不可或缺|不可缺少|不外乎|毫?无疑|无论|无误|没错|没问题|没有?疑问|非常|[特区分级]别|别具"
    r"|差不多|排除法|非.莫属|非.不可|(?:\bno|\bwithout\s(?:a\s)?)\s?doubt\b|\bnot\sonly\b|\bby\s(?:process\sof\s)?elimination\b"
    r"|\bnothing\sbut\b|\bnot\s(?:\w+\s)?(?:sure|certain)\b"
)
_NEGATION = re.compile(
    rf"(?P<none>{_NO_NEGATION})|[不没无非未错否别勿莫忌✗×]|排除|除[了去外非]|除$|以外|之外|忽略|跳过|干扰项|陷阱|区别"
    r"|\b(?:not|non|no|never|none|neither|nor|cannot|without|hardly|rarely|seldom|barely|unlikely|wrong|incorrect"
    r"|false|fail(?:s|ed)?|eliminat\w*"
    r"|exclud\w*|skip|ignore|drop|remove|forget|cross(?:ed)?\sout|reject\w*|dismiss\w*|except|different\sfrom"
    r"|far\sfrom|unlike|nothing|nowhere"
    r"|(?:every|any|all)\w*\s(?:\w+\s)?but)\b|n't\b",
    re.I,
)
# Of whom or what a question speaks: 对花生过敏的人不能吃, someone who does not eat pork, the dish without meat is.
_RELATIVE = re.compile(
    r"不[能宜可]?再?[吃喝食碰]|(?:不(?!可能|正确|符合|合适|适合|恰当|对)|没有?|无)[^,。;\n]{1,12}的(?:菜品?|图片?|选项|那道)?(?=(?:是|为|就是|只有)\Z)"
    r"|\b(?:which|that|who|without)\b[^.。,;\n]*?(?=\b(?:is|are|would\sbe)\b[^.。,;\n]{0,20}\Z)|(?:\bcannot|\bnot"
    r"|n't)\s(?:eat|have|consume|tolerate|like)\b",
    re.I,
)
_DENIES_NEXT = re.compile(r"(?:\bnot|\bnor|不是|不选|非)\s?\Z", re.I)
_CLAUSE_ENDS = re.compile(
    r"[.。!?;,:\n]|而|但|且|并(?!非|不|没)|因为|所以|\b(?:and|but|because|since|so|thus|therefore|hence|which|although|though"
    r"|while)\b",
    re.I,
)
_TRUE_AFTER = re.compile(
    rf"{_GLOSS}\s?(?:[:.)-]?\s?(?:correct|right|yes|true|正确|对|✓)(?=\s?[.,;!)\n。]|\s?$)|\(\s?(?:correct|right|正确|✓)\s?\))",
    re.I,
)
_AMONG_BEFORE = re.compile(
    r"(?:\b(?:between|among|from|compar(?:e|ing))\s(?:options?\s|images?\s)?|从(?:选项|图)?|在(?:选项|图)?|对比|比较)\(?$",
    re.I,
)
_AMONG_AFTER = re.compile(r"\s?(?:这?[两三四几]?(?:个|张|道)?(?:选项|图|菜)?(?:之间|之中|当中|中|里|两者))")
_UNSURE = re.compile(
    r"(?:无法|难以|不能(?![吃喝食接])|没法|很难|不确定|不知道|不清楚|是否|能否|\b(?:(?:cannot|can't)(?!\s(?:eat|have|consume|drink|tolerate))"
    r"|couldn't|unable|not\s(?:sure|certain|clear)|unsure"
    r"|uncertain|unclear|don't\sknow|whether|hard\sto|difficult\sto|impossible\sto))(?:(?!\bbut\b|但|\bso\b)[^.。!?;,\n])*$",
    re.I,
)
_UNSURE_AFTER = re.compile(
    r"\s?(?:is|are)\s(?:unclear|uncertain|unknown|not\s(?:clear|certain|sure))|(?:都|也)?(?:不确定|无法确定|存疑|待定)",
    re.I,
)
_NOT_FINAL = re.compile(
    r"(?:(?:一开始|起初|最初|原本|乍看|初步|以为|\bat\sfirst|\binitially|\boriginally|\bfirst\s(?:thought|instinct|guess"
    r"|impression))"
    r"(?:(?!后来|但|改|现在|其实|\bbut\b|\bhowever\b|\bthen\b|\bactually\b)[^.。!?;\n])*"
    r"|(?:有人|有些人|有的人|很多人|不少人|许多人|大家"
    r"|\b(?:some(?:one|body)?|many|most|others?|people)\s(?:people\s)?(?:may|might|would|could|thinks?|thought"
    r"|says?|said|believes?)\b|\byou\s(?:might|may|could|would)\s(?:think|say))"
    r"(?:(?!后来|但|我|其实|\bbut\b|\bhowever\b|\bi\b|\bactually\b)[^.。!?;\n])*)$",
    re.I,
)
_CONDITION = (
    r"(?:\b(?:if|suppose|supposing|assuming|unless)\b(?!\s(?:(?:i|we|you)\s)?(?:had|have|must|need|forced|am|look"
    r"|see|consider|examine|compare|recall|remember)\b|\si'm\b)"
    r"|如果(?!从|必须|一定|非要|让我|要选|只能|要我|根据|我?没有?[看记猜弄搞]错)|假如|假设|倘若|若是|若(?=[^干])|(?<![主需只])要是)"
)
_IF = re.compile(_CONDITION + r"(?:(?![则就][^,.。!?;\n]*,)[^.。!?;\n])*$", re.I)
_IF_CLAUSE = re.compile(_CONDITION + r"[^.。!?;,\n]*$", re.I)
_IF_AFTER = re.compile(r"[^.。!?;,\n]{0,40}?(?:\bif\b(?!\si\s(?:had|have|must))|\bunless\b|\bonly\swhen\b|的话)", re.I)
_ONE_OF_TWO = re.compile(r"(?:不是|非)[^。,;\n]{1,12}(?:就是|便是|即)\Z")
_EITHER_OR = re.compile(r"\s?[,]?\s?(?:就是|便是|即是?)\s?$")
_CONNECTOR = re.compile(
    r"\s?(?:,|选|(?<=\s):(?=\s?$)|(?:,\s?)?(?:(?:和|与|及|以及|或者?|还是|或是|、|/|&|\+|\band/or\b|\band\b|\bor\b|\bnor\b"
    r"|\bvs\.?|还有|跟|同|并)\s?"
    r"(?:选择?(?!项)|是|either\s|both\s|even\s|possibly\s|maybe\s)?|也不是))\s?$",
    re.I,
)
_COMMA = re.compile(r"\s?,\s?$")
_RANGE = re.compile(r"\s?(?:-|~|to|through|到|至)\s?$", re.I)
_LIST_ENDS = re.compile(r"\s?(?:$|[.。!?;\n)])")
_PLURAL = re.compile(r"(?:options|choices|images|pictures|photos|photographs|figures)\b", re.I)
_LIST_PREDICATE = re.compile(
    r"\s?(?:都|均|皆|全|也|则|等|不|可以?排除|错|are\b|were\b|can\b|do\b|don't|aren't|all\b|both\b)", re.I
)
_DIRECTLY_DENIED = re.compile(
    r"(?:(?:不|没|没有|无|很少|少有|鲜少|非|未|并不|并没有|毫不|毫无|从不|一点(?:也|都)不)"
    r"(?:太|怎么|够|像|含有?|算|需要?|用|用到|使用|加入?|放|包含|看到|见到|见|会|是|很|那么|这么|怎样|宜|能|可|该|应该?|适合|特别|十分|非常|任何|作为)*"
    r"|避免|禁止|切忌|忌|缺少|[看找见]不[到见]"
    r"|(?:\b(?:not|non|no|never|neither|hardly|rarely|seldom|barely|different|far|lack(?:s|ing)?|without|avoid(?:s"
    r"|ed|ing)?|free\sof|outside|excluding)|n't)"
    r"(?:\s(?:very|too|so|really|particularly|especially|quite|that|any|a|an|the|to|be|us(?:e|es|ed|ing)"
    r"|contain(?:s|ed|ing)?|includ(?:e|es|ed|ing)|have|feature"
    r"|show|see|seem|appear|look|taste|made|make|cooked|prepared|with|of|by|from|at|all|need|require))*)"
    r"[\s-]?$",
    re.I,
)
# A single Chinese character is an option only where it is no part of another word.
_HAN = "\u3400-\u9fff"
_BEFORE_HAN = rf"(?<![{_HAN}])|(?<=[是为选择于用以要需即偏项])"
_AFTER_HAN = rf"(?![{_HAN}])|(?=[的味法制])"
# What follows the hyphen of a compound that is another word; Sichuan-style is Sichuan.
_COMPOUND = r"(?!style|based|flavou?r|type|like|inspired|born|origin|cuisine|food|region|dish)[A-Za-z]"


@dataclass(frozen=True, slots=True)
class Mention:
    """One place where a text names an option."""

    options: tuple[int, ...]  # none: past the fourth option; several: AC, or a text that two options share
    core: tuple[int, int]  # the letter, the number or the option's text
    start: int  # with unit and bracket: "Option (", "图"
    end: int
    close: int  # with label punctuation and the option's text after it
    kind: str  # letter | lower | number | digit | several | text
    named: bool = False  # "Option B", "图B", "第二张": no doubt that an option is meant
    conflict: bool = False  # another option's text stands beside it
    gloss: int | None = None  # where an option's text begins of which this is the letter in brackets: 川菜 (B)


@dataclass(frozen=True, slots=True)
class Statement:
    """Mentions that are named together ("A and C"), and what is said of them."""

    mentions: tuple[Mention, ...]
    stance: str  # stated | denied | asked (also: whether, if it is …) | mentioned

    @property
    def options(self) -> set[int]:
        """The options named."""
        return {option for mention in self.mentions for option in mention.options}

    @property
    def is_outside(self) -> bool:
        """Whether it names something past the fourth option."""
        return any(not mention.options for mention in self.mentions)


def option_patterns(choices: Sequence[str]) -> list[tuple[re.Pattern[str], tuple[int, ...]]]:
    """A pattern for each distinct option text, longest first, with the options that have it.

    Before them come patterns of what names two options at once.
    """
    owners: dict[str, list[int]] = {}
    for i, choice in enumerate(choices):
        text = option_key(choice)
        if text:
            owners.setdefault(text, []).append(i)
    ordered = sorted(owners, key=lambda text: (-len(text), text))
    return [*_shared_endings(owners), *((_option_pattern(text), tuple(owners[text])) for text in ordered)]


def _shared_endings(owners: Mapping[str, Sequence[int]]) -> list[tuple[re.Pattern[str], tuple[int, ...]]]:
    """Patterns of what names two Chinese options at once by their common ending: 牛羊肉, 牛、羊肉."""
    found: list[tuple[re.Pattern[str], tuple[int, ...]]] = []
    for first, second in permutations([text for text in owners if re.fullmatch(f"[{_HAN}]{{2,4}}", text)], 2):
        if first[-1] == second[-1] and not any(first[:-1] + second in text for text in owners):
            found.append((re.compile(f"{first[:-1]}[、和与]?{second}"), (*owners[first], *owners[second])))
    return found


def option_key(text: str) -> str:
    """An option's or a whole reply's text as texts are compared: plain, case folded, without outer punctuation."""
    return re.sub(r"\s*([()])\s*", r"\1", plain_text(text).casefold()).strip(" \n.。,;:!、")


def text_mentions(text: str, patterns: Sequence[tuple[re.Pattern[str], tuple[int, ...]]]) -> list[Mention]:
    """Option texts in a plain text; one inside a longer one does not count."""
    taken = bytearray(len(text))
    found: list[Mention] = []
    for pattern, options in patterns:
        for match in pattern.finditer(text):
            start, end = match.span()
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                found.append(Mention(options, (start, end), start, end, end, "text"))
    return sorted(found, key=lambda mention: mention.start)


def option_mentions(
    text: str, original: str, origin: Sequence[int], texts: Sequence[Mention], *, image_options: bool
) -> list[Mention]:
    """Letters, and numbers where the options are images, that name an option.

    Args:
        text: plain.
        original: the reply.
        origin: of every character of `text` in `original`: tells an emphasised A from the article.
        texts: option texts in it; a letter inside one is no mention.
        image_options: whether numbers name options.
    """
    found: list[Mention] = []
    if image_options:
        for match in _NUMBER.finditer(text):
            place = _number(match)
            if place is not None and not _FROM_THE_RIGHT.search(text[max(0, match.start() - 12) : match.end() + 20]):
                options = (place - 1,) if 1 <= place <= len(LETTERS) else ()
                found.append(Mention(options, match.span(), *match.span(), match.end(), "number", named=True))
        for match in _DIGIT.finditer(text):
            place = int(match["digit"])
            options = (place - 1,) if 1 <= place <= len(LETTERS) else ()
            found.append(Mention(options, match.span(), *match.span(), match.end(), "digit"))
    for match in _SEVERAL.finditer(text):
        options = tuple(sorted({LETTERS.index(letter) for letter in match["letters"]}))
        if len(options) == len(match["letters"]):
            found.append(Mention(options, match.span(), *match.span(), match.end(), "several"))
    beginnings = {mention.start: mention for mention in texts}
    other = -1  # end of the last letter that names something else, such as a vitamin
    for match in _LETTER.finditer(text):
        joined = 0 <= match.start() - other <= 8 and _CONNECTOR.match(text[other : match.start()])
        mention = None if joined else _letter(text, original, origin, match, beginnings)
        if mention:
            found.append(mention)
        elif match["one"].isupper():
            other = match.end()
    found.sort(key=lambda mention: (mention.start, -mention.end))
    ends = {mention.end: mention for mention in texts}
    starts = [mention.start for mention in texts]
    kept: list[Mention] = []
    for mention in found:
        i = bisect_left(starts, mention.core[0] + 1) - 1
        if i >= 0 and texts[i].end >= mention.core[1] and texts[i].end - texts[i].start > 1:
            continue
        if kept and mention.start < kept[-1].end:
            continue
        kept.append(_closed(text, mention, beginnings, ends))
    return kept


def statements(text: str, mentions: Sequence[Mention]) -> list[Statement]:
    """What a plain text says of the options, in order.

    Mentions joined by "and", "or", commas and their like make one statement. In a long text only the statements at its
    two ends are judged; the others count as mentioned.
    """
    groups = _groups(text, mentions)
    out: list[Statement] = []
    foremost = _TICK_OR_LETTER.search(text)
    ticks_lead = bool(foremost and foremost["tick"])  # ☐ A ☑ B; else they follow: A × B ✓
    for i, group in enumerate(groups):
        judged = i < MOST_MENTIONS // 2 or i >= len(groups) - MOST_MENTIONS // 2
        stance = _stance(text, group, groups[i - 1][-1].end if i else 0, ticks_lead) if judged else "mentioned"
        out.append(Statement(tuple(group), stance))
    for i in range(1, len(out)):  # 不是A就是B: one of the two
        between = text[out[i - 1].mentions[-1].close : out[i].mentions[0].start]
        if out[i - 1].stance == "denied" and len(between) < 8 and _EITHER_OR.match(between):
            out[i - 1], out[i] = replace(out[i - 1], stance="mentioned"), replace(out[i], stance="mentioned")
    for i, statement in enumerate(out[:-2]):
        if statement.stance == "stated" and _begins_list(text, out[i : i + 3]):
            out[i] = replace(statement, stance="mentioned")
    return out


def is_label(text: str, mention: Mention) -> bool:
    """Whether a mention heads a piece of text, as the labels of a list do: at the start of a line or a sentence."""
    before = text[max(0, mention.start - 2) : mention.start].rstrip(" ")
    headed = not before or before[-1] in "\n.。;!?,:、)(" or text[mention.start - 1 : mention.start] == "\n"
    return headed or bool(re.match(r"\s?[.):、]", text[mention.core[1] : mention.core[1] + 2]))


def is_identified(text: str, mention: Mention) -> bool:
    """Whether a sentence says that the dish is, or is from, what the option's text names."""
    left = text[max(0, mention.start - _LEFT) : mention.start]
    cue = _IDENTIFIED_CUE.search(left) or _ENDING_CUE.search(left)
    cue = None if _ONE_OF_TWO.search(left) else cue
    return bool(cue and _ENDS.match(text[mention.close : mention.close + _RIGHT])) and not _WEAK_CUE.search(left)


def in_negative_clause(text: str, mention: Mention, after: int, until: int, right: int = _RIGHT) -> bool:
    """Whether the clause around a mention holds a word that turns it round.

    Args:
        text: plain.
        mention: in the text.
        after: where the mention before it ends.
        until: where the mention after it starts; what denies that one is not said of this one.
        right: characters after the mention to look at.
    """
    left = _RELATIVE.sub(" ", text[max(after, mention.start - _LEFT) : mention.start])
    end = min(until, mention.close + right)
    tail = text[mention.close : end]
    if end == until:
        tail = _DENIES_NEXT.sub("", tail)
    edges = [match.end() for match in _CLAUSE_ENDS.finditer(left)]
    edge = _CLAUSE_ENDS.search(tail, 1 if tail[:1] == ":" else 0)
    clause = left[edges[-1] if edges else 0 :] + " " + tail[: edge.start() if edge else len(tail)]
    return any(not match["none"] for match in _NEGATION.finditer(clause))


def is_singled_out(text: str, mention: Mention) -> bool:
    """Whether a mention is said to be the only one, or with the reply's last words the most, of something."""
    only = _ONLY_BEFORE.search(text[max(0, mention.start - 24) : mention.start])
    most = _MOST_AT_THE_END.fullmatch(text[mention.close : mention.close + _RIGHT]) and text.count("最") < 2
    return bool(only or most)


def is_cued(text: str, mention: Mention) -> bool:
    """Whether words that announce an answer lead to a mention."""
    return bool(_ANSWER_CUE.search(text[max(0, mention.start - _LEFT) : mention.start]))


def _begins_list(text: str, found: Sequence[Statement]) -> bool:
    """Whether three statements are the head of a list, A) … B) … C) …, such as "The answer choices: A) …" leads to."""
    return all(
        len(statement.mentions) == 1
        and statement.mentions[0].options == (i,)
        and statement.mentions[0].kind == "letter"
        and re.match(r"\s?[.):、]", text[statement.mentions[0].core[1] : statement.mentions[0].core[1] + 2])
        and text[max(0, statement.mentions[0].core[0] - 1)] != "("
        for i, statement in enumerate(found)
    )


def _option_pattern(text: str) -> re.Pattern[str]:
    if len(text) == 1 and re.match(f"[{_HAN}]", text):
        return re.compile(f"(?:{_BEFORE_HAN}){re.escape(text)}(?:{_AFTER_HAN})")
    pieces: list[str] = []
    for i, char in enumerate(text):
        if char.isspace():
            glued = not (text[i - 1].isascii() and text[i + 1 : i + 2].isascii())
            hyphen = text[i - 1].isalpha() and text[i + 1].isalpha()
            pieces.append(r"\s?" if glued else r"[\s-]" if hyphen else r"\s")
        elif char == "-" and text[i - 1 : i].isalpha() and text[i + 1 : i + 2].isalpha():
            pieces.append(r"[\s-]?")
        elif char in "()":
            pieces.append(rf"\s?{re.escape(char)}\s?" if i + 1 < len(text) else rf"\s?{re.escape(char)}")
        else:
            pieces.append(re.escape(char))
    body = "".join(pieces)
    body = body.removeprefix(r"\s?")
    # In a compound (pan-fried, semi-sweet) a word is another one.
    before = rf"(?<![{_WORD}])(?<![A-Za-z]{{2}}-)" if re.match(f"[{_WORD}]", text[0]) else ""
    if text[0].isdigit():
        before += r"(?<![\d][.,])"
    after = rf"(?![{_WORD}])(?!-{_COMPOUND})" if re.match(f"[{_WORD}]", text[-1]) else ""
    if text[-1].isdigit():
        after += r"(?![.,]\d)"
    return re.compile(before + body + after, re.I)


def _number(match: re.Match[str]) -> int | None:
    if match["lastone"]:
        return len(LETTERS)
    if match["penultimate"]:
        return len(LETTERS) - 1
    if match["fromend"]:
        return len(LETTERS) + 1 - _ORDINALS[match["fromend"].lower()]
    if match["word"] or match["alone"]:
        return _ORDINALS[(match["word"] or match["alone"]).lower()]
    said = match["digit"] or match["figure"] or match["ordinal"] or match["number"] or match["spelt"].lower()
    place = _NUMERALS.get(said) or (int(said) if said.isdigit() else None)
    return len(LETTERS) + 1 - place if match["backwards"] and place else place


def _letter(
    text: str, original: str, origin: Sequence[int], match: re.Match[str], beginnings: dict[int, Mention]
) -> Mention | None:
    """The mention around a letter token, or None where the token is an article, a vitamin, a grade, ..."""
    core_start, core_end = match.span("one")
    letter = match["one"]
    left = text[max(0, core_start - 24) : core_start]
    right = text[core_end : core_end + 24]
    unit = _UNIT_BEFORE.search(left)
    start = core_start - (len(left) - unit.start()) if unit else core_start
    if not unit and left.endswith("("):
        start -= 1
        unit_outside = _UNIT_BEFORE.search(left[:-1])
        if unit_outside:
            start -= len(left) - 1 - unit_outside.start()
    named = bool(unit)
    closing = re.match(r"\s?\)+", right)
    end = core_end + (closing.end() if closing else 0)
    after_unit = _UNIT_AFTER.match(right)
    if after_unit and not closing:
        end, named = core_end + after_unit.end(), True
    if letter.islower():
        if (
            letter == "a"
            and not (closing and left.endswith("("))
            and not (left.rstrip(" (").endswith((":", "是", "为", "选")) and _LINE_ENDS.match(right))
        ):
            return None
        return Mention((LETTERS.index(letter.upper()),), (core_start, core_end), start, end, end, "lower")
    if not unit:
        if _NOT_AN_OPTION_BEFORE.search(left) or _NOT_AN_OPTION_AFTER.match(right):
            return None
        option_follows = beginnings.get(core_end + 1) if right[:1] in " -" else None
        if right[:1] == "-" and right[1:2].isalpha() and right[1:2].isascii() and not option_follows:
            return None
        if letter == "A" and not closing and not _emphasised(original, origin, core_end - 1):
            own = option_follows if option_follows and option_follows.options == (0,) else None
            whole = own is not None and _ENDS.match(text[own.end : own.end + _RIGHT])
            if _LATIN_WORD.match(right) and not _NEVER_AFTER_ARTICLE.match(right) and not whole:
                return None
    options = (LETTERS.index(letter),) if letter in LETTERS else ()
    return Mention(options, (core_start, core_end), start, end, end, "letter", named)


def _emphasised(original: str, origin: Sequence[int], place: int) -> bool:
    """Whether a mark that closes an emphasis follows directly in the original: **A**, $A$, "A"."""
    return original[origin[place] + 1 : origin[place] + 2] in _WRAPPER and origin[place] + 1 < len(original)


def _closed(text: str, mention: Mention, beginnings: dict[int, Mention], ends: dict[int, Mention]) -> Mention:
    """The mention with the option's text that follows it, and whether another option's text stands there instead."""
    close, conflict = mention.end, False
    link = re.match(r"\s?[.:、,)-]?\s?\(?\s?", text[mention.end : mention.end + 6])
    gap = link.group() if link else ""
    for skipped in range(len(gap) + 1):
        follower = beginnings.get(mention.end + skipped)
        if not follower:
            continue
        own = bool(set(follower.options) & set(mention.options))
        apart = skipped or not text[mention.end - 1].isascii() or not text[follower.start].isascii()
        if apart and (own or "," not in gap[:skipped]):
            close, conflict = follower.end, not own and bool(mention.options)
            if text[close : close + 1] == ")" and "(" in gap[:skipped]:
                close += 1
        break
    if text[mention.start : mention.start + 1] == "(":
        before = ends.get(mention.start) or ends.get(mention.start - 1)
        if before and mention.options:
            conflict = conflict or not set(before.options) & set(mention.options)
            return replace(mention, close=close, conflict=conflict, gloss=before.start)
    return replace(mention, close=close, conflict=conflict)


def _groups(text: str, mentions: Sequence[Mention]) -> list[list[Mention]]:
    """Mentions joined by connectors; a comma joins only where the list then ends or something is said of all of it."""
    groups: list[list[Mention]] = []
    commas: list[set[int]] = []  # places in the group that follow a bare comma
    ranges: set[int] = set()
    for mention in mentions:
        if groups:
            last = groups[-1][-1]
            between = text[last.close : mention.start] if mention.start - last.close <= 24 else None
            if between is not None and _RANGE.fullmatch(between):
                ranges.add(len(groups) - 1)
                groups[-1].append(mention)
                continue
            if between is not None and _CONNECTOR.match(between):
                if _COMMA.match(between):
                    commas[-1].add(len(groups[-1]))
                groups[-1].append(mention)
                continue
        groups.append([mention])
        commas.append(set())
    out: list[list[Mention]] = []
    for i, group in enumerate(groups):
        if i in ranges:
            continue
        tail = text[group[-1].close : group[-1].close + _RIGHT]
        cuts = sorted(commas[i])
        if cuts and not _LIST_ENDS.match(tail) and not _PLURAL.match(text[group[0].start : group[0].core[0]]):
            left = text[max(0, group[0].start - _LEFT) : group[0].start]
            if not _LIST_PREDICATE.match(tail):
                out += _split(group, cuts)
                continue
            if (_ANSWER_CUE.search(left) or _ENDING_CUE.search(left)) and not _DENIED_BEFORE.search(left):
                out += _split(group, cuts[:1])  # "the answer is A, B and C are wrong"
                continue
        out.append(group)
    return out


def _split(group: list[Mention], cuts: Sequence[int]) -> list[list[Mention]]:
    edges = [0, *cuts, len(group)]
    return [group[a:b] for a, b in pairwise(edges)]


def _stance(text: str, group: Sequence[Mention], after: int, ticks_lead: bool) -> str:
    """What is said of a group; `after`: where the mention before it ends; `ticks_lead`: ✓ stands before labels."""
    first, last = group[0], group[-1]
    start = first.start if first.gloss is None else first.gloss
    left = text[max(0, start - _LEFT, after) : start]  # what was said of the option before is not said of this one
    right = text[last.close : last.close + _RIGHT]
    kind = first.kind
    tick = _LEADING_TICK.search(text[max(0, start - 4) : start])
    tick = tick if tick and (ticks_lead or (tick["new"] is not None and (tick["new"] or start < 4))) else None
    if _DENIED_BEFORE.search(left) or (tick and not tick["tick"]):
        return "denied"
    ticked_next = ticks_lead and bool(_TICK_OR_CROSS.match(right))
    if _DENIED_AFTER.match(right) and not ticked_next:
        return "denied"
    if kind == "text" and _DIRECTLY_DENIED.search(left[-24:]):
        return "denied"
    if _ASKED.match(right) or _UNSURE.search(text[max(0, start - _LEFT) : start]) or _UNSURE_AFTER.match(right):
        return "asked"
    ends = bool(_ENDS.match(right))
    cue = bool(_ANSWER_CUE.search(left) or _ANSWER_WORD.search(left))
    if _TRAP.search(left) or _LOOKED_AT.search(left):
        return "asked"
    if kind in ("digit", "lower"):
        stated = cue and ends
    elif kind == "several":
        stated = cue
    elif kind == "text":
        stated = (ends and (cue or bool(_CONCLUSION_CUE.search(left)))) or bool(_TEXT_VERDICT_AFTER.match(right))
    else:
        stated = cue or (ends and bool(_ENDING_CUE.search(left) or _CONCLUSION_CUE.search(left)))
        if not stated and ends and _SUPERLATIVE_CUE.search(left):
            stated = len(_ANY_SUPERLATIVE.findall(text[-20 * _LEFT :])) == 1
        stated = stated or bool(_VERDICT_AFTER.match(right)) or bool(_TRUE_AFTER.match(right))
        stated = (stated and not ticked_next) or bool(tick)
        if not stated and ends:
            begun = left if after or start > _LEFT else "\n" + left
            stated = bool(_CORRECTION_CUE.search(begun) or _ONLY_CUE.search(left))
            stated = stated or (first.named and bool(_CUE_AND_PLACE.search(left)))
        stated = stated or (first.named and bool(_BUT.search(left) and _MORE.match(right)))
    sentence = text[max(0, start - 160) : start]
    if _IF_AFTER.match(right) or _IF_CLAUSE.search(sentence):
        return "asked"
    if _NOT_FINAL.search(text[max(0, start - _LEFT) : start]):
        return "asked"
    if not stated or _WEAK_CUE.search(left):
        return "mentioned"
    if len(group) > 1 and (_AMONG_BEFORE.search(left) or _AMONG_AFTER.match(right)):
        return "mentioned"
    return "asked" if _IF.search(sentence) else "stated"


_TEXT_VERDICT_AFTER = re.compile(
    r"\s?(?:才|就|应该|显然)*+(?:是|为)(?:唯一|本题|该题|此题|最)?(?:的)?(?:正确(?:答案|选项|的)|答案|正解|最佳(?:答案|选项))"
    r"|\s?(?:is|would\sbe|must\sbe)\s(?:clearly\s|therefore\s|probably\s)?the\s(?:correct|right|best|most\slikely)?\s?(?:answer|option|choice)\b",
    re.I,
)
