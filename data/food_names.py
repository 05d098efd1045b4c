"""English names for what FoodieQA files spell in Chinese or in code words: question types, cuisines, food categories.

Tables and figures show these; records, group keys and reports of content keep the raw spelling.
"""

import re
import unicodedata

TYPE_NAMES = {
    "cuisine_type": "Cuisine type",
    "region-2": "Region",
    "cooking-skills": "Cooking skills",
    "main-ingredient": "Main ingredient",
    "warm-cold": "Warm or cold",
    "flavor": "Flavor",
    "present": "Presentation",
    "ingredients": "Ingredients",
    "food-type": "Food type",
    "taste": "Taste",
    "color": "Color",
    "eating-habit": "Eating habit",
    "plating": "Plating",
    "region": "Region",
    "allergy": "Allergy",
    "amount": "Amount",
    "expense": "Expense",
    "smell": "Smell",
    "history": "History",
    "other": "Other",
}

CATEGORY_NAMES = {
    "meat": "Meat",
    "seafood": "Seafood",
    "snack": "Snacks",
    "tofu": "Tofu",
    "bbq": "Barbecue",
    "main-noodle": "Noodles",
    "main-hotpot": "Hotpot",
    "main-soup": "Soups",
    "main-bao": "Filled buns",
    "main-rice": "Rice",
    "main-dumpling": "Dumplings",
    "main-porridge": "Porridge",
    "vegetable": "Vegetables",
    "dessert": "Desserts",
    "drink": "Drinks",
    "egg": "Eggs",
    "staple": "Staple food",
    "肉类": "Meat",
    "荤菜": "Meat",
    "海鲜": "Seafood",
    "水产": "Seafood",
    "小吃": "Snacks",
    "豆腐": "Tofu",
    "豆制品": "Tofu",
    "烧烤": "Barbecue",
    "面食": "Noodles",
    "面条": "Noodles",
    "火锅": "Hotpot",
    "汤": "Soups",
    "包子": "Filled buns",
    "米饭": "Rice",
    "饺子": "Dumplings",
    "粥": "Porridge",
    "蔬菜": "Vegetables",
    "素菜": "Vegetables",
    "凉菜": "Cold dishes",
    "甜点": "Desserts",
    "甜品": "Desserts",
    "主食": "Staple food",
}

# Without the final 菜. A province's short and long name lead to one English name, so both are one group in a figure.
CUISINE_NAMES = {
    "川": "Sichuan",
    "四川": "Sichuan",
    "粤": "Cantonese",
    "广东": "Guangdong",
    "鲁": "Shandong",
    "山东": "Shandong",
    "苏": "Jiangsu",
    "江苏": "Jiangsu",
    "浙": "Zhejiang",
    "浙江": "Zhejiang",
    "闽": "Fujian",
    "福建": "Fujian",
    "湘": "Hunan",
    "湖南": "Hunan",
    "徽": "Anhui",
    "安徽": "Anhui",
    "西北": "Northwest",
    "东北": "Northeast",
    "新疆": "Xinjiang",
    "南疆": "Southern Xinjiang",
    "内蒙": "Inner Mongolia",
    "内蒙古": "Inner Mongolia",
    "蒙": "Inner Mongolia",
    "赣": "Jiangxi",
    "江西": "Jiangxi",
    "黔": "Guizhou",
    "贵州": "Guizhou",
    "滇": "Yunnan",
    "云南": "Yunnan",
    "沪": "Shanghai",
    "上海": "Shanghai",
    "本帮": "Shanghai",
    "京": "Beijing",
    "北京": "Beijing",
    "津": "Tianjin",
    "天津": "Tianjin",
    "渝": "Chongqing",
    "重庆": "Chongqing",
    "冀": "Hebei",
    "河北": "Hebei",
    "豫": "Henan",
    "河南": "Henan",
    "晋": "Shanxi",
    "山西": "Shanxi",
    "陕": "Shaanxi",
    "陕西": "Shaanxi",
    "秦": "Shaanxi",
    "陇": "Gansu",
    "甘": "Gansu",
    "甘肃": "Gansu",
    "青海": "Qinghai",
    "宁夏": "Ningxia",
    "鄂": "Hubei",
    "湖北": "Hubei",
    "桂": "Guangxi",
    "广西": "Guangxi",
    "琼": "Hainan",
    "海南": "Hainan",
    "辽": "Liaoning",
    "辽宁": "Liaoning",
    "吉": "Jilin",
    "吉林": "Jilin",
    "黑龙江": "Heilongjiang",
    "藏": "Tibet",
    "西藏": "Tibet",
    "台": "Taiwan",
    "台湾": "Taiwan",
    "港": "Hong Kong",
    "香港": "Hong Kong",
    "澳": "Macau",
    "澳门": "Macau",
    "客家": "Hakka",
    "潮汕": "Chaoshan",
    "潮州": "Chaozhou",
    "顺德": "Shunde",
    "广州": "Guangzhou",
    "淮扬": "Huaiyang",
    "杭帮": "Hangzhou",
    "杭州": "Hangzhou",
    "宁波": "Ningbo",
    "绍兴": "Shaoxing",
    "温州": "Wenzhou",
    "苏州": "Suzhou",
    "无锡": "Wuxi",
    "扬州": "Yangzhou",
    "南京": "Nanjing",
    "厦门": "Xiamen",
    "西安": "Xi'an",
    "兰州": "Lanzhou",
    "成都": "Chengdu",
    "武汉": "Wuhan",
    "长沙": "Changsha",
    "哈尔滨": "Harbin",
    "清真": "Halal",
    "家常": "Home-style",
    "华北": "North China",
    "西南": "Southwest",
    "华南": "South China",
    "南方": "Southern China",
    "北方": "Northern China",
    "江南": "Jiangnan",
    "江浙": "Jiangsu and Zhejiang",
    "江浙沪": "Jiangsu, Zhejiang, Shanghai",
    "川渝": "Sichuan and Chongqing",
    "两广": "Guangdong and Guangxi",
    "云贵": "Yunnan and Guizhou",
    "陕甘宁": "Shaanxi, Gansu, Ningxia",
    "京津": "Beijing and Tianjin",
    "其他": "Other",
    "其它": "Other",
    "其他中式风味": "Other",
}
# What right answers often are, beside cuisines and places: techniques, flavors, ingredients, ways to serve.
ANSWER_NAMES = {
    "炒": "stir-fry",
    "爆炒": "flash stir-fry",
    "煸": "dry-fry",
    "煎": "pan-fry",
    "炸": "deep-fry",
    "油炸": "deep-fry",
    "蒸": "steam",
    "清蒸": "steam plain",
    "煮": "boil",
    "水煮": "boil",
    "白灼": "blanch",
    "焯水": "blanch",
    "氽": "quick-boil",
    "汆": "quick-boil",
    "炖": "stew",
    "焖": "braise covered",
    "烩": "simmer in sauce",
    "烧": "braise",
    "红烧": "braise in soy sauce",
    "卤": "simmer in spiced stock",
    "熬": "simmer long",
    "煲": "slow-cook",
    "烤": "roast",
    "烘焙": "bake",
    "熏": "smoke",
    "拌": "toss",
    "凉拌": "toss cold",
    "腌": "marinate",
    "腌制": "marinate",
    "勾芡": "thicken with starch",
    "涮": "dip in hotpot",
    "焗": "bake in salt or sauce",
    "发酵": "ferment",
    "麻辣": "numbing and hot",
    "香辣": "fragrant and hot",
    "酸辣": "sour and hot",
    "鲜辣": "savory and hot",
    "辣": "hot",
    "麻": "numbing",
    "酸": "sour",
    "甜": "sweet",
    "咸": "salty",
    "苦": "bitter",
    "鲜": "umami",
    "咸鲜": "salty and umami",
    "鲜咸": "salty and umami",
    "鲜甜": "umami and sweet",
    "酸甜": "sweet and sour",
    "甜酸": "sweet and sour",
    "咸甜": "salty and sweet",
    "清淡": "light",
    "酱香": "soy-sauce fragrance",
    "热食": "served hot",
    "冷食": "served cold",
    "热菜": "hot dish",
    "凉菜": "cold dish",
    "鸡": "chicken",
    "鸡肉": "chicken",
    "鸭": "duck",
    "鸭肉": "duck",
    "鹅": "goose",
    "鱼": "fish",
    "草鱼": "grass carp",
    "虾": "shrimp",
    "蟹": "crab",
    "猪肉": "pork",
    "五花肉": "pork belly",
    "排骨": "pork ribs",
    "牛肉": "beef",
    "羊肉": "lamb",
    "鸡蛋": "egg",
    "豆腐": "tofu",
    "面粉": "wheat flour",
    "面条": "noodles",
    "米粉": "rice noodles",
    "大米": "rice",
    "糯米": "glutinous rice",
    "土豆": "potato",
    "茄子": "eggplant",
}
NOT_GIVEN = "Not given"

_ENGLISH_CUISINES = {name.casefold(): name for name in CUISINE_NAMES.values()}
_ADDED = re.compile(r"\s*\([^()]*\)\s*$")
_JOINED = re.compile(r"[.,、/·]")


def display_type(raw: str) -> str:
    """English name of a question type; an unknown one with its hyphens and underscores as spaces."""
    raw = raw.strip()
    if not raw:
        return NOT_GIVEN
    spaced = re.sub(r"[-_]+", " ", raw)
    return TYPE_NAMES.get(raw, spaced[:1].upper() + spaced[1:])


def display_category(raw: str) -> str:
    """English name of a food category; an unknown one with its hyphens as spaces, without a leading `main-`."""
    raw = raw.strip()
    if not raw:
        return NOT_GIVEN
    spaced = re.sub(r"[-_]+", " ", raw.removeprefix("main-"))
    return CATEGORY_NAMES.get(raw, spaced[:1].upper() + spaced[1:])


def display_cuisine(raw: str) -> str:
    """English name of a cuisine, region, province or city, such as `Sichuan` for 川, 川菜 and 川菜（四川，重庆）.

    What is joined by points or commas is translated part by part. A name that is not known comes back as it is.
    """
    return _cuisine(raw) or raw.strip() or NOT_GIVEN


def display_answer(raw: str) -> str:
    """English name of an option where it is a known place, cuisine, technique, flavor or ingredient; else the option.

    For labels of figures only: what is asked and scored is always the option itself.
    """
    text = raw.strip()
    return ANSWER_NAMES.get(text) or _cuisine(text) or text


def merged_cuisine(raw: str) -> str:
    """A cuisine as the authors group it: whatever names Shanghai is 上海菜 (notebook behind figure 9 of the paper).

    That groups of at most two questions become 其他 is left to the report, which knows the counts.
    """
    return "上海菜" if "上海" in raw else raw.strip()


def is_category(group: str) -> bool:
    """Whether an `ann_group` of a multi-image question is a food category; else it is a cuisine.

    The known names decide; of the others those in Latin letters are categories, as all categories of the release are
    and no cuisine of it is.
    """
    group = group.strip()
    if group in CATEGORY_NAMES or group.startswith("main-"):
        return True
    return bool(group) and group.isascii() and not _cuisine(group)


def _cuisine(raw: str) -> str:
    """English name, or nothing where it is not known."""
    text = unicodedata.normalize("NFKC", raw).strip()
    if "上海" in text:
        return "Shanghai"
    for _ in range(2):  # as written, then without what stands in brackets behind it
        base = text.removesuffix("菜系").removesuffix("菜").strip()
        english = _ENGLISH_CUISINES.get(text.casefold().removesuffix("cuisine").strip())
        if found := CUISINE_NAMES.get(text) or CUISINE_NAMES.get(base) or english:
            return found
        text = _ADDED.sub("", text)
    parts = [part for part in _JOINED.split(text) if part.strip()]
    if len(parts) < 2:
        return ""
    names = [_cuisine(part) for part in parts]
    return ", ".join(names) if all(names) else ""
