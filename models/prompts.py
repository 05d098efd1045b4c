"""Prompts of a benchmark, as data, and what a question looks like once it is put into one.

Nothing here decides on wording: the strings come from conf/prompts/. What is decided is where they are cut into turns,
which image stands where, and how an answer is begun in the model's name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.errors import InputError
from data.records import LETTERS, FoodQuestion
from models.backend import Turn

PREFILLS = ("auto", "continue", "inline", "closed_turn")
ABLATIONS = (
    "none",
    "dish_name",  # the dish is named in the question, photo shown (table 5)
    "dish_name_only",  # named, photo hidden, same wording
    "dish_name_only_textqa",  # named, photo hidden, the wording of the text task, as the reference repository does it
    "blank_image",  # a grey picture in place of each photo
    "other_image",  # photos of another question
    "no_options",  # the options are left out: the answer must name one by itself
)
# What single-image questions call the dish. Where a question does not, there is no place for the name and it is asked
# as it is, as the reference repository does; the runner counts those.
SHOWN_DISH = "图片中的食物"
_ROLES = ("system", "user", "assistant")
_IMAGE = re.compile(r"<img([1-4])>")
_FIELD = re.compile(r"\{(\w+)\}")
_OPENINGS = ("图", "（", "(", "Picture")
_IMAGES = {"mivqa": 4, "sivqa": 1, "textqa": 0}
# Where a text plays both parts: what introduces the user (dropped) and the assistant.
_SPEAKERS = (("Human: ", "Assistant: "), ("", "\n智能助手："), ("", "Assistant: "))


_OPTIONS_LINE = "（{letter}) {choice}\n"  # as in the code: full-width left, half-width right bracket


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt; texts still hold {question} and {options}, images are places 0 to 3."""

    id: str
    task: str
    language: str
    index: int  # from 0, as in the code and the README of the benchmark
    variant: str
    turns: tuple[Turn, ...]
    edits: tuple[tuple[str, str], ...] = ()  # replacements in the question's text
    options_line: str = _OPTIONS_LINE
    extra: bool = False  # not among the published four


@dataclass(frozen=True, slots=True)
class Rendered:
    """A question as it is sent."""

    turns: tuple[Turn, ...]
    images: tuple[str, ...]
    prefill: str  # none | continue | closed_turn | inline
    opening: str  # what the prompt ends with right before the letter, if anything


def read_prompts(section: Mapping[str, Any], task: str, language: str) -> list[Prompt]:
    """The prompts of a task and language that the config section (conf/prompts/) chooses: `variant`, `index`.

    Raises:
        InputError: no such variant or index; a prompt without {question}, with an unknown field, role or image.
    """
    given = section.get("all")
    if not isinstance(given, list | tuple) or not all(isinstance(item, Mapping) for item in given):
        raise InputError("prompts.all: must be a list of prompts with id and turns, as in conf/prompts/sivqa.yaml")
    every = [_read(item, section) for item in given]
    twice = [p.id for p, n in zip(every, (sum(q.id == p.id for q in every) for p in every), strict=True) if n > 1]
    if twice:
        raise InputError(f"prompt {twice[0]}: is there twice; give one of them another id")
    if not any(p.task == task for p in every):
        raise InputError(f"prompts: none of these is for {task}; choose prompts={task}")
    of_language = [p for p in every if p.task == task and p.language == language]
    if not of_language:
        raise InputError(f"prompts: none for {task} in language {language}; choose data.language=zh or en")
    found = [p for p in of_language if p.variant == section["variant"]]
    if not found:
        names = ", ".join(sorted({p.variant for p in of_language}))
        raise InputError(f"prompts.variant={section['variant']}: not for {task} in {language}; choose {names}")
    wanted = section.get("index")
    if wanted is None:
        return [p for p in found if not p.extra]
    wanted = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    if not wanted:
        raise InputError("prompts.index=[]: names no prompt; leave it out for all of them")
    if not all(type(index) is int for index in wanted):
        raise InputError(f"prompts.index={section.get('index')}: must be whole numbers, such as 0 or [0, 2]")
    by_index = {p.index: p for p in found}
    for index in wanted:
        if index not in by_index:
            raise InputError(f"prompts.index={index}: choose among {', '.join(map(str, sorted(by_index)))}")
    return [by_index[index] for index in dict.fromkeys(wanted)]


def render(prompt: Prompt, question: FoodQuestion, prefill: str = "continue", ablation: str = "none") -> Rendered:
    """Put a question into a prompt.

    Args:
        prompt: of the question's task and language; for `dish_name_only_textqa` one of the text task.
        question: with its options already in the order to be shown.
        prefill: continue | inline | closed_turn: what becomes of an assistant turn at the end.
        ablation: one of ABLATIONS; pictures that replace others are already in `question.images`.

    Raises:
        InputError: an ablation that the question cannot bear.
    """
    hidden = ablation in ("dish_name_only", "dish_name_only_textqa")
    text = _question_text(prompt, question, ablation)
    options = "" if ablation == "no_options" else options_block(question.choices, prompt.options_line)
    if question.choices and question.task == "mivqa" and options:
        text = f"{text} {_OPTIONS_ARE[question.language]} {options.strip()}"  # no multi-image prompt has {options}
    values = {"question": text, "options": options}
    turns = []
    for turn in prompt.turns:
        parts: list[str | int] = []
        for part in turn.parts:
            if isinstance(part, int):
                if not hidden:
                    parts.append(part)
            else:
                parts.append(_FIELD.sub(lambda match: values[match[1]], part))
        if parts:
            turns.append(Turn(turn.role, _joined(parts)))
    images = () if hidden else question.images
    used = "none"
    if turns[-1].role == "assistant":
        used = prefill
        if prefill == "inline":
            turns = _inline(turns, question.language)
    return Rendered(tuple(turns), images, used, _opening(turns[-1].text))


def options_block(choices: Sequence[str], line: str) -> str:
    """The options as the prompts show them: one line each, choices stripped."""
    shown = [
        line.replace("{letter}", letter).replace("{choice}", choice.strip())
        for letter, choice in zip(LETTERS, choices, strict=False)
    ]
    return "".join(shown)


_OPTIONS_ARE = {"zh": "选项有:", "en": "Here are the options:"}


def _question_text(prompt: Prompt, question: FoodQuestion, ablation: str) -> str:
    text = question.question.strip()
    for old, new in prompt.edits:
        text = text.replace(old, new)
    if not ablation.startswith("dish_name"):
        return text
    where = f"asking.ablation={ablation}: {question.task} row {question.row}"
    if question.task != "sivqa":
        raise InputError(
            f"{where}: only single-image questions leave the dish unnamed; choose data=foodieqa/single_image"
        )
    if question.language != "zh":
        raise InputError(f"{where}: the data name the dish in Chinese only; choose data.language=zh")
    if not question.food_name:
        raise InputError(f"{where}: has no food_name to show; leave the ablation out")
    return text.replace(SHOWN_DISH, question.food_name.strip())


def _inline(turns: list[Turn], language: str) -> list[Turn]:
    """User and assistant folded into one user turn, as for models without chat turns (eval code for Qwen-VL)."""
    user, assistant = {"zh": ("用户：", "智能助手："), "en": ("Human: ", "Assistant: ")}[language]
    parts: list[str | int] = [user]
    for turn in turns[:-1]:
        if turn.role == "user":
            parts += turn.parts
    parts += [assistant, *turns[-1].parts]
    return [*(turn for turn in turns if turn.role == "system"), Turn("user", _joined(parts))]


def _joined(parts: Sequence[str | int]) -> tuple[str | int, ...]:
    """Neighbouring texts as one."""
    joined: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)


def _opening(text: str) -> str:
    return next((opening for opening in _OPENINGS if text.endswith(opening)), "")


def _read(item: Mapping[str, Any], section: Mapping[str, Any]) -> Prompt:
    name = str(item.get("id"))
    match = re.fullmatch(r"(mivqa|sivqa|textqa)\.(zh|en)\.(\d+)\.(\w+)", name)
    if not match:
        raise InputError(f"prompt {name}: its id must read task.language.index.variant, such as sivqa.zh.0.mine")
    task, language, index, variant = match.groups()
    turns = [_turn(name, given) for given in item.get("turns") or ()]
    if section.get("chat_form"):
        turns = _spoken(turns)
    if section.get("system"):
        turns = [Turn("system", (str(section["system"]),)), *turns]
    text = "".join(turn.text for turn in turns)
    strange = re.search(r"<img\d*>", text)
    if strange:
        raise InputError(f"prompt {name}: {strange[0]} names no photo; there are <img1> to <img4>")
    unknown = sorted(set(_FIELD.findall(text)) - {"question", "options"})
    if unknown:
        raise InputError(f"prompt {name}: unknown field {{{unknown[0]}}}; there are {{question}} and {{options}}")
    if "{question}" not in text:
        raise InputError(f"prompt {name}: does not hold {{question}}")
    if task != "mivqa" and "{options}" not in text:
        raise InputError(f"prompt {name}: does not hold {{options}}")
    images = [part for turn in turns for part in turn.parts if isinstance(part, int)]
    if sorted(images) != list(range(_IMAGES[task])):
        raise InputError(f"prompt {name}: must show each of its {_IMAGES[task]} photos once, <img1> and so on")
    if turns[-1].role == "system" or any(turn.role == "assistant" for turn in turns[:-1]):
        raise InputError(
            f"prompt {name}: must end in a user turn, or in one assistant turn that is begun for the model"
        )
    pairs = item.get("edit") or ()
    if isinstance(pairs, str) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise InputError(f"prompt {name}: edit must be a list of pairs [old, new]")
    edits = tuple((str(old), str(new)) for old, new in pairs)
    line = str(section.get("options_line") or _OPTIONS_LINE)
    if "{choice}" not in line or "{letter}" not in line:
        raise InputError("prompts.options_line: must hold {letter} and {choice}")
    return Prompt(name, task, language, int(index), variant, tuple(turns), edits, line, bool(item.get("extra")))


def _turn(name: str, given: Any) -> Turn:
    if not isinstance(given, Mapping) or len(given) != 1:
        raise InputError(f"prompt {name}: a turn is one role with its text, such as `user: ...`")
    [(role, text)] = given.items()
    if role not in _ROLES or not isinstance(text, str):
        raise InputError(f"prompt {name}: role {role}; choose {', '.join(_ROLES)}, with a text")
    pieces = _IMAGE.split(text)  # text, number, text, number, ...
    parts = [int(piece) - 1 if i % 2 else piece for i, piece in enumerate(pieces)]
    return Turn(role, tuple(part for part in parts if part != ""))


def _spoken(turns: list[Turn]) -> list[Turn]:
    """Cut a single user turn that plays both parts at the assistant's cue; others stay as they are."""
    if len(turns) != 1:
        return turns
    parts = list(turns[0].parts)
    for user, assistant in _SPEAKERS:
        last = parts[-1]
        first = parts[0] if isinstance(parts[0], str) else ""
        if not isinstance(last, str) or assistant not in last or not first.startswith(user):
            continue
        before, _, after = last.partition(assistant)
        parts[-1] = before
        if isinstance(parts[0], str):
            parts[0] = parts[0].removeprefix(user)
        return [Turn("user", tuple(part for part in parts if part != "")), Turn("assistant", (after,))]
    return turns
