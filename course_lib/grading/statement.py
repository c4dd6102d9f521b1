"""The sentences of a task's statement, and which of them a quotation means. Pure text: reads no file, runs nothing.

The statement is what a learner reads: the text above the task's cell, and the docstrings in it. Headings, tables and
code are not sentences; an item of a list has sentences of its own, also where it ends without a full stop.
"""

from __future__ import annotations

import re

#: So many words of a sentence point it out; fewer do where they are a whole clause of it.
_ENOUGH = 3
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_BLOCK_ENDS = re.compile(r"\n(?:[ ]*\n)+|\n(?=[ ]*(?:[-*]|\d+\.) )")
_ITEM = re.compile(r" *(?:[-*]|\d+\.) ")
_CODE = re.compile(r"`[^`]*`")
_SENTENCE_END = re.compile(r"""(?<!e\.g)(?<!i\.e)[.!?][)"'*_]*(?= [^a-z]|$)""")
_CLAUSE_ENDS = re.compile(r"[.,;:!?()]| - ")


def in_one_line(text: str) -> str:
    """A text whose words are separated by one blank each."""
    return " ".join(text.split())


def sentences_in(statement: str) -> tuple[str, ...]:
    """Every sentence of a statement in Markdown, in order, each in one line."""
    found: list[str] = []
    for block in _BLOCK_ENDS.split(_FENCED.sub("\n", statement)):
        item = _ITEM.match(block)
        if item is None and block.lstrip("\n").startswith(("#", "|", "    ")):
            continue
        text = in_one_line(block[item.end() :] if item else block)
        readable = _CODE.sub(lambda code: "X" * len(code[0]), text)  # a full stop in code ends nothing
        begin = 0
        for end in (*(match.end() for match in _SENTENCE_END.finditer(readable)), len(text)):
            found.append(text[begin:end].strip())
            begin = end
    return tuple(sentence for sentence in dict.fromkeys(found) if sentence)


def is_quoted(quotation: str, sentence: str) -> bool:
    """Whether the quotation is the sentence or a part of it that is long enough to mean it."""
    quotation = in_one_line(quotation)
    if quotation == sentence:
        return True
    if len(quotation.split()) < _ENOUGH:
        clauses = {clause.strip() for clause in _CLAUSE_ENDS.split(sentence)}
        return quotation.rstrip(".,;:!?") in clauses
    return re.search(rf"(?<!\w){re.escape(quotation)}(?!\w)", sentence) is not None
