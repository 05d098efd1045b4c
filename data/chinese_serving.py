"""What a picture of a Chinese dish shows, read from its facts: dishware, arrangement, colour, pieces."""

import re
from dataclasses import dataclass, replace

from data import chinese_pieces as cut
from data.chinese_pieces import Cut, Piece, cut_of
from data.dish_table import DishFacts
from data.drawings import Colour, rgb


@dataclass(frozen=True, slots=True)
class Serving:
    """What a picture shows."""

    form: str  # a key of `FORMS` in data/chinese_dishes.py
    vessel: str  # a key of `VESSELS` there
    colour: Colour  # of the sauce, the broth, the crust
    cuts: tuple[Cut, ...] = ()  # the bulk, the main ingredient first
    strewn: tuple[Cut, ...] = ()  # over it
    red_oil: bool = False
    warm: bool = False
    size: float = 1.0  # of the vessel: 1 is usual
    lid: bool = False  # it came with its lid, which lies beside it
    piece: Piece | None = None  # what forms of one kind of piece are made of: buns, dumplings, cakes
    broad: bool = False  # belt noodles
    mark: str = ""  # grid: a pot with nine compartments; mould: tofu with a white down


# Word of a colour -> colour; the first that is found.
_COLOURS = [
    (re.compile(pattern), rgb(code))
    for pattern, code in (
        ("酱红|红褐|红棕|枣红", "8e3420"), ("深红|暗红", "8a261c"), ("橙红|橘红|红亮", "dd5a2a"),
        ("粉红|粉", "e59c94"), ("橙黄|橙", "f0a638"), ("金黄|金", "dfa03a"), ("浅黄|淡黄|米黄|嫩黄", "ecd796"),
        ("黄", "ecc352"), ("浅褐|浅棕|浅咖", "b5885a"), ("深褐|深棕|酱色", "56351f"), ("褐|棕|咖啡|酱", "855131"),
        ("浅绿|嫩绿|淡绿", "a5cd74"), ("翠绿|绿|青", "58a03c"), ("灰", "d6d3c8"), ("乳白|奶白|米白", "f3ead4"),
        ("白|透明", "f6f0e2"), ("黑|乌", "322d2c"), ("紫", "6d4079"), ("红", "c4331f"),
    )
]  # fmt: skip
BROWN = rgb("855131")

# Words of the dishware -> vessel, its size (1 is usual).
_DISHWARE = [
    (re.compile(pattern), vessel, size)
    for pattern, vessel, size in (
        ("铜", "copper pot", 1.0), ("铁锅|干锅|鸳鸯|火锅", "wok", 1.0), ("铁板", "iron plate", 1.0),
        ("汽锅", "steam pot", 1.0), ("炖盅|盅|罐|坛", "jar", 1.0), ("砂锅|煲|瓦|陶|石锅|砂钵|钵", "clay pot", 1.0),
        ("蒸笼|笼", "steamer", 1.0), ("托盘|烤盘|签", "tray", 1.0), ("竹筒", "tube", 1.0),
        ("竹|簸箕|篮|箩", "basket", 1.0), ("木|案板|板", "board", 1.0), ("叶", "leaf", 1.0), ("盆", "basin", 1.0),
        ("大汤碗|汤盆|海碗", "bowl", 1.16), ("小碗|茶碗", "bowl", 0.76), ("碗|杯", "bowl", 0.98),
        ("椭圆|长盘|鱼盘|长方", "long plate", 1.0), ("大圆盘|大盘", "plate", 1.1), ("小碟|碟", "plate", 0.78),
        ("深盘", "deep plate", 1.0), ("", "plate", 1.0),
    )
]  # fmt: skip

# What the presentation says, what another fact says (category, name, main ingredient, techniques, dishware, each set in
# bars), form. The first row that fits decides.
_RULES = [
    (re.compile(presentation), re.compile(fact), form)
    for presentation, fact, form in (
        ("边煮边吃|锅放在桌上", "[|]铜火锅[|]|涮羊肉", "copper pot"), ("边煮边吃|锅放在桌上", "", "hot pot"),
        ("", "[|]铜火锅[|]", "copper pot"), ("串", "", "skewers"), ("", "串[|]", "skewers"),
        ("叶子包|叶包", "米|粽", "leaf parcels"), ("叶子包|叶包", "鸡|鸭", "whole fowl"), ("", "粽", "leaf parcels"),
        ("热汤和生料|生料", "", "bridge noodles"), ("许多小碟", "", "saucers"), ("细丝.*圈", "", "wheel"),
        ("拱形|倒扣", "", "dome"), ("一整张", "海蛎|牡蛎|蚵", "oyster omelette"), ("一整张|整张", "", "pancakes"),
        ("花刀", "松鼠|菊花|松子鱼", "squirrel fish"), ("花刀", "鱼", "whole fish"),
        ("整只|整条|全鱼", "鱼头", "fish head"), ("整只|整条", "鱼|鲈|鲤|鳜|鲫", "whole fish"),
        ("整只|整条", "鸡|鸭|鹅|鸽", "whole fowl"), ("整只|整条", "蟹|虾", "shellfish"),
        ("整只|整条", "", "big cubes"), ("蒸笼", "粉果|肠粉", "rolls"), ("蒸笼", "", "arranged"),
        ("大盘盛装", "面[|]|鸡[|]", "belt noodles"), ("大盘盛装", "[|]米饭[|]|饭", "rice"),
        ("大盘盛装", "", "on the bone"), ("松散|堆在", "[|]米饭[|]|炒饭", "rice"), ("松散|堆在", "", "stir-fry"),
        ("红油", "面|皮|粉", "dry noodles"), ("红油", "鸡|鸭|白肉", "cold cuts"), ("红油", "", "cold slices"),
        ("浇上炒菜", "", "dry noodles"), ("", "泡馍", "bread soup"), ("", "杨枝甘露|西米露|芒果", "fruit soup"),
        ("", "粥", "congee"), ("浇头|码好|", "[|]面条[|].*(?:拌|浇热油|凉拌)", "dry noodles"),
        ("浇头|码好|", "[|]面条[|]", "noodles in broth"), ("浇头", "粉丝|米线|粉", "noodles in broth"),
        ("清汤|浮在", "汤圆|元宵|丸|燕|馄饨|云吞|抄手|水饺", "sweet soup"), ("", "胡辣汤|[^汤]羹[|]", "thick soup"),
        ("清汤|浮在", "", "clear soup"), ("", "[|]米饭[|]|炒饭|[|]饭", "rice"),
        ("", "蒸蛋|鸡蛋羹|双皮奶|豆花|豆腐脑|布丁|龟苓膏", "custard"), ("连锅|带盖|砂锅", "酿豆腐", "stuffed tofu"),
        ("连锅|带盖", "狮子头|丸|搓丸", "balls"), ("连锅|带盖", "[|]汤羹[|].*焯水|[|]汽锅[|]", "in broth"),
        ("连锅|带盖", "", "braise"), ("码盘|切好", "藕", "filled lotus root"), ("码盘|切好", "烤鸭", "carved duck"),
        ("码盘|切好", "叉烧|烧肉", "roast meat"), ("码盘|切好", "肴肉|凝冻|冻", "terrine"),
        ("码盘|切好", "白肉|皮冻", "cold cuts"), ("码盘|切好", "鸡|鸭|鹅|鸽", "cold cuts"), ("码盘|切好", "", "fan"),
        ("摆开|小份", "打滚|裹粉", "powdered rolls"), ("摆开|小份", "肠粉|卷(?!心)", "rolls"),
        ("摆开|小份", "东坡肉", "one cube"), ("摆开|小份", "凝冻", "jelly domes"),
        ("摆开|小份", "豆腐", "tofu squares"), ("摆开|小份", "大肠", "standing rings"),
        ("摆开|小份", "黄[|]|糕|马蹄糕", "squares"), ("摆开|小份", "生煎|锅贴|煎饺|水煎", "pan-fried"),
        ("摆开|小份", "夹馍|夹饼", "filled bread"), ("摆开|小份", "春卷", "rolls"), ("摆开|小份", "", "arranged"),
        ("亮汁|", "拔丝", "caramelised"), ("亮汁", "[|]豆腐", "tofu"), ("亮汁", "东坡|肘子|蹄膀", "big cubes"),
        ("亮汁", "鳝|鳗", "shredded"), ("亮汁", "[|](?:[^|]*、)*炸[、|]", "fried pieces"), ("亮汁", "", "braise"),
        ("汤汁|大碗", "干丝", "in broth"), ("汤汁|大碗", "", "in broth"), ("汤", "", "in broth"),
        ("", "[|](?:虾|小龙虾|大虾|蟹|螃蟹|生蚝|扇贝|花甲|蛤蜊)[|]", "shellfish"), ("", "清炒|蒜蓉", "greens"),
        ("", "汤[|]|[|]汤羹[|]", "clear soup"), ("", "炸", "fried pieces"), ("", "炖|焖|烧", "braise"),
        ("", "", "stir-fry"),
    )
]  # fmt: skip

# Words of a name -> the piece of which there are several.
_SHAPES = [
    (re.compile(pattern), piece)
    for pattern, piece in (
        ("虾饺", cut.crystal), ("汤包|小笼|灌汤", cut.soup_bun), ("烧卖|烧麦", cut.open_dumpling),
        ("叉烧包", cut.cut_bun), ("馄饨|云吞|抄手|燕|扁食", cut.wonton), ("饺|锅贴", cut.crescent),
        ("麻团|煎堆|麻球", cut.sesame_ball), ("汤圆|元宵|丸|青团|艾粄|团", cut.ball), ("月饼", cut.mooncake),
        ("馕|烧饼|锅盔|火烧", cut.bread_disc), ("春卷", cut.fried), ("酥|饼", cut.flaky), ("包|馒头", cut.round_bun),
    )
]  # fmt: skip
_CUT_WORDS = [  # how the main ingredient is cut
    (
        re.compile("丝"),
        cut.shred,
        {cut.slice_, cut.bone_chunk, cut.fillet, cut.chunk, cut.eel, cut.belly_cube},
    ),
    (re.compile("切丁|丁"), cut.dice, {cut.slice_, cut.bone_chunk, cut.fillet, cut.belly_cube}),
    (re.compile("带骨|斩|切块"), cut.bone_chunk, {cut.slice_}),
]  # fmt: skip
FLOUR = {"noodles", "rice", "bread"}  # what a form of its own is made of


def read_serving(dish: DishFacts) -> Serving:
    """Finds out what a picture of a dish shows.

    The Chinese texts are read, of the food category, the name, the ingredients, the presentation, the colour, the
    temperature, the dishware and the techniques. An unknown word is passed over: every dish has a picture.
    """
    name, presentation = dish.dish_name.zh, dish.presentation_style.zh
    mains = [value.zh for value in dish.main_ingredient]
    techniques = "、".join(value.zh for value in dish.cooking_techniques)
    facts = "|".join(["", dish.food_category.zh, name, *mains, techniques, dish.dishware.zh, ""])
    form = next(f for where, fact, f in _RULES if where.search(presentation) and fact.search(facts))
    vessel, size = next((v, k) for pattern, v, k in _DISHWARE if pattern.search(dish.dishware.zh))
    if form == "whole fowl" and re.search("叶", presentation + name):
        vessel = "leaf"
    words = [*mains, *(value.zh for value in dish.key_ingredients)]
    how = dish.main_ingredient_traits.zh + techniques
    cuts: list[Cut] = []
    for place, word in enumerate(words):
        found = cut_of(word)
        if found is None or any(found.name == other.name for other in cuts):
            continue
        if place < len(mains):
            found = _as_cut(found, how)
            found = replace(found, small=False) if place == 0 else found
        elif form in ("noodles in broth", "dry noodles", "bridge noodles") and found.draw is cut.belly_cube:
            found = replace(found, draw=cut.dice, size=2.4)
        cuts.append(found)
    everything = "、".join([name, *words])
    colour = next((c for pattern, c in _COLOURS if pattern.search(dish.color[0].zh)), BROWN)
    return Serving(
        form=form,
        vessel=vessel,
        colour=colour,
        cuts=tuple(piece for piece in cuts if not piece.small),
        strewn=tuple(piece for piece in cuts if piece.small),
        red_oil="红油" in presentation
        or (dish.color[0].zh == "红" and bool(re.search("辣椒油|牛油|干辣椒", everything))),
        warm=dish.serving_temperature == "warm",
        size=size,
        lid="带盖" in presentation,
        piece=next((piece for pattern, piece in _SHAPES if pattern.search(name)), None),
        broad="宽" in everything or "面皮" in name,
        mark="grid" if "毛肚火锅" in facts else "mould" if "毛豆腐" in facts else "",
    )


def _as_cut(piece: Cut, how: str) -> Cut:
    for pattern, draw, applies in _CUT_WORDS:
        if piece.draw in applies and pattern.search(how):
            return replace(piece, draw=draw, size=3.2 if draw is not cut.bone_chunk else 4.8)
    return piece
