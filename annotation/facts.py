"""The seventeen fields of a dish as a form: names, hints, and the checks of `data.dish_table` on what was typed."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotation.store import Refused
from data.dish_table import FIELDS, OPTIONAL, SEVERAL, THREE, DishFacts, read_dishes
from data.errors import InputError


@dataclass(frozen=True, slots=True)
class Fact:
    """One field of the form."""

    name: str  # of `DishFacts`
    zh: str
    en: str
    hint_zh: str = ""
    hint_en: str = ""

    @property
    def required(self) -> bool:
        """Whether a dish must have a value."""
        return self.name not in OPTIONAL


TEMPERATURES = (("冷", "冷", "cold"), ("热", "热", "warm"))  # stored, Chinese, English

FACTS = (
    Fact("food_category", "食物类别", "Food category", "例如：肉类", "such as meat"),
    Fact("dish_name", "菜名", "Dish name", "", "in Chinese"),
    Fact("alternative_names", "别名", "Alternative names", "没有可不填", "none: leave empty"),
    Fact("main_ingredient", "主要食材", "Main ingredient"),
    Fact("main_ingredient_traits", "主要食材的特点", "Characteristics of the main ingredient"),
    Fact(
        "key_ingredients",
        "另外三种关键配料",
        "Three other key ingredients",
        "三种，用“；”分开",
        "three, separated by ;",
    ),
    Fact("flavor", "口味", "Flavor", "先味道，后口感", "taste first, then texture"),
    Fact("presentation_style", "摆盘方式", "Presentation style"),
    Fact("color", "颜色", "Color", "以主色为先", "the prevailing one first"),
    Fact("serving_temperature", "冷食或热食", "Served cold or warm"),
    Fact("dishware", "餐具", "Dishware"),
    Fact("region", "地区", "Region of origin", "例如：川渝", "such as 川渝"),
    Fact("province", "省份", "Province of origin", "例如：四川", "such as 四川"),
    Fact("cuisine_type", "菜系", "Cuisine type", "例如：川菜", "such as 川菜"),
    Fact(
        "cooking_techniques", "三种主要烹饪技法", "Three primary cooking techniques", "三种，按顺序", "three, in order"
    ),
    Fact("eating_habits", "食用习惯", "Eating habits", "没有可不填", "none: leave empty"),
    Fact("reference_links", "参考链接", "Reference links", "https://…", "https://…"),
)
LABELS = {fact.name: (fact.zh, fact.en) for fact in FACTS}
assert tuple(LABELS) == FIELDS


def check_facts(typed: Mapping[str, str], others: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The row of a dish for `data.dish_table`, of what was typed in the form; `others` are the rows it joins.

    Raises Refused with everything that is missing; then with what else the table does not take, such as the name of
    a dish that is there already.
    """
    row: dict[str, Any] = {}
    problems: list[tuple[str, dict[str, Any]]] = []
    for fact in FACTS:
        text = str(typed.get(fact.name) or "").strip()
        if fact.required and not text:
            problems.append(("fact_missing", {"fact": LABELS[fact.name]}))
        several = fact.name in SEVERAL
        if several:
            text = text.replace("、", "；").replace("，", "；").replace("\n", "；").replace(";", "；")
        if fact.name == "reference_links":
            several, text = True, "；".join(text.replace("；", " ").replace(";", " ").split())
        values = [part.strip() for part in text.split("；") if part.strip()] if several else text
        if fact.name in THREE and text and len(values) != 3:
            problems.append(("fact_three", {"fact": LABELS[fact.name], "count": len(values)}))
        row[fact.name] = values
    if problems:
        raise Refused.of(problems)
    table([row])
    try:
        table([*others, row])
    except Refused:
        raise Refused("dish_known", name=row["dish_name"]) from None
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> list[DishFacts]:
    """Rows as the typed table; Refused with the table's own reason."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dishes.json"
        path.write_text(json.dumps(list(rows), ensure_ascii=False), encoding="utf-8", errors="replace")
        try:
            return read_dishes(path)
        except InputError as error:
            reason = str(error).removeprefix(f"{path}, row {len(rows)}, field ")
            name, _, rest = reason.partition(": ")
            labels = LABELS.get(name)
            raise Refused("fact_wrong", fact=labels or ("", ""), reason=rest if labels else reason) from None
