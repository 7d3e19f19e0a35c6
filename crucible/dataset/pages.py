"""What a Parquet file needs in memory, known before anything in it is decoded.

A footer is the file's own word: it may state small sizes for pages that decompress to gigabytes,
or few values for a run that repeats two thousand million of them. The page headers are what a
decoder allocates by, so they are read here, one after another. Source: the Parquet format's
``PageHeader`` in the compact protocol of Thrift.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from crucible.errors import FormatError

__all__ = ["Page", "pages_of"]

MAX_HEADER_BYTES = 64 * 1024
MAX_PAGES = 100_000
_MAX_DEPTH = 8

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_HEADERS = {_DATA_PAGE: (5, 2), _DICTIONARY_PAGE: (7, 2), _DATA_PAGE_V2: (8, 4)}
"""Page type → the field of its own header, and the field of the encoding in there."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: bytes after decompression, the number of values that it states, and how they are
    encoded (a number of the format's ``Encoding``)."""

    is_dictionary: bool
    uncompressed: int
    values: int
    encoding: int


def pages_of(file: BinaryIO, *, start: int, length: int) -> Iterator[Page]:
    """The pages of one column chunk, ``length`` bytes from ``start`` of ``file``.

    Raises:
        FormatError: if the headers cannot be read, or do not end where the chunk ends.
    """
    position, end = start, start + length
    for _ in range(MAX_PAGES):
        if position >= end:
            break
        file.seek(position)
        reader = _Reader(file.read(min(MAX_HEADER_BYTES, end - position)))
        header = reader.struct()
        kind = _number(header, 1)
        if kind not in _HEADERS:
            raise FormatError("a page is of no kind that holds values")
        field, encoding_field = _HEADERS[kind]
        inner = header.get(field)
        if not isinstance(inner, dict):
            raise FormatError("a page header lacks the header of its kind")
        yield Page(
            is_dictionary=kind == _DICTIONARY_PAGE,
            uncompressed=_number(header, 2),
            values=_number(inner, 1),
            encoding=_number(inner, encoding_field),
        )
        position += reader.position + _number(header, 3)
    if position != end:
        raise FormatError("the pages of a column do not end where the footer says")


def _number(fields: dict[int, object], number: int) -> int:
    value = fields.get(number)
    if not isinstance(value, int) or value < 0:
        raise FormatError("a page header lacks a size, a count or an encoding")
    return value


class _Reader:
    """Reads one Thrift struct: integers and nested structs are kept, the rest is skipped."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self, depth: int = 0) -> dict[int, object]:
        """Field number → value."""
        if depth > _MAX_DEPTH:
            raise FormatError("a page header nests too deeply")
        fields: dict[int, object] = {}
        number = 0
        while (byte := self._byte()) != _STOP:
            delta, kind = byte >> 4, byte & 0x0F
            number = number + delta if delta else self._zigzag()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        match kind:
            case _ if kind in (_I16, _I32, _I64):
                return self._zigzag()
            case _ if kind == _STRUCT:
                return self.struct(depth + 1)
            case _ if kind in (_TRUE, _FALSE, _BYTE):
                self._skip(1)
            case _ if kind == _DOUBLE:
                self._skip(8)
            case _ if kind == _BINARY:
                self._skip(self._varint())
            case _ if kind in (_LIST, _SET):
                self._skip_list(depth)
            case _:
                raise FormatError("a page header holds a field of an unknown type")
        return None

    def _skip_list(self, depth: int) -> None:
        byte = self._byte()
        size, kind = byte >> 4, byte & 0x0F
        for _ in range(self._varint() if size == 15 else size):
            self._value(kind, depth + 1)

    def _skip(self, count: int) -> None:
        if self.position + count > len(self._data):
            raise FormatError("a page header is cut off")
        self.position += count

    def _byte(self) -> int:
        self._skip(1)
        return self._data[self.position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise FormatError("a page header holds a number that is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
