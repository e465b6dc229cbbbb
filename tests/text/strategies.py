"""Hypothesis strategies for difficult texts: every script, joined characters, invalid text."""

from hypothesis import strategies as st

#: Characters whose rules meet: marks with and without letters, joiners, emoji, jamo, wide forms.
TRICKY = [
    *"aZ09 _-/.'\n\t\x00",
    *"éÉßẞİıſﬁﬃǆŉøŁœÆ",
    *"\u0301\u0338\u0345\u20dd\u20e3\u034f\u00ad",  # marks and what joins or hides
    *"ΣσςάΐᾳЙйёї",
    *"½⁄™①㏂㍿㎏㍘²",
    *"数据库使用部署々〇〆𠮷\U0002ffff\ufa0e⼀⺀",
    *"がかカヷゝー・゛\u3099\u309aﾊﾟｶﾞﾝ",
    *"한국어가각ㄱㅏㄳㅋ\u1100\u1161\u11a8\u1160\uffa1\uffc2\ud7cb",
    *"ㄅㄆㆠ",
    *"हिन्दी\u200cภาษำ\u0e48العَرَبِيَّة\u0640עִבְרִית",
    *"\u200d\ufe0f\ufe0e\u200b\u2060\ufeff\u202e",
    *"👩💻👍🏽❤🏴\U000e0067\U000e007f🇩🇪🇫✅→≠€°®",
    "\ud800",
    "\udfff",
    "\ue000",
    "\U0001f1e6\ufe0f",
    "\U00011099\U000110ba",
    "👩\u200d👩\u200d👧",
    "1\ufe0f\u20e3",
    "parseQuery",
    "HTTPServer2",
    "ПолучитьДанные",
]

any_character = st.characters(exclude_categories=())
texts = st.lists(st.one_of(st.sampled_from(TRICKY), any_character), max_size=30).map("".join)
tricky_texts = st.lists(st.sampled_from(TRICKY), max_size=25).map("".join)
any_text = st.one_of(texts, tricky_texts)
