"""
title: Letters
"""


def digits(text):
    return sum(1 for c in text if c.isdigit())


def has_upper(text):
    return any(c.isupper() for c in text)


def is_blank(text):
    return all(c.isspace() for c in text)


def widest(values):
    return max(len(one) for one in values)


def codes(text):
    out = []
    for c in text:
        if c.isalpha():
            out.append(ord(c))
    return out


class Tools:
    def letters(self, text: str) -> dict:
        return {
            "digits": digits(text),
            "upper": has_upper(text),
            "blank": is_blank(text),
            "codes": codes(text),
            "known": [c.upper() for c in text if c.isalpha()],
            "counts": {c: text.count(c) for c in text},
            "sorted": "".join(sorted(set(text))),
            "first": next((c for c in text if c.isdigit()), None),
            "pairs": [f"{i}{c}" for i, c in enumerate(text)],
            "last": max(text),
            "dashed": "-".join(text),
        }

    def table(self, table: dict) -> dict:
        def named(rows):
            return [key for key in rows if key != "b"]

        return {
            "named": named(table),
            "long": any(len(key) > 2 for key in table),
            "widest": widest(table),
            "list": widest(["a", "bb"]),
            "text": widest("abc"),
            "sorted": sorted(table, reverse=True),
            "any": any(table),
            "all": all(key in table for key in "ab"),
        }
