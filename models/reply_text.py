"""A model's reply in one plain notation, every character still tied to its place in the original."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

# Stands where a reply marks its answer by form: \boxed{…}, <answer>…. Private use, so no reply can bring it along.
ANSWER_MARK = "\ue000"

_TICK, _CROSS = "✓", "✗"
_LOOKALIKE = {
    **{chr(code): chr(ord("A") + i) for first in (0x1F150, 0x1F170) for i, code in enumerate(range(first, first + 26))},
    **dict.fromkeys("✔✅☑√", _TICK),
    **dict.fromkeys("✘❌❎✖☒☐", _CROSS),
    **dict.fromkeys("∶→⇒➡➜➔👉", ":"),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("‘’ʼ", "'"),
    "°": "°",
    "℃": "°C",
    "…": " ",
    "⋯": " ",
}
# Traditional characters that occur where answers are given, refused and denied, and in names of dishes and places.
# Replies and options alike are read in simplified ones; what is not here must be written alike in both.
_TRADITIONAL = dict(
    zip(
        "圖張後選擇項應該為屬於個確對錯無沒這來說認覺會還與從數盤號兩裡裏據較適給題標準終結論綜斷測過難開並雖則僅顯請問樣種點鐘將滿關單實間見類"
        "維級計劃歸貼當們戶絕麼嗎傾條邊幾頁變達現產區經圍總歡習慣時導覽識誤敗臺別"
        "粵魯蘇閩滬雲貴陝東鹹鮮雞鴨魚豬麵涼燒燉湯醬鍋蝦餅飯餃蔥薑鹽餛飩滷燜燙爐燻醃貝龍鵝鴿黃綠紅藍廣漢陽寧蘭灣慶遼內濟鄭長揚錫紹興溫嶺頭順贛晉豐腸餡飲糰綿濃軟鑊驢"
        "臘雜燴蘿蔔鱸鱉鰻鱔蠔",
        "图张后选择项应该为属于个确对错无没这来说认觉会还与从数盘号两里里据较适给题标准终结论综断测过难开并虽则仅显请问样种点钟将满关单实间见类"
        "维级计划归贴当们户绝么吗倾条边几页变达现产区经围总欢习惯时导览识误败台别"
        "粤鲁苏闽沪云贵陕东咸鲜鸡鸭鱼猪面凉烧炖汤酱锅虾饼饭饺葱姜盐馄饨卤焖烫炉熏腌贝龙鹅鸽黄绿红蓝广汉阳宁兰湾庆辽内济郑长扬锡绍兴温岭头顺赣晋丰肠馅饮团绵浓软镬驴"
        "腊杂烩萝卜鲈鳖鳗鳝蚝",
        strict=True,
    )
)
_OPENING, _CLOSING = "([【〔〖", ")]】〕〗"
_DECORATION = set('*`"_$#|\\{}“”„‟«»「」『』《》〈〉〝〞')
_KEPT_SYMBOLS = set("<>=+&~^°×" + _TICK + _CROSS + ANSWER_MARK)

_ANSWER_TAG = re.compile(r"\\(?:boxed|fbox)\s?\{|<\s?(?:answer|choice|option|final_answer|final|ans)\s?>", re.I)
_LATEX = re.compile(r"\\[a-zA-Z]{1,12}|\\[()\[\],;!]")
_TAG = re.compile(
    r"</?\s?(?:answer|choice|option|final_answer|final|ans|output|response|result|b|i|u|p|em|strong|span|code|div|li|ul|ol|br"
    r"|img|image|box|ref|s|eos|bos|pad|unk)\s?/?>|<\|[^|<>\n]{1,40}\|>|<\s?/?[a-z_]{0,12}\Z"
)
_END_OF_TURN = re.compile(
    r"<\|(?:im_end|endoftext|end_of_text|eot_id|end|return)\|>|</s>|<(?:end_of_turn|end_of_utterance|eos)>|\[INST\]"
)
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~")
_BULLET = re.compile(r"(?m)^[ \t]*(?:[-+*•·▪●○◦‣>]+[ \t]+)+")
_NUMBERED_LABEL = re.compile(r"(?m)^[ \t]*\d{1,2}[.)、][ \t]+(?=[^0-9A-Za-z\n]{0,4}[A-H](?![0-9A-Za-z]))")
_SHARP = re.compile(r"(?<=[A-Za-z])#(?!#)")
_LOOSE_APOSTROPHE = re.compile(r"(?<![0-9A-Za-z])'|'(?![0-9A-Za-z])")
_REASONING = re.compile(
    r"[<\[◁]\s?(?P<close>/?)\s?(?:think|thinking|thought|reasoning|reflection|seed:think)\s?[>\]▷]", re.I
)
_FINAL_CHANNEL = re.compile(r"<\|channel\|>\s?final[^<\n]{0,80}<\|message\|>")
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s?(?:analysis|commentary)")


@dataclass(frozen=True, slots=True)
class View:
    """A text and, for each of its characters, the index of the character in the original that it stems from."""

    text: str
    origin: list[int]

    def part(self, start: int, end: int | None = None) -> "View":
        """The characters from `start` up to `end`."""
        return View(self.text[start:end], self.origin[start:end])

    def replaced(self, pattern: re.Pattern[str], filler: str) -> "View":
        """With `filler` for every match of a pattern that matches no empty text."""
        pieces: list[str] = []
        origin: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            pieces += [self.text[done : match.start()], filler]
            origin += self.origin[done : match.start()]
            origin += [self.origin[match.start()]] * len(filler)
            done = match.end()
        if not done:
            return self
        return View("".join(pieces) + self.text[done:], origin + self.origin[done:])

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Where a non-empty stretch of this text lies in the original."""
        return self.origin[start], self.origin[end - 1] + 1


def normalise(raw: str) -> View:
    """NFKC (full-width letters, digits, brackets), without zero-width characters, every line end a line feed."""
    out: list[str] = []
    origin: list[int] = []
    for i, char in enumerate(raw):
        if char == "\r":
            piece = "" if raw[i + 1 : i + 2] == "\n" else "\n"
        else:
            piece = char if " " <= char <= "~" or char == "\n" else _nfkc(char)
        out.append(piece)
        origin.extend([i] * len(piece))
    return View("".join(out), origin)


def drop_reasoning(view: View) -> tuple[View, bool]:
    """The text without its reasoning blocks, and whether one was left open, which leaves nothing to read.

    A closing tag alone means that the template opened the block: all before it is reasoning.
    """
    finals = list(_FINAL_CHANNEL.finditer(view.text))
    if finals:
        view = view.part(finals[-1].end())
    elif _OTHER_CHANNEL.search(view.text):
        return view.part(0, 0), True
    kept: list[tuple[int, int]] = []
    start, inside = 0, False
    for tag in _REASONING.finditer(view.text):
        if tag["close"]:
            if not inside:
                kept.clear()
            start, inside = tag.end(), False
        elif not inside:
            kept.append((start, tag.start()))
            inside = True
    if inside:
        return view.part(0, 0), True
    kept.append((start, len(view.text)))
    if len(kept) == 1:
        return view.part(*kept[0]), False
    origin = [place for a, b in kept for place in view.origin[a:b]]
    return View("".join(view.text[a:b] for a, b in kept), origin), False


def plain(view: View) -> View:
    """Emphasis, quotes, code marks, LaTeX and tags become spaces, all brackets round, runs of white space one.

    A run with a line feed becomes a line feed. What follows the end of the model's turn is dropped.
    """
    for end in _END_OF_TURN.finditer(view.text):
        if any(char.isalnum() for char in _TAG.sub("", view.text[: end.start()])):
            view = view.part(0, end.start())
        break
    view = view.replaced(_ANSWER_TAG, ANSWER_MARK)
    for pattern in (_TAG, _LATEX, _STRUCK):
        view = view.replaced(pattern, " ")
    for pattern in (_BULLET, _NUMBERED_LABEL):
        view = view.replaced(pattern, "")
    view = view.replaced(_SHARP, "+").replaced(_LOOSE_APOSTROPHE, " ")
    out: list[str] = []
    origin: list[int] = []
    for char, place in zip(view.text, view.origin, strict=True):
        char = char if char.isascii() and char.isalnum() else _plain(char)
        if char == " " and (not out or out[-1] in " \n"):
            continue
        if char == "\n":
            if not out or out[-1] == "\n":
                continue
            if out[-1] == " ":
                out.pop()
                origin.pop()
        out.append(char)
        origin.append(place)
    while out and out[-1] in " \n":
        out.pop()
        origin.pop()
    return View("".join(out), origin)


def plain_text(text: str) -> str:
    """A prompt or an option in the notation of `plain`."""
    return plain(normalise(text)).text


def squeezed(text: str) -> tuple[str, list[int]]:
    """The text without white space, and the place of every character that is left."""
    places = [i for i, char in enumerate(text) if not char.isspace()]
    return "".join(text[i] for i in places), places


@lru_cache(maxsize=4096)
def _nfkc(char: str) -> str:
    if char in _LOOKALIKE:
        return _LOOKALIKE[char]
    if char in _TRADITIONAL:
        return _TRADITIONAL[char]
    if char in "\u2028\u2029\x85\x0b\x0c":
        return "\n"
    if "\ufe00" <= char <= "\ufe0f" or unicodedata.category(char) in ("Cf", "Co", "Cs"):
        return ""
    return " " if unicodedata.category(char) == "Cc" else unicodedata.normalize("NFKC", char)


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    if char == "\n":
        return char
    if char in _OPENING:
        return "("
    if char in _CLOSING:
        return ")"
    if char.isspace() or char in _DECORATION:
        return " "
    if unicodedata.category(char) in ("So", "Sk", "Sc", "Sm") and char not in _KEPT_SYMBOLS:
        return " "
    return char
