"""One text of an XML file. Files with a document type declaration are not read: entities of a hostile file have no end."""

from __future__ import annotations

from typing import NoReturn
from xml.parsers import expat

from contracts.places import XmlPlace, xml_place
from contracts.schema import XmlAt
from validators.formats.text import Absent, decoded
from validators.values import shown

_MAX_DEPTH = 1_000
_MAX_TEXT = 1 << 20
_SEVERAL = 2
"""As many hits are enough to know that a place is not one."""


def xml_value(place: XmlAt, content: bytes) -> str:
    """The text of the element or attribute at a place.

    Raises:
        Absent: There is none or there are several, or the content is no XML.
        ContractFault: The declared encoding does not exist.
    """
    return _Finder(xml_place(place.xml)).find(content, place.encoding)


class _Finder:
    """Looks for one place while the document streams by: memory does not grow with it.

    Of the elements that are open, the first few lead along the path; ``_along`` says how many. Declarations are refused, so that
    there are no entities but the five of XML itself.
    """

    def __init__(self, place: XmlPlace) -> None:
        self._place = place
        self._depth = 0
        self._along = 0
        self._counts: list[int] = [0] * (len(place.steps) + 1)
        self._text: list[str] | None = None
        self._length = 0
        self._hits: list[str] = []
        self._lost = False

    def find(self, content: bytes, encoding: str | None) -> str:
        """The text.

        Raises:
            Absent: There is none or there are several, or the content is no XML.
        """
        if encoding is not None:
            content = decoded(content, encoding).encode("utf-8", "surrogatepass")
        parser = expat.ParserCreate("utf-8" if encoding is not None else None)
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(content, True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise Absent(f"the content is no XML ({shown(str(error), 100)})") from None
        if not self._hits:
            what = "attribute" if self._lost else "element"
            raise Absent(f"there is no such {what}")
        if len(self._hits) >= _SEVERAL:
            raise Absent("there are several such elements; say which, as in `name[1]`")
        return self._hits[0]

    @staticmethod
    def _refuse(*_: object) -> NoReturn:
        raise Absent("the content has a document type declaration, and such files are not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Absent(f"the content is nested deeper than {_MAX_DEPTH} elements")
        steps = self._place.steps
        if self._along != self._depth - 1 or self._along == len(steps):
            return
        step = steps[self._along]
        if name.rpartition(":")[2] != step.name:
            return
        if step.attribute is not None and attributes.get(step.attribute[0]) != step.attribute[1]:
            return
        self._counts[self._along] += 1
        if step.nth not in (None, self._counts[self._along]):
            return
        self._along += 1
        self._counts[self._along] = 0
        if self._along < len(steps):
            return
        if self._place.attribute is None:
            self._text, self._length = [], 0
        elif self._place.attribute in attributes:
            self._hit(attributes[self._place.attribute])
        else:
            self._lost = True

    def _end(self, _name: str) -> None:
        if self._along == self._depth:
            if self._text is not None and self._along == len(self._place.steps):
                self._hit("".join(self._text))
                self._text = None
            self._along -= 1
        self._depth -= 1

    def _characters(self, text: str) -> None:
        if self._text is not None and len(self._hits) < _SEVERAL:
            self._length += len(text)
            if self._length > _MAX_TEXT:
                raise Absent(f"its text is longer than {_MAX_TEXT} characters")
            self._text.append(text)

    def _hit(self, text: str) -> None:
        if len(self._hits) < _SEVERAL:
            self._hits.append(text)
