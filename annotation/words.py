"""Every sentence of the pages, in Chinese and English."""

import html
from collections.abc import Mapping
from typing import Any

from annotation.store import Refused

LANGUAGES = ("zh", "en")

# key: (Chinese, English); {gaps} are filled by `say`
_WORDS: dict[str, tuple[str, str]] = {
    "title": ("美食图文标注", "Food annotation"),
    "subtitle": ("收集 · 标注 · 核验", "collect · annotate · verify"),
    "other_language": ("English", "中文"),
    "sign_out": ("退出", "Sign out"),
    "sign_in": ("登录", "Sign in"),
    "sign_in_intro": (
        "请输入您的名字。首次登录时会自动建立账户，以后请使用同样的名字。",
        "Enter your name. The first time, an account is made; use the same name from then on.",
    ),
    "name_label": ("名字", "Name"),
    "phrase_label": ("PIN 或口令（至少 4 位）", "PIN or pass-phrase (4 characters or more)"),
    "setup_hint": (
        "管理员账户“{name}”还没有建立：首次登录时，请在口令后加一个空格和终端里显示的设置码。",
        "The administrator's account “{name}” does not exist yet: at its first sign-in, add a space and the setup code "
        "shown in the terminal to the pass-phrase.",
    ),
    # tabs
    "tab_collect": ("上传照片", "Photos"),
    "tab_review": ("审核照片", "Review"),
    "tab_dish": ("菜品信息", "Dishes"),
    "tab_group": ("图片分组", "Group"),
    "tab_write": ("编写问题", "Write"),
    "tab_verify": ("核验问题", "Verify"),
    "tab_admin": ("管理", "Admin"),
    # collect
    "collect_help": (
        "请上传您自己拍的菜品照片：清晰，只有一道菜，菜在中央。请写具体的菜名（“麻婆豆腐”，而不是“豆腐”）。"
        "一次最多 {limit} 张同一道菜的照片。",
        "Upload your own photos of a dish: sharp, one dish only, in "
        "the centre. Give the specific name (“mapo tofu”, not "
        "“tofu”). Up to {limit} photos of the same dish at a time.",
    ),
    "files": ("照片", "Photos"),
    "cuisine": ("菜系", "Cuisine"),
    "cuisine_other": ("其他菜系（请注明）", "Other cuisine (say which)"),
    "dish_name": ("菜名", "Dish name"),
    "place": ("用餐地点", "Where it was served"),
    "consent_box": (
        "我同意将这些照片用于研究，并确认它们是我自己拍的、没有在网上公开过（既不是下载的，也没有上传过）。",
        "I permit the use of these photos for research, and confirm that they are my own and not publicly online: "
        "neither downloaded from nor uploaded to the web.",
    ),
    "privacy": (
        "照片中的拍摄地点、时间等信息（EXIF）会被删除。",
        "Place, time and other information in the file (EXIF) is removed.",
    ),
    "upload": ("提交照片", "Send photos"),
    "upload_done": ("已保存 {count} 张照片，谢谢！", "{count} photo(s) saved. Thank you!"),
    "upload_known": (
        "{count} 张照片以前已经上传过，没有重复保存。",
        "{count} photo(s) had been sent before and were not kept twice.",
    ),
    "my_photos": ("我上传的照片", "My photos"),
    "withdraw_picked": ("撤回选中的照片", "Withdraw the chosen photos"),
    "pick_photo": ("请先选择照片。", "Choose photos first."),
    "none_yet": ("这里还没有内容。", "Nothing here yet."),
    "pending": ("待审核", "pending"),
    "accept": ("接受", "Accept"),
    "reject": ("拒绝", "Reject"),
    "accepted": ("已接受", "accepted"),
    "rejected": ("未接受", "rejected"),
    # review
    "review_help": (
        "接受清晰、以一道菜为中心、与菜名相符的照片，并选择食物类别；否则拒绝并说明原因。",
        "Accept photos that are sharp, centred on one dish and match its name, and choose a food category; otherwise "
        "reject them with a reason.",
    ),
    "review_left": ("待审核：{count} 张", "To review: {count}"),
    "review_none": ("没有待审核的照片。", "No photos wait for review."),
    "review_what": ("看什么", "Show"),
    "review_pending": ("待审核的照片", "Photos to review"),
    "review_done_ones": ("已审核的照片（可以修改）", "Reviewed photos (can be changed)"),
    "category": ("食物类别", "Food category"),
    "reason": ("拒绝原因", "Reason for rejection"),
    "note": ("说明", "Remark"),
    "verdict": ("接受或拒绝", "accept or reject"),
    "skip": ("跳过", "Skip"),
    "saved": ("已保存。", "Saved."),
    # dish
    "dish_help": (
        "请根据生活经验和可靠资料填写一道有代表性的地方菜。多个值用“；”或“、”分开。草稿会自动保存。",
        "Describe a representative local dish, from experience and "
        "good sources. Separate several values by “;”. Drafts "
        "are saved as you go.",
    ),
    "dish_choose": ("菜品", "Dish"),
    "dish_new": ("＋ 新的菜品", "＋ New dish"),
    "dish_save": ("保存菜品", "Save dish"),
    "dish_withdraw": ("删除这道菜", "Remove this dish"),
    "dish_saved": ("已保存“{name}”。", "“{name}” is saved."),
    "draft_kept": ("草稿已保存", "Draft saved"),
    # group
    "group_help": (
        "选择菜系或食物类别，再选四张照片组成一组。照片不显示菜名。",
        "Choose a cuisine or a food category, then four photos for a group. No dish names are shown.",
    ),
    "group_by": ("按", "By"),
    "by_cuisine": ("菜系", "Cuisine"),
    "by_category": ("食物类别", "Food category"),
    "group_value": ("名称", "Which one"),
    "group_make": ("用选中的四张照片建立一组", "Make a group of the four chosen photos"),
    "group_made": ("已建立一组。", "The group is made."),
    "group_list": ("已有的组", "Groups"),
    "group_split": ("拆开选中的组", "Take the chosen group apart"),
    "group_choose": ("要拆开的组", "Group to take apart"),
    "ungrouped": ("尚未分组的照片：{count} 张；已选 {picked} 张", "Photos without a group: {count}; {picked} chosen"),
    # write
    "write_help": (
        "为这四张图片写两到三个问题：必须看图才能回答；不只是认出菜名，最好需要多步推理；类型多样；只有一个正确答案。",
        "Write two or three questions about these four photos: they need the photos, go beyond recognising the dish, "
        "better take several steps of thought, are of various types, and have one right answer.",
    ),
    "write_group": ("图片组", "Group of photos"),
    "write_none": ("还没有图片组；请先在“图片分组”中建立。", "There are no groups yet; make one under “Group”."),
    "slot": ("问题 {number}", "Question {number}"),
    "question": ("问题", "Question"),
    "question_en": ("英文问题（可选）", "Question in English (optional)"),
    "kind": ("选项", "Options"),
    "kind_images": ("四张图片就是选项", "The four photos are the options"),
    "kind_texts": ("四个文字选项", "Four texts"),
    "option_A": ("选项 A", "Option A"),
    "option_B": ("选项 B", "Option B"),
    "option_C": ("选项 C", "Option C"),
    "option_D": ("选项 D", "Option D"),
    "answer": ("正确答案", "Right answer"),
    "question_type": ("问题类型", "Question type"),
    "write_save": ("保存这一页", "Save this page"),
    "write_saved": ("已保存 {count} 个问题。", "{count} questions are saved."),
    "write_withdraw": ("撤回这一页的问题", "Withdraw this page's questions"),
    "withdrawn": ("已撤回。", "Withdrawn."),
    # verify
    "verify_help": (
        "请凭自己的知识回答，不要使用搜索引擎。",
        "Answer from your own knowledge, without a search engine.",
    ),
    "verify_keys": (
        "键盘：<kbd>A</kbd>–<kbd>D</kbd> 回答 · <kbd>0</kbd> 我不知道（再按 <kbd>1</kbd>–<kbd>4</kbd> 猜 A–D） · "
        "<kbd>S</kbd>/<kbd>M</kbd> 单步/多步 · <kbd>R</kbd> 理由 "
        "· <kbd>F</kbd> 问题有误 · <kbd>Enter</kbd> 保存并继续 · "
        "<kbd>←</kbd> <kbd>→</kbd> 前后 · <kbd>Esc</kbd> 离开输入框",
        "Keys: <kbd>A</kbd>–<kbd>D</kbd> answer · <kbd>0</kbd> I don't "
        "know (then <kbd>1</kbd>–<kbd>4</kbd> guess A–D) · "
        "<kbd>S</kbd>/<kbd>M</kbd> single/multi-hop · <kbd>R</kbd> rationale · <kbd>F</kbd> bad question · "
        "<kbd>Enter</kbd> save and go on · <kbd>←</kbd> <kbd>→</kbd> "
        "back and forth · <kbd>Esc</kbd> leave a text field",
    ),
    "verify_none": (
        "目前没有分配给您的问题。您不会核验自己写的问题，也不会核验自己上传或审核过的照片的问题。",
        "No question is assigned to you now. You do not verify questions of your own, nor questions on photos that you "
        "uploaded or reviewed.",
    ),
    "verify_progress": (
        "第 {place} 题，共 {total} 题；已回答 {done} 题",
        "Question {place} of {total}; {done} answered",
    ),
    "all_done": ("全部完成，谢谢！仍可修改答案。", "All done, thank you! Answers can still be changed."),
    "choice": ("答案", "Answer"),
    "dont_know": ("我不知道", "I don't know"),
    "guess": ("如果一定要猜（可选，单独保存）", "If you had to guess (optional, kept apart)"),
    "rationale": ("理由：您如何得出答案？", "Rationale: how did you find the answer?"),
    "hops": ("推理步骤", "Steps of thought"),
    "hops_single": ("单步", "Single-hop"),
    "hops_multiple": ("多步", "Multi-hop"),
    "bad": ("这个问题有误", "This is a bad question"),
    "bad_reason": ("哪里有误？", "What is wrong with it?"),
    "verify_save": ("保存并继续", "Save and go on"),
    "previous": ("← 上一题", "← Back"),
    "next": ("下一题 →", "Next →"),
    "verify_jump": ("跳到", "Go to"),
    "verify_retract": ("撤回这个答案", "Withdraw this answer"),
    "answered_mark": ("✓ 已回答", "✓ answered"),
    # admin
    "admin_progress": ("进度", "Progress"),
    "admin_standing": ("问题的状态", "State of the questions"),
    "open": ("待核验", "waiting"),
    "partly": ("部分核验", "under way"),
    "agree": ("一致", "agree"),
    "disagree": ("不一致", "disagree"),
    "unknown": ("有人不知道", "somebody does not know"),
    "bad_state": ("被标为有误", "flagged as bad"),
    "admin_refresh": ("刷新", "Refresh"),
    "admin_export": ("导出全部数据", "Export everything"),
    "admin_exported": ("导出完成：", "Exported: "),
    "admin_agreement": ("计算一致性", "Compute the agreement"),
    "admin_disagreements": ("不一致的问题（供第三人判断）", "Disagreements (for a third judge)"),
    "admin_notes": ("日志说明", "Notes on the log"),
    "annotator": ("标注者", "Annotator"),
    "photos": ("照片", "Photos"),
    "reviews": ("审核", "Reviews"),
    "dishes": ("菜品", "Dishes"),
    "questions": ("问题", "Questions"),
    "verified": ("已核验", "Verified"),
    "truth": ("作者的答案", "Author's answer"),
    "given": ("核验者的答案", "Verifiers' answers"),
    "no_agreement": ("还没有两人都回答过的问题。", "No question has been answered by two people yet."),
    # messages
    "missing": ("还缺：{label}", "Missing: {label}"),
    "long": ("“{label}”太长（最多 {limit} 字）", "“{label}” is too long ({limit} characters at most)"),
    "too_long": ("内容太长，没有保存。", "This is too long and was not saved."),
    "disk": (
        "服务器无法写入磁盘，没有保存；请通知管理员。",
        "The server cannot write to its disk; nothing was saved. Tell the administrator.",
    ),
    "consent": ("需要勾选同意", "Your consent is needed"),
    "photo_count": ("请选择 1 到 {limit} 张照片", "Choose 1 to {limit} photos"),
    "photo_bytes": ("照片文件太大（最多 {limit} MB）", "The file is too large ({limit} MB at most)"),
    "photo_pixels": (
        "照片像素太多（最多 {limit} 百万像素）",
        "The photo has too many pixels ({limit} million at most)",
    ),
    "photo_small": ("照片太小（每边至少 {limit} 像素）", "The photo is too small ({limit} pixels a side at least)"),
    "photo_kind": ("无法读取照片；请使用 {kinds}", "The photo cannot be read; use {kinds}"),
    "photo_taken": (
        "有照片已被分组或不再可用，请重新选择。",
        "A photo is in a group by now or no longer there; choose again.",
    ),
    "four_photos": ("请选择四张照片（现在是 {count} 张）", "Choose four photos (now {count})"),
    "own_photo": ("不能审核自己上传的照片。", "You cannot review photos of your own."),
    "not_yours": ("这是别人的内容。", "This belongs to somebody else."),
    "gone": ("这一项已不存在。", "This is no longer there."),
    "group_used": ("这一组已有问题，不能拆开。", "This group has questions and cannot be taken apart."),
    "in_slot": ("问题 {number}：{reason}", "Question {number}: {reason}"),
    "options_equal": ("四个选项必须互不相同", "The four options must differ"),
    "questions_equal": ("有两个问题相同", "Two of the questions are the same"),
    "questions_few": ("请至少写 {least} 个问题（现在有 {count} 个）", "Write {least} questions or more (now {count})"),
    "not_assigned": ("这个问题没有分配给您。", "This question is not assigned to you."),
    "question_changed": (
        "作者刚刚修改了这个问题，请重新看一遍再回答。",
        "The author has just changed this question; look again, then answer.",
    ),
    "no_answer": ("还没有保存过答案。", "There is no saved answer."),
    "admin_only": ("只有管理员可以使用。", "Only the administrator can do this."),
    "name": ("名字需要 1 到 40 个字符", "A name has 1 to 40 characters"),
    "name_taken": ("这个名字已被使用", "This name is taken"),
    "phrase_length": ("口令需要 4 到 200 个字符", "A pass-phrase has 4 to 200 characters"),
    "phrase_wrong": ("名字已被使用，但口令不对", "The name is known, but the pass-phrase is another"),
    "no_phrase": (
        "这个账户没有口令，只能在 auth=none 时使用",
        "This account has no pass-phrase; it works with auth=none only",
    ),
    "setup_code": (
        "管理员账户首次登录时，口令后要加一个空格和终端里显示的设置码",
        "At its first sign-in the administrator's pass-phrase is "
        "followed by a space and the setup code of the terminal",
    ),
    "wait": ("尝试次数太多，请稍后再试", "Too many attempts; wait a few minutes"),
    "fact_missing": ("还缺：{fact}", "Missing: {fact}"),
    "fact_three": ("“{fact}”需要三个值（现在是 {count} 个）", "{fact}: three values are needed (now {count})"),
    "fact_wrong": ("“{fact}”有误：{reason}", "{fact}: {reason}"),
    "dish_known": ("“{name}”（或它的一个名字）已在表中", "“{name}”, or one of its names, is in the table already"),
    "reload": ("请重新登录。", "Please sign in again."),
}


def say(key: str, language: str, **values: Any) -> str:
    """The sentence of that key."""
    return _WORDS[key][LANGUAGES.index(language)].format(**values)


def message(refused: Refused, language: str) -> str:
    """What is missing or wrong, as plain text; several reasons are separated."""
    return ("；" if language == "zh" else "; ").join(_reason(*reason, language=language) for reason in refused.reasons)


def _reason(key: str, values: Mapping[str, Any], language: str) -> str:
    filled = dict(values)
    if "label" in filled:
        filled["label"] = say(filled["label"], language).split("：")[0].split(": ")[0]
    if "fact" in filled:
        filled["fact"] = filled["fact"][LANGUAGES.index(language)]
    if isinstance(filled.get("reason"), tuple):
        filled["reason"] = _reason(*filled["reason"], language=language)
    return say(key, language, **filled)


def escape(text: Any) -> str:
    """Text of people as text of a page."""
    return html.escape(str(text), quote=True)
