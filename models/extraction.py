"""Which option a reply names: an ordered cascade that never guesses, and the published rule that does."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from data.errors import InputError
from data.records import LETTERS
from models.mentions import (
    Mention,
    Statement,
    in_negative_clause,
    is_cued,
    is_identified,
    is_label,
    is_singled_out,
    option_key,
    option_mentions,
    option_patterns,
    statements,
    text_mentions,
)
from models.reply_text import View, drop_reasoning, normalise, plain, plain_text, squeezed

VERSION = 2  # raised whenever the answer read from some reply changes; reports carry it

REASONS = (
    *("prefill_letter", "declared", "lone_letter", "option_text", "only_letter"),  # an answer
    *("error", "empty", "unfinished_reasoning", "truncated", "refusal", "out_of_range", "ambiguous", "no_candidate"),
)

_CUT = ("length", "max_tokens", "max_output_tokens", "max_new_tokens", "model_length")
_MIN_ECHO = 8  # characters of a prompt that are no coincidence
_TAIL = 24
_SAID_OF_TEXT = 8  # characters after a Chinese option text that may deny it
_SAID_OF_LETTER = 70
_NEAR = 60  # labels at either end of a reply that tell whether it is a list
_TAKEN_BACK_WITHIN = 90  # characters after a mention
_BESIDE = 3  # characters between an option's text and a letter that goes with it
_DEPENDS = re.compile(
    r"\b(?:it|that|this|answer)\s(?:all\s)?depends\b|\bdepending\son\b|取决于|视情况|看情况|因[^。,]{1,6}而异", re.I
)
_BARE_LINE = re.compile(r"(?m)^[^\w\n]*(?:图|选项)?(?P<letter>[A-D])[^\w\n]*$")
_LETTERS_ONLY = re.compile(r"(?:[A-D][^\w]*)+")
_TAKEN_BACK = re.compile(
    r"(?:^|[\s.。!;,?-])(?:(?:哦|啊|噢)?,?(?:不对|错了)(?=\s?[,.。!;?]|\s|$)|不(?=[,。!])|wait(?=\s?[,.!-]|\s(?:no|a|let|that"
    r"|i)\b|$)|hold\son\b"
    r"|scratch\sthat|that(?:'s|\sis)\s(?:not\s(?:right|correct)|wrong|incorrect)|they\sare\swrong"
    r"|no(?=[,.!]\s?(?:wait|that|it|$)))"
    r"|(?:^|[.。!;?\n])\s?(?:等等|等一下)(?=[,.。!])",
    re.I,
)
_CONFIRMED = re.compile(r"没错|是对的|确认|正确|无误|\b(?:yes|correct|right|confirms?|indeed|stands|stick)\b", re.I)
_QUESTION_AND_ANSWER = re.compile(
    r"(?:^|(?<=[\n,.。;!])|(?<=[.!]\s))(?:q|question|问题?)\s?:[^\n]{0,400}?[\n?]\s?(?:a|ans|answer|答案?)\s?:\s?", re.I
)
_ANSWER_INITIAL = re.compile(r"a\s?:\s?(?=\(?[A-D]\)?(?:[).]|\s?$|\n))", re.I)
_NEXT_QUESTION = re.compile(
    r"(?:下一题|(?:问题|题目|问)\s?\d{0,3}\s?:|\b(?:question|q)\s?\d{0,3}\s?:|(?:\b(?:human|user)|用户)\s?:"
    r"|\n\s?\d{1,2}\s?[.、)]\s?[^\n?(]{2,120}(?:\?|\(\s?\)))",
    re.I,
)
_USER_TURN = re.compile(r"(?m)^ ?(?:human|user|用户)\s?:", re.I)
_QUESTION_TURN = re.compile(
    r"(?m)^ ?(?:(?:question|问题|题目|下一题|instruction)(?:\s?\d{1,3})?\s?:"
    r"|\d{1,2}\s?[.、)]\s?[^\n?(]{2,120}(?:\?"
    r"|\(\s?\))[^\n]{0,40}\n?\(?A\)?[.、:)\s])",
    re.I,
)
_MODEL_TURN = re.compile(r"(?:\bassistant|智能助手)\s?:", re.I)
_UNIT = r"(?:选项|图片?|\b(?:option|image|picture|photo|choice)\s?)?"
_JOINT = r"\s?(?:[,、;/]|\n)\s?|\s"
_FOUR_LABELS = re.compile(
    rf"{_UNIT}\(?(?<![0-9A-Za-z])A\)?(?P<joint>{_JOINT}){_UNIT}\(?B\)?(?P=joint){_UNIT}\(?C\)?"
    rf"(?:(?P=joint)|(?:{_JOINT})?(?:和|与|及|以及|或|或者|and|or)\s?){_UNIT}\(?D\)?(?![0-9A-Za-z])",
    re.I,
)
_WHOLE = re.compile(
    r"[^\w+#&%✗×]*(?:选项|图片|图|答案|option|choice|image|picture"
    r"|photo)?[^\w+#&%✗×]*(?P<letter>[A-Za-z])[^\w+#&%✗×]*(?:选项|项|图片|图)?[^\w+#&%✗×]*",
    re.I,
)
_WHOLE_NUMBER = re.compile(r"[\W_]*(?P<digit>\d)[\W_]*(?:号)?[\W_]*")
_AFTER_PREFILL = re.compile(r"\s?(?:$|[^\w\s]|[\u3400-\u9fff\u3040-\u30ff])|\n")
_AFTER_NUMBER = re.compile(r"\s?(?:$|[^\w\s]|号)|\n")
_NUMERAL = re.compile(r"(?P<numeral>[一二三四五六七八九])(?=$|[^\w]|号|\n)")
_EXPLAINED = re.compile(
    r"解[释析]|说明|理由|分析|原因|\b(?:explanation|reason(?:ing|s)?|rationale|because|why)\b", re.I
)
_IN_DOUBT = re.compile(r"\s?\)?\s?吗")
_AFTER_TEXT = re.compile(r"\s?(?:\)|[.。,;\n]|$)")
_AFTER_LONE = re.compile(r"\s?(?:$|[).,:;!?。、-])|\n")
_REST_IS_PUNCTUATION = re.compile(r"[\s).,:;!?。、~✓-]*$")
_NOTHING_BEFORE = re.compile(r"(?:^|[\n.。!?;:]\s?|->\s?|=>\s?|\s-\s?)$")
_REFUSAL = re.compile(
    r"(?<!其他)(?<!其余)(?<!另外)(?:(?:以上|上述|这些|四个|所有|给出的|提供的)?(?:选项|答案|图片|菜品?)?)"
    r"(?<!其他选项)(?<!其余选项)(?<!其他三个)(?<!其余三个)(?<!另外三个)(?<!其他三项)(?<!其余三项)"
    r"(?:都不(?:是|对|正确|符合|属于|合适|准确)|均不(?:是|正确|符合|属于|对)|皆不|皆非|都没有|都错)"
    r"|(?:无法|不能|难以|没法|无从|不足以|很难|未能)(?:\w{0,6}?)(?:判断|确定|确认|识别|回答|得知|得出|看出|看到|看清|辨别|辨认|分辨|选择|给出|提供|查看|知道|断定|解答|答)"
    r"|不知道|不清楚|不确定|说不准|抱歉|对不起|信息不足|没有(?:足够|提供|给出|看到|一个|任何|明确|正确|合适|符合|对应|匹配|相关|答案|选项)"
    r"|(?:选项|图片|图)(?:中|里|之中)?(?:都|均|并|也)?没有(?![^,。;\n]{1,12}的(?:菜品?|图片?)?(?:是|为|只有))|以上皆非|均无"
    r"|^none\W*$|\bnone\s(?:of|is|are)\b|\bneither\sof\b"
    r"|\b(?:cannot|can't|can\snot|could\snot|couldn't|unable\sto|not\sable\sto|impossible\sto|difficult\sto|hard\sto|not\spossible\sto|not\sclear)"
    r"(?:\s\w+){0,2}?\s?(?:determine|identify|tell|say|answer|decide|provide|choose|select|assist|help|see|view|confirm|ascertain|know|be\s(?:certain|sure)"
    r"|which|what|whether|be\sdetermined|be\sidentified|be\sanswered)\b"
    r"|\bno\s(?:correct|right|suitable|matching|clear|definitive|appropriate)\s(?:answer|option|choice|match)"
    r"|\b(?:not\senough|insufficient|not\ssufficient)\s(?:information|context|detail)"
    r"|\b(?:i'm|i\sam|sorry,?\si'm)\s(?:sorry|not\ssure|unsure|not\scertain|uncertain|unable)|\bsorry\b|\b(?:don't|do\snot|didn't)\s(?:know|have\senough)"
    r"|\bas\san\sai\b|\bdoes(?:n't|\snot)\s(?:show|provide|match|contain)\sany\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was read from one reply."""

    answer: int | None  # place of the option as shown, A is 0; None: no answer may be given
    stage: str  # status | reasoning | echo | prefill | declared | lone_letter | option_text | only_letter | none
    reason: str  # one of REASONS
    span: tuple[int, int] | None  # of the letter, number or option text in the reply
    flags: tuple[str, ...] = ()  # echo_removed | next_turn_removed | conflict | contradicted | truncated


@dataclass(frozen=True, slots=True)
class _Options:
    patterns: list[tuple[re.Pattern[str], tuple[int, ...]]]
    owners: dict[str, tuple[int, ...]]
    block: re.Pattern[str] | None  # the four options listed with their letters
    are_images: bool


@dataclass(slots=True)
class _Reading:
    """A reply with all that names an option in it."""

    view: View
    texts: list[Mention]
    marks: list[Statement]  # letters and numbers
    words: list[Statement]  # option texts
    cut: bool = False  # the reply ended for its length
    listed: bool = False  # a bare list of the options was taken out
    flags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Finding:
    stage: str
    reason: str
    mention: Mention | None = None
    answer: int | None = None


def extract(
    response: str | None,
    choices: Sequence[str],
    *,
    image_options: bool,
    opening: str = "",
    prompt: str = "",
    finish_reason: str | None = None,
) -> Extraction:
    """Read a reply's answer by ordered stages; the first that yields exactly one option decides, and none guesses.

    Normalise (NFKC), drop reasoning blocks, drop echoes, then: the letter that continues the prompt's opening; the
    last explicit statement; a letter alone at the start or the end; an option's text; the only letter there is. A
    denied letter or text is no answer. Where letter and text contradict each other the letter wins, flagged.

    Args:
        response: the reply; None where there was none, which is an error and no answer.
        choices: the option texts in the order shown; empty where the options are images.
        image_options: the options are the four images: numbers (图2, Picture 2, 第二张) name them, counted from 1.
        opening: what the prompt ended with, right before the letter: 图 or （ or (.
        prompt: the prompt's text, to recognise where a reply repeats it.
        finish_reason: as the backend gives it; `length` tells a cut reply.
    """
    if response is None:
        return Extraction(None, "status", "error", None)
    cut = (finish_reason or "").lower() in _CUT
    flags = ("truncated",) if cut else ()
    view = normalise(response)
    if not view.text.strip():
        return Extraction(None, "status", "empty", None, flags)
    view, unfinished = drop_reasoning(view)
    if unfinished:
        return Extraction(None, "reasoning", "truncated" if cut else "unfinished_reasoning", None, flags)
    view = plain(view)
    if not view.text:
        return Extraction(None, "reasoning", "truncated" if cut else "empty", None, flags)
    options = _options(() if image_options else tuple(choices), image_options)
    reading = _without_echo(view, response, options, opening, prompt, cut)
    flags += tuple(reading.flags)
    if not reading.view.text:
        return Extraction(None, "echo", "ambiguous" if reading.listed else "no_candidate", None, flags)
    finding = (
        _letter_stages(reading, options, opening) or _option_text(reading, options) or _only_letter(reading, options)
    )
    if finding is None:
        return Extraction(None, "none", _why_not(reading), None, flags)
    mention = finding.mention
    if mention and mention.conflict:
        flags += ("conflict",)
    if finding.stage == "prefill" and any(s.stance == "stated" and s.options - {finding.answer} for s in reading.marks):
        flags += ("contradicted",)
    span = reading.view.original(*mention.core) if mention and finding.answer is not None else None
    return Extraction(finding.answer, finding.stage, finding.reason, span, flags)


def first_letter_random(
    response: str,
    *,
    seed: int,
    letters: str = LETTERS,
    after_assistant: bool = False,
    after: str = "",
    reseed: bool = False,
    rng: random.Random | None = None,
) -> tuple[int, bool]:
    """The published rule: the first capital letter of A to D anywhere in the reply, else a random option.

    For comparison with published figures only. The guesses make a score vary between runs of the scorer, so one
    seeded generator should be passed for all replies of a run.

    Args:
        response: the reply, reasoning and echo included.
        seed: of the generator where `rng` is not given.
        letters: searched for; the whole alphabet is the variant in which `Option` is found as O, and so guessed.
        after_assistant: read only what follows the last `Assistant:` (Idefics2, Mantis).
        after: read only what follows the last occurrence of this piece of the prompt (Qwen-VL, TextQA).
        reseed: draw with a fresh generator of seed 42 for each reply (Phi-3-vision, TextQA): the guess is always A.
        rng: generator shared by the replies of a run.

    Returns:
        The option from 0, and whether it was guessed.
    """
    if after_assistant:
        response = response.rpartition("Assistant:")[2]
    if after:
        response = response.rpartition(after)[2]
    found = next((char for char in response if char in letters), None)
    if found is not None and found in LETTERS:
        return LETTERS.index(found), False
    return _draw(seed, reseed, rng).randint(0, len(LETTERS) - 1), True


def bracketed_letter_random(response: str, *, seed: int, rng: random.Random | None = None) -> tuple[int, bool]:
    """The published GPT-4o rule: (X), （X）, X) or X）; one of them at random where there are several, else any option.

    Returns:
        The option from 0, and whether chance decided.
    """
    found = re.findall(r"([A-D])[)）]", response)
    draw = _draw(seed, False, rng)
    if not found:
        return draw.randint(0, len(LETTERS) - 1), True
    return LETTERS.index(found[0] if len(found) == 1 else draw.choice(found)), len(set(found)) > 1


def _draw(seed: int, reseed: bool, rng: random.Random | None) -> random.Random:
    if reseed:
        return random.Random(42)
    return rng if rng is not None else random.Random(seed)


@lru_cache(maxsize=1024)
def _options(choices: tuple[str, ...], are_images: bool) -> _Options:
    if not are_images and len(choices) != len(LETTERS):
        raise InputError(f"extraction: {len(choices)} options where {len(LETTERS)} are shown; give the texts in order")
    patterns = option_patterns(choices)
    keys = [option_key(choice) for choice in choices]
    owners = {key: tuple(i for i, other in enumerate(keys) if other == key) for key in keys if key}
    block = None
    if keys and all(keys):
        bodies = {place: pattern.pattern for pattern, places in patterns for place in places}  # its own is the last
        lines = (
            rf"{_UNIT}\(?\s?(?<![0-9A-Za-z]){LETTERS[i]}\s?[).:、,-]{{0,2}}\s?(?:{bodies[i]})"
            for i in range(len(LETTERS))
        )
        block = re.compile(r"[\s,;.。、/)(]{0,4}".join(lines) + r"[,;.。、)]?", re.I)
    return _Options(patterns, owners, block, are_images)


def _read(view: View, response: str, options: _Options) -> _Reading:
    texts = text_mentions(view.text, options.patterns)
    marks = option_mentions(view.text, response, view.origin, texts, image_options=options.are_images)
    return _Reading(view, texts, statements(view.text, marks), statements(view.text, texts))


def _without_echo(view: View, response: str, options: _Options, opening: str, prompt: str, cut: bool) -> _Reading:
    """The reply without the prompt, without the list of options, and without the turns it made up after its own."""
    flags: list[str] = []

    def read(part: View) -> _Reading:
        return _read(_stripped(part), response, options)

    elsewhere, start = _find_prompt(view.text, prompt)
    if elsewhere and _begins_with_answer(read(view.part(0, elsewhere)), options, opening):
        view, start = _stripped(view.part(0, elsewhere)), 0  # it answers, then repeats the prompt
        flags.append("next_turn_removed")
    if not start and _USER_TURN.match(view.text):
        turn = _MODEL_TURN.search(view.text)
        start = turn.end() if turn else 0
    if start:
        flags.append("echo_removed")
        view = _stripped(view.part(start))
    turn = _MODEL_TURN.match(view.text)
    if turn:
        view = _stripped(view.part(turn.end()))
    turn = _QUESTION_AND_ANSWER.search(view.text)
    if turn and not (turn.start() and _letter_stages(read(view.part(0, turn.start())), options, opening)):
        view = _stripped(view.part(turn.end()))
    turn = _ANSWER_INITIAL.match(view.text)
    if turn and not any(mention.start == turn.end() for mention in text_mentions(view.text, options.patterns)):
        view = _stripped(view.part(turn.end()))
    for pattern, cuts in (
        (_NEXT_QUESTION, lambda head: _has_answered(head, options, opening)),
        (_USER_TURN, lambda head: True),
        (_QUESTION_TURN, lambda head: bool(_letter_stages(head, options, opening))),
    ):
        turn = pattern.search(view.text)
        if turn and view.text[: turn.start()].strip() and cuts(read(view.part(0, turn.start()))):
            view = _stripped(view.part(0, turn.start()))
            flags.append("next_turn_removed")
    listed = bool(options.block and options.block.search(view.text))
    if options.block and listed:
        view, echoed = _without_block(view, response, options, opening, options.block)
        if echoed and "echo_removed" not in flags:
            flags.append("echo_removed")
    listed = listed or bool(_FOUR_LABELS.search(view.text))
    view = view.replaced(_FOUR_LABELS, "\n")
    reading = read(view)
    reading.flags, reading.listed, reading.cut = list(dict.fromkeys(flags)), listed, cut
    return reading


def _without_block(
    view: View, response: str, options: _Options, opening: str, block: re.Pattern[str]
) -> tuple[View, bool]:
    """The reply without the lists of its options, and whether they were an echo, which takes what led to it along."""
    first = block.search(view.text)
    if first:
        head, tail = _stripped(view.part(0, first.start())), view.part(first.end())
        echoed = any(char.isalnum() for char in tail.text)
        if echoed and not (head.text and _letter_stages(_read(head, response, options), options, opening)):
            return _stripped(tail.replaced(block, "\n")), True
    return view.replaced(block, "\n"), False


def _begins_with_answer(reading: _Reading, options: _Options, opening: str) -> bool:
    """Whether a letter at the very start answers."""
    found = (_prefill(reading, options) if opening.strip() else None) or _lone_letter(reading, options)
    return bool(found and found.answer is not None and found.mention and found.mention.start == 0)


def _has_answered(reading: _Reading, options: _Options, opening: str) -> bool:
    """Whether a reply answers by a letter that is more than named."""
    stated = any(s.stance == "stated" and len(s.options) == 1 for s in reading.marks)
    found = (_prefill(reading, options) if opening.strip() else None) or _lone_letter(reading, options)
    only = _only_letter(reading, options)
    ends = bool(only and only.mention and _REST_IS_PUNCTUATION.match(reading.view.text[only.mention.close :]))
    return stated or ends or bool(found and found.answer is not None)


def _find_prompt(text: str, prompt: str) -> tuple[int, int]:
    """Where something other than the prompt stands before its end, and where that end is; 0 where there is none.

    White space may differ.
    """
    wanted = _squeezed_prompt(prompt)
    if len(wanted) < _MIN_ECHO:
        return 0, 0
    have, places = squeezed(text)
    if have.startswith(wanted):
        return 0, places[len(wanted) - 1] + 1
    tail = wanted[-_TAIL:]
    at = have.find(tail) if len(tail) >= _TAIL // 2 else -1
    if at < 0:
        return 0, 0
    return 0 if have[:at] in wanted else places[at], places[at + len(tail) - 1] + 1


@lru_cache(maxsize=64)
def _squeezed_prompt(prompt: str) -> str:
    return squeezed(plain_text(prompt))[0]


def _stripped(view: View) -> View:
    start = len(view.text) - len(view.text.lstrip())
    return view.part(start, max(start, len(view.text.rstrip())))


def _letter_stages(reading: _Reading, options: _Options, opening: str) -> _Finding | None:
    found = _prefill(reading, options) if opening.strip() else None
    return found or _declared(reading) or _lone_letter(reading, options)


def _prefill(reading: _Reading, options: _Options) -> _Finding | None:
    """The letter that continues the opening."""
    text = reading.view.text
    if options.are_images:
        numeral = _NUMERAL.match(text)
        if numeral:
            place = "一二三四五六七八九".index(numeral["numeral"])
            answer = place if place < len(LETTERS) else None
            span = numeral.span("numeral")
            mention = Mention((place,), span, *span, span[1], "digit")
            return _Finding("prefill", "prefill_letter" if answer is not None else "out_of_range", mention, answer)
    begins = reading.words[0] if reading.words else None
    if (
        begins
        and begins.mentions[0].start == 0
        and len(begins.options) == 1
        and begins.stance not in ("denied", "asked")
    ):
        whole = begins.mentions[0]
        beside = any(0 <= s.mentions[0].start - whole.end <= _BESIDE for s in reading.marks)
        if len(begins.mentions) == 1 and not beside and _AFTER_TEXT.match(text[whole.end :]):
            return _Finding("option_text", "option_text", whole, whole.options[0])
    if not reading.marks:
        return None
    first = reading.marks[0]
    mention = first.mentions[0]
    if _IN_DOUBT.match(text[mention.close :]) or (first.stance == "asked" and len(_candidates(reading.marks)) > 1):
        return None
    if mention.start or len(first.mentions) > 1 or first.stance == "denied" or mention.kind in ("several", "lower"):
        return None
    after = _AFTER_NUMBER if mention.kind == "digit" else _AFTER_PREFILL
    if not (mention.close > mention.core[1] or after.match(text[mention.end :])) or _heads_all(reading):
        return None
    if not mention.options:
        return _Finding("prefill", "out_of_range")
    return _Finding("prefill", "prefill_letter", mention, mention.options[0])


def _declared(reading: _Reading) -> _Finding | None:
    """The last explicit statement; one that names several options is a verdict too: none."""
    stated = [statement for statement in reading.marks if statement.stance == "stated"]
    if stated:
        last = stated[-1]
        if _taken_back(reading, last.mentions[0]):
            return _Finding("none", "ambiguous")
        if len({option for s in stated for option in s.options}) > 1 and _DEPENDS.search(reading.view.text):
            return _Finding("none", "ambiguous")
        if len(last.options) == 1 and not last.is_outside:
            (answer,) = last.options
            return _Finding("declared", "declared", last.mentions[0], answer)
        if _refused(reading):
            return _Finding("none", "refusal")
        return _Finding("none", "ambiguous" if last.options else "out_of_range")
    if reading.cut:
        return None  # what is only named may be the first of several that were to be looked at
    text = reading.view.text
    last = reading.marks[-1] if reading.marks else None
    if last and last.stance == "mentioned" and len(last.options) == 1 and is_singled_out(text, last.mentions[0]):
        mention, after, until = _merely_mentioned(reading.marks, last.mentions[0].options[0], text, last=True)
        if mention and not _refused(reading) and not in_negative_clause(text, mention, after, until):
            return _Finding("declared", "declared", mention, mention.options[0])
    answer = _single(_last_stances(reading.marks))
    if answer is None or _outside(reading) or _refused(reading):
        return None
    mention, after, until = _merely_mentioned(reading.marks, answer, text, named=True)
    if not mention or in_negative_clause(text, mention, after, until, right=0):
        return None
    return _Finding("declared", "declared", mention, answer)


def _lone_letter(reading: _Reading, options: _Options) -> _Finding | None:
    """A letter alone at the start or the end; lower case only where it is the whole text."""
    text = reading.view.text
    if len(text) <= 40:
        whole = _WHOLE.fullmatch(text)
        number = _WHOLE_NUMBER.fullmatch(text) if options.are_images else None
        if whole or number:
            span = whole.span("letter") if whole else number.span("digit") if number else (0, 0)
            said = text[span[0] : span[1]].upper()
            place = int(said) - 1 if said.isdigit() else LETTERS.find(said)
            if not 0 <= place < len(LETTERS):
                return _Finding("lone_letter", "out_of_range")
            return _Finding("lone_letter", "lone_letter", Mention((place,), span, *span, span[1], "letter"), place)
    if not reading.marks:
        return None
    bare = {match["letter"] for match in _BARE_LINE.finditer(text)}
    if len(bare) > 1 or (_LETTERS_ONLY.fullmatch(text) and len(_candidates(reading.marks)) > 1):
        return _Finding("none", "ambiguous")
    found: dict[int, Mention] = {}
    first, last = reading.marks[0], reading.marks[-1]
    for statement, at_start in ((first, True), (last, False)):
        mention = statement.mentions[0]
        if len(statement.mentions) > 1 or statement.stance != "mentioned" or mention.kind not in ("letter", "number"):
            continue
        if at_start:
            alone = mention.start == 0 and (mention.close > mention.end or _AFTER_LONE.match(text[mention.end :]))
            alone = alone and not _heads_a_list(reading, 0) and not _is_heading(reading, mention)
        else:
            alone = _REST_IS_PUNCTUATION.match(text[mention.close :])
            alone = alone and _NOTHING_BEFORE.search(text[max(0, mention.start - 3) : mention.start])
            alone = alone and not _ends_a_list(reading) and not (reading.cut and mention.start)
        if reading.cut and ":" in (
            text[mention.end : mention.end + 1],
            text[mention.close : mention.close + 2].strip(),
        ):
            continue  # the first of several that were to be looked at
        if alone and not _taken_back(reading, mention):
            found.setdefault(mention.options[0] if mention.options else -1, mention)
    if len(found) != 1:
        return None
    ((answer, mention),) = found.items()
    if answer < 0:
        return _Finding("lone_letter", "out_of_range")
    return _Finding("lone_letter", "lone_letter", mention, answer)


def _option_text(reading: _Reading, options: _Options) -> _Finding | None:
    """The text of one option, alone or the only one in the reply."""
    text = reading.view.text
    same = options.owners.get(option_key(text))
    if same:
        whole = Mention(same, (0, len(text)), 0, len(text), len(text), "text")
        return (
            _Finding("option_text", "option_text", whole, same[0]) if len(same) == 1 else _Finding("none", "ambiguous")
        )
    stated = [statement for statement in reading.words if statement.stance == "stated"]
    if stated:
        answer = _single({option: "stated" for option in stated[-1].options})
        if answer is None:
            return _Finding("none", "ambiguous")
        return _Finding("option_text", "option_text", stated[-1].mentions[0], answer)
    answer = _single(_last_stances(reading.words))
    if answer is None:
        said = [s.mentions[0] for s in reading.words if s.stance == "mentioned" and len(s.mentions) == 1]
        named = {mention.options for mention in said if is_identified(text, mention)}
        answer = next(iter(named))[0] if len(named) == 1 and len(next(iter(named))) == 1 else None
    if answer is None or _refused(reading):
        return None
    lettered = _counted(_last_stances(reading.marks))
    if lettered - {answer}:
        beside = any(mention.conflict for statement in reading.marks for mention in statement.mentions)
        return None if beside or len(lettered) > 1 else _Finding("none", "ambiguous")
    mention, after, until = _merely_mentioned(reading.words, answer, text)
    if not mention or (reading.cut and (lettered or _heads_a_paragraph(text, mention))):
        return None  # where the reply was cut: the first of several that were to be looked at
    right = 0 if text[mention.end - 1].isascii() else _SAID_OF_TEXT
    if in_negative_clause(text, mention, after, until, right):
        return None
    return _Finding("option_text", "option_text", mention, answer)


def _heads_a_paragraph(text: str, mention: Mention) -> bool:
    """Whether a line goes on after an option's text at its start, or a colon follows."""
    after = text[mention.close : mention.close + 2].lstrip(" ")
    begins = not mention.start or text[mention.start - 1] == "\n"
    return after[:1] in (":", "-") or (begins and after[:1] not in ("", "\n", ".", "。", "!"))


def _only_letter(reading: _Reading, options: _Options) -> _Finding | None:
    """The one letter of A to D that occurs as a token of its own."""
    answer = _single(_last_stances(reading.marks))
    if answer is None or reading.cut or _outside(reading) or _refused(reading):
        return None
    text = reading.view.text
    mention, after, until = _merely_mentioned(reading.marks, answer, text)
    # Of a picture it may well be said what is not in it.
    if not mention or in_negative_clause(text, mention, after, until, 0 if options.are_images else _SAID_OF_LETTER):
        return None
    return _Finding("only_letter", "only_letter", mention, answer)


def _merely_mentioned(
    found: Sequence[Statement], option: int, text: str, *, named: bool = False, last: bool = False
) -> tuple[Mention | None, int, int]:
    """The first (last) mention of an option that is neither stated nor denied; where its neighbours end and start."""
    mentions = [(mention, s.stance) for s in found for mention in s.mentions]
    for i in range(len(mentions) - 1, -1, -1) if last else range(len(mentions)):
        mention, stance = mentions[i]
        if mention.options == (option,) and stance == "mentioned" and (mention.named or not named):
            until = mentions[i + 1][0].start if i + 1 < len(mentions) else len(text)
            return mention, mentions[i - 1][0].close if i else 0, until
    return None, 0, 0


def _why_not(reading: _Reading) -> str:
    if _refused(reading):
        return "refusal"
    if _outside(reading):
        return "out_of_range"
    several = any(mention.kind == "several" for statement in reading.marks for mention in statement.mentions)
    candidates = _candidates(reading.marks) | _candidates(reading.words)
    return "ambiguous" if len(candidates) > 1 or several or reading.listed else "no_candidate"


def _last_stances(found: Sequence[Statement]) -> dict[int, str]:
    """What is said last of each option; what only a verdict could make a mention (2, b, AC) is left out."""
    stances: dict[int, str] = {}
    for statement in found:
        for mention in statement.mentions:
            beside = mention.kind == "digit" and any(other.kind == "number" for other in statement.mentions)
            if mention.kind not in ("digit", "lower", "several") or beside:
                stances |= dict.fromkeys(mention.options, statement.stance)
    return stances


def _counted(stances: dict[int, str]) -> set[int]:
    return {option for option, stance in stances.items() if stance != "denied"}


def _single(stances: dict[int, str]) -> int | None:
    """The one option that is not denied, unless it is merely asked about."""
    counted = _counted(stances)
    if len(counted) != 1:
        return None
    (option,) = counted
    return None if stances[option] == "asked" else option


def _taken_back(reading: _Reading, mention: Mention) -> bool:
    """Whether what follows a mention withdraws it: "B. Wait, that's wrong"."""
    following = next((s.mentions[0].start for s in reading.marks if s.mentions[0].start >= mention.close), None)
    end = mention.close + _TAKEN_BACK_WITHIN
    tail = reading.view.text[mention.close : end if following is None else min(following, end)]
    found = _TAKEN_BACK.search(tail)
    return bool(found and not _CONFIRMED.search(tail, found.end()))


def _candidates(found: Sequence[Statement]) -> set[int]:
    return _counted(_last_stances(found))


def _outside(reading: _Reading) -> bool:
    return any(
        not mention.options and mention.kind != "digit" and statement.stance != "denied"
        for statement in reading.marks
        for mention in statement.mentions
    )


def _refused(reading: _Reading) -> bool:
    """Whether the reply declines to answer.

    Option texts (以上都不是) are left out, and "neither" said of some of the options is a denial of those.
    """
    text = reading.view.text
    denied = [s for s in reading.marks if s.stance == "denied"]
    skipped = [(mention.start, mention.end, " ") for mention in reading.texts]
    skipped += [(s.mentions[0].start, s.mentions[-1].end, "其他") for s in denied]
    pieces: list[str] = []
    done = 0
    for start, end, filler in sorted(skipped):
        if start >= done:
            pieces += [text[done:start], filler]
            done = end
    return bool(_REFUSAL.search("".join([*pieces, text[done:]])))


def _labels(found: Sequence[Statement], text: str) -> list[int]:
    """Options, in order, of the letters that head a piece of text, neither denied nor in question."""
    return [
        mention.options[0]
        for statement in found
        if statement.stance in ("mentioned", "stated") and len(statement.mentions) == 1
        for mention in statement.mentions
        if mention.kind in ("letter", "number")
        and mention.options
        and mention.gloss is None
        and is_label(text, mention)
        and not is_cued(text, mention)
    ]


def _heads_a_list(reading: _Reading, at: int) -> bool:
    """Whether the option at the start is the first of a list (A) … B) …) and no answer.

    A letter followed by a list from A on is an answer with the options discussed after it.
    """
    mention = reading.marks[at].mentions[0]
    if not mention.options:
        return False
    following = _labels(reading.marks[at + 1 : at + 1 + _NEAR], reading.view.text)
    if _is_explained(reading, at) or not following or following[0] == mention.options[0]:
        return False
    if reading.view.text[mention.end : mention.end + 1] == "\n":
        return following[0] == mention.options[0] + 1
    return not (following[0] == 0 and 1 in following)


def _heads_all(reading: _Reading) -> bool:
    """Whether A at the start, right after an opening, is followed by B: a list of the options from the first on."""
    following = _labels(reading.marks[1 : 1 + _NEAR], reading.view.text)
    listed = reading.marks[0].mentions[0].options == (0,) and following[:1] == [1]
    return listed and not _is_explained(reading, 0)


def _is_explained(reading: _Reading, at: int) -> bool:
    """Whether an explanation is announced between a mention and the next one."""
    here = reading.marks[at].mentions[-1]
    there = reading.marks[at + 1].mentions[0] if at + 1 < len(reading.marks) else None
    return bool(there and _EXPLAINED.search(reading.view.text[here.close : there.start]))


def _is_heading(reading: _Reading, mention: Mention) -> bool:
    """Whether an A with a colon is short for "answer": the text after it is about another option only."""
    about = _candidates(reading.words)
    return (
        mention.options == (0,)
        and mention.close == mention.end
        and reading.view.text[mention.end : mention.end + 1] == ":"
        and ((bool(about) and 0 not in about) or _refused(reading))
    )


def _ends_a_list(reading: _Reading) -> bool:
    """Whether the option at the end is the next one of a list."""
    mention = reading.marks[-1].mentions[0]
    before = _labels(reading.marks[-1 - _NEAR : -1], reading.view.text)
    return bool(before and mention.options and before[-1] == mention.options[0] - 1)
