r"""What a YAML syntax error means and what to do about it: the mistakes that people make with contracts, in their words."""

from __future__ import annotations

import re
from typing import NamedTuple

from ruamel.yaml.error import MarkedYAMLError

from contracts.scanning import TabIndents

_UNQUOTED_BRACES = re.compile(r"(?:^|[:\-,\[])\s*\{\{|:\s+[^'\"\s{\[][^'\"]*\{\{[^'\"]*\}\}\s*:\s")
_COLON_IN_TEXT = re.compile(r"^\s*(?:-\s+)?[\w.*-]+\s*:\s+\S.*?:(?:\s|$)|,\s*[^'\"]*:\s.*:\s")


class SyntaxProblem(NamedTuple):
    """A syntax error in words, with its position from 1."""

    line: int
    column: int
    message: str
    hint: str


def explain_syntax(error: MarkedYAMLError, text: str) -> SyntaxProblem:
    """Puts the parser's complaint into words.

    The file's own words are not repeated: a value on that line may be a secret, and nothing is known of it yet.
    """
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    context, problem = error.context or "", error.problem or ""
    lines = text.split("\n")
    source = lines[line] if line < len(lines) else ""
    if isinstance(error, TabIndents):
        message, hint = "a tab stands in the indentation", "indent with blanks"
    elif "quoted scalar" in context and "end of stream" in problem and error.context_mark:
        line, column = error.context_mark.line, error.context_mark.column
        message, hint = "a quoted text is not closed", "add the closing quote; within '…' a quote is written twice"
    elif _UNQUOTED_BRACES.search(source):
        column = source.index("{{")
        message, hint = "an unquoted `{{` is read as a mapping", 'quote the text: "{{name}}"'
    else:
        message, hint = _words(context, problem, source)
        begins = error.context_mark
        if begins and (("flow" in context and begins.line != line) or re.search("alias|anchor|tag", context)):
            line, column = begins.line, begins.column
        elif "unknown escape" in problem:
            column -= 1  # at the backslash
    return SyntaxProblem(line + 1, column + 1, message, hint)


def _words(context: str, problem: str, source: str) -> tuple[str, str]:
    if start := re.search(r"found character '(.+)' that cannot start any token", problem):
        return f"a text cannot begin with `{start[1]}` unless it is quoted", "put the text in single quotes"
    if "escape" in problem or "escape sequence" in context or "double-quoted" in context:
        return (
            "in double quotes a backslash begins an escape, and this is none",
            r"use single quotes for backslashes: 'C:\DSWIN'",
        )
    if "alias" in context:
        return "an unquoted `*` begins an alias", "quote the text, such as '*.TMP'"
    if "anchor" in context:
        return "an unquoted `&` begins an anchor", "quote the text"
    if "tag" in context:
        return "an unquoted `!` begins a tag", "quote the text"
    if "mapping values are not allowed" in problem:
        if _COLON_IN_TEXT.search(source):
            return "`: ` stands inside an unquoted text", "put the whole text in quotes"
        return (
            "a `:` is not expected here",
            "check the indentation, and the line before: it may lack its `:`, or a quote",
        )
    if "could not find expected ':'" in problem:
        return "a `:` is missing", "a line is `name: value`; continue a long text with `>` or in quotes"
    if "sequence entries are not allowed" in problem:
        return "a list cannot begin here", "put each `- ` on its own line, or quote a text that begins with `-`"
    if "flow mapping" in context:
        return "a `{` is not closed, or a comma is missing", "add the `}`; quote texts that contain braces or commas"
    if "flow sequence" in context:
        return "a `[` is not closed, or a comma is missing", "add the `]`; quote texts that contain brackets or commas"
    if "found '<scalar>'" in problem:
        return "something follows after the value", "put the whole text in one pair of quotes"
    if "block" in context and "expected" in problem:
        return "the indentation does not fit", "items of one list or mapping begin in the same column"
    if "block scalar" in context:
        return "the text after `|` or `>` does not begin as it should", "put it on the next line, indented"
    if "directive" in context:
        return "a line cannot begin with `%`", "quote the text"
    if "quoted scalar" in context:
        return "a quoted text is not closed before the document ends", "add the closing quote"
    return "this is not YAML", "check quotes and indentation"
