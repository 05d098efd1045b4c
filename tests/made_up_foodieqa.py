"""Made-up food questions in the released FoodieQA schema, with real small picture files, for every test.

All dishes, questions and pictures are invented here. What the release is known to hold is in them: repeating
multi-image ids, question ids with gaps, several questions on one photo, options with outer white space and mixed
brackets, options inside other options, English options that begin with a capital letter, phone photos that are turned
by EXIF, a multi-image question with text options, a dish with a web photo, meta-information without a cuisine.
"""

import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.records import FOOD_TASKS

FILES = {"mivqa": "mivqa_tidy.json", "sivqa": "sivqa_tidy.json", "textqa": "textqa_tidy.json"}
LAYOUTS = ("release", "old", "prefixed", "flat")
TYPES = {
    "mivqa": (
        *("ingredients", "food-type", "taste", "cooking-skills", "color", "eating-habit", "plating"),
        *("region", "allergy", "amount", "other", "expense", "smell", "history"),
    ),
    "sivqa": ("cuisine_type", "region-2", "cooking-skills", "flavor", "present", "main-ingredient"),
    "textqa": ("cuisine_type", "region-2", "cooking-skills", "flavor", "present", "main-ingredient", "warm-cold"),
}
GROUPS = ("川", "meat", "粤", "seafood", "西北", "main-noodle", "上海", "bbq", "其他", "tofu", "新疆", "main-hotpot")
FOOD_TYPES = (
    *("川菜（四川，重庆）", "粤菜（广东等地）", "西北菜 （陕西，甘肃等地）", "黔菜 (贵州）"),
    *("上海菜", "上海本帮菜", "客家菜", "北京菜"),
)
BATCHES = ("99999999_all_202401010000000001", "99999999_all_202401010000000002")

# (Chinese, English) values; the pairs of one field never collide after strip, NFKC and case folding.
_DISHES = (
    *(("样品烧鹅", "Sample Roast Goose"), ("样品凉面", "Sample Cold Noodles"), ("样品汤包", "Sample Soup Bun")),
    *(("样品烤串", "Sample Skewers"), ("样品豆腐", "Sample Tofu"), ("样品蒸鱼", "Sample Steamed Fish")),
    *(("样品火锅", "Sample Hotpot"), ("样品米糕", "Sample Rice Cake"), ("样品酸汤", "Sample Sour Soup")),
)
_VALUES = {
    "cuisine_type": (
        *(("川菜", "Sichuan cuisine"), ("粤菜 ", "Cantonese cuisine"), ("赣菜", "Gan cuisine")),
        *(("赣菜 (客家菜）", "Gan cuisine (Hakka)"), ("京菜", "Beijing cuisine"), ("滇菜", "Dian cuisine")),
    ),
    "region-2": (
        *(("安徽 ", "Anhui"), ("浙江", "Zhejiang"), ("杭州", "Hangzhou, capital of Zhejiang"), ("四川", "Sichuan")),
        *(("重庆", "Chongqing"), ("西安 ", "Xi'an"), ("甘肃", "Gansu"), ("贵州", "Guizhou")),
    ),
    "cooking-skills": (
        *(("烤", "roast"), ("蒸", "steam"), ("勾芡", "thicken with starch"), ("炸", "deep-fry"), ("凉拌", "toss cold")),
        ("炖", "braise (lit. stew for long)"),
    ),
    "flavor": (
        *(("鲜甜", "sweet"), ("鲜甜可口", "sweet and tasty"), ("麻", "numbing"), ("酸", "sour"), ("咸", "salty")),
        ("清淡", "light (of food, not greasy)"),
    ),
    "present": (
        *(("切片摆盘", "sliced and laid out"), ("整只上桌", "served whole"), ("盛在砂锅", "in a clay pot")),
        *(("竹笼", "Bamboo steamer"), ("铁板", "on an iron plate")),
    ),
    "main-ingredient": (
        *(
            ("鹅", "goose"),
            ("猪肉", "pork"),
            ("猪排", "pork chop"),
            ("鱼", "fish"),
            ("豆腐", "tofu"),
            ("面粉", "flour"),
        ),
    ),
    "warm-cold": _DISHES,
}
_ASKED = {
    "cuisine_type": ("在菜系里算哪一种", "falls under which cuisine"),
    "region-2": ("最常见于何处", "is most at home where"),
    "cooking-skills": ("离不开哪种做法", "cannot do without which technique"),
    "flavor": ("入口是什么味", "tastes how"),
    "present": ("怎么端上桌", "comes to the table how"),
    "main-ingredient": ("主料是什么", "is made of what"),
    "warm-cold": ("这样的问题里，哪道是凉菜", "aside, which dish is served cold"),
}


def made_up_records(task: str, n: int, seed: int = 0, english_text: bool = False) -> list[dict[str, Any]]:
    """`n` valid raw records of one task; two seeds share no record, image paths are without `images/`.

    Row 5 of the multi-image task has text options beside its four images. `english_text` gives text-only questions
    the English fields that a set of one's own may have and the release has not.
    """
    rng = random.Random(f"{task} {seed}")
    return [_RECORD[task](row, seed, rng, english_text) for row in range(n)]


def write_release(
    folder: str | Path,
    n: int | Mapping[str, int] = 12,
    layout: str = "release",
    seed: int = 0,
    english_text: bool = False,
) -> Path:
    """Write the three files with their pictures into a folder, which is made, and return it.

    n: questions of each task, or by task; a task with none gets no file.
    layout: `release` has the pictures under images/ by survey batch, `old` the batches beside the files, `prefixed` is
    `release` with paths that begin with images/, `flat` has every picture right in images/.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r} is none of {LAYOUTS}")
    for task in FOOD_TASKS:
        count = n if isinstance(n, int) else n.get(task, 0)
        if not count:
            continue
        records = made_up_records(task, count, seed, english_text)
        for name in picture_names(records):
            place = {"old": name, "flat": f"images/{Path(name).name}"}.get(layout, f"images/{name}")
            write_picture(folder / place, name)
        if layout == "prefixed":
            records = [_prefixed(record) for record in records]
        write_records(folder / FILES[task], records)
    return folder


def write_records(path: str | Path, records: list[Any]) -> Path:
    """Write records as the release does: one array, UTF-8, Chinese characters as they are."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def picture_names(records: list[dict[str, Any]]) -> list[str]:
    """Every image path the records name, in order of appearance, once."""
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(record.get("images", ())))
        meta = record.get("food_meta", {})
        names.update(dict.fromkeys(meta[key] for key in ("food_file", "web_file") if key in meta))
    return list(names)


def write_picture(path: str | Path, name: str) -> None:
    """A picture of 48 by 32 pixels as seen, two colours drawn from `name`, in the kind its suffix says.

    JPEGs whose name has `turned` in it are stored on their side, 32 by 48, with the EXIF orientation of a phone held
    upright (6): the left colour is on the left only after it has been applied. PNGs have an alpha channel.
    """
    from PIL import Image

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    left, right = picture_colours(name)
    picture = Image.new("RGB", (48, 32), right)
    picture.paste(left, (0, 0, 24, 32))
    if path.suffix == ".png":
        picture.convert("RGBA").save(path)
        return
    exif = Image.Exif()
    if "turned" in path.name:
        picture = picture.transpose(Image.Transpose.ROTATE_90)  # undone by a turn of 270 degrees, which is 6
        exif[0x0112] = 6
    picture.save(path, format="JPEG", quality=95, exif=exif)


def picture_colours(name: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Colours of the left and the right half of the picture `name`, by its path in the records."""
    digest = hashlib.sha256(name.encode()).digest()
    return (digest[0], digest[1], digest[2]), (digest[3], digest[4], digest[5])


def _prefixed(record: dict[str, Any]) -> dict[str, Any]:
    record = dict(record)
    if "images" in record:
        record["images"] = [f"images/{name}" for name in record["images"]]
    if "food_meta" in record:
        meta = record["food_meta"]
        record["food_meta"] = meta | {k: f"images/{meta[k]}" for k in ("food_file", "web_file") if k in meta}
    return record


def _picture(seed: int, number: int) -> str:
    kind = ("dish.jpeg", "dish.jpg", "dish.png", "turned.jpeg")[number % 4]
    return f"{BATCHES[number % 2]}/{seed * 100_000 + number}_{kind}"


def _multi_image(row: int, seed: int, rng: random.Random, english_text: bool) -> dict[str, Any]:
    group, slot = divmod(row, 3)  # three questions on one set of four photos, in an order of their own each time
    images = [_picture(seed, 4 * group + k) for k in rng.sample(range(4), 4)]
    writer = hashlib.md5(f"{seed} {group % 2}".encode()).hexdigest()  # the same browser comes back on later pages
    kind = TYPES["mivqa"][row % len(TYPES["mivqa"])]
    return {
        "question": f"第{row}题（{seed}）：哪一道菜更合适？" if row != 5 else f"这四道菜共同的做法是（{seed}）？",
        "choices": "清炒， 红烧,白灼，油炸" if row == 5 else "",
        "answer": str(rng.randrange(4)),
        "question_type": kind,
        "question_id": f"{writer}_{slot}",
        "ann_group": GROUPS[group % len(GROUPS)],
        "images": images,
        "question_en": f"Question {row} ({seed}): which dish fits better?",
    }


def _options(kind: str, rng: random.Random) -> tuple[list[str], list[str]]:
    chosen = rng.sample(_VALUES[kind], 4)
    return [zh for zh, _ in chosen], [en for _, en in chosen]


def _single_image(row: int, seed: int, rng: random.Random, english_text: bool) -> dict[str, Any]:
    kind = TYPES["sivqa"][row % len(TYPES["sivqa"])]
    photo = row // 2  # two questions on one photo
    dish = _DISHES[photo % len(_DISHES)][0]
    choices, choices_en = _options(kind, rng)
    number = seed * 100_000 + photo
    meta = {
        "main_ingredient": [rng.choice("鹅鱼面豆")],
        "id": number,
        "food_name": dish,
        "food_type": FOOD_TYPES[photo % len(FOOD_TYPES)],
        "food_location": ("餐馆", "家里自制", "外卖")[photo % 3],
        "food_file": _picture(seed, 50_000 + photo),
    }
    if photo == 2:
        meta["web_file"] = f"web/{number}_web.jpg"
    if photo == 4:
        del meta["food_type"]
    return {
        "question": f"图片中的食物{_ASKED[kind][0]}（{seed}-{row}）？",
        "choices": choices,
        "answer": str(rng.randrange(4)),
        "question_type": kind,
        "food_name": dish,
        "question_id": f"vqa-{seed * 100_000 + 3 * row}",
        "food_meta": meta,
        "question_en": f"The dish shown {_ASKED[kind][1]} ({seed}-{row})?",
        "choices_en": choices_en,
    }


def _text(row: int, seed: int, rng: random.Random, english_text: bool) -> dict[str, Any]:
    kind = TYPES["textqa"][row % len(TYPES["textqa"])]
    dish, dish_en = _DISHES[row // 2 % len(_DISHES)]
    choices, choices_en = _options(kind, rng)
    record = {
        "question": f"{dish}{_ASKED[kind][0]}（{seed}-{row}）？",
        "choices": choices,
        "answer": str(rng.randrange(4)),
        "question_type": kind,
        "food_name": dish,
        "cuisine_type": ("川菜", "粤菜", "苏菜", "京菜", "赣菜 (客家菜）")[row // 2 % 5],
        "question_id": f"textqa-{seed * 100_000 + 5 * row}",
    }
    if english_text:
        record |= {"question_en": f"{dish_en} {_ASKED[kind][1]} ({seed}-{row})?", "choices_en": choices_en}
    return record


_RECORD = {"mivqa": _multi_image, "sivqa": _single_image, "textqa": _text}
