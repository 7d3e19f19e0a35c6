"""What a Parquet file needs in memory, known before anything in it is decoded.

A footer is the file's own word: it may state small sizes for pages that decompress to gigabytes,
or few values for a run that repeats two thousand million of them. The page headers are what a
decoder allocates by, so they are read here, one after another. The footer is read here too, since
pyarrow ends the process where statistics in it contradict its schema. Source: ``FileMetaData`` and
``PageHeader`` of the Parquet format, in the compact protocol of Thrift.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from crucible.errors import FormatError

__all__ = ["Chunk", "Page", "pages_of", "row_groups_of"]

MAX_FOOTER_BYTES = 4 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_PAGES = 100_000
_MAX_DEPTH = 12

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_HEADERS = {_DATA_PAGE: (5, 2), _DICTIONARY_PAGE: (7, 2), _DATA_PAGE_V2: (8, 4)}
"""Page type → the field of its own header, and the field of the encoding in there."""

Fields = dict[int, tuple[int, Any]]
"""Field number → the type that it was written with, and its value."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The bytes of one column in one row group."""

    column: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page: bytes after decompression, the number of values that it states, and how they are
    encoded (a number of the format's ``Encoding``)."""

    is_dictionary: bool
    uncompressed: int
    values: int
    encoding: int


def row_groups_of(file: BinaryIO) -> list[list[Chunk]]:
    """The chunks of every row group, as the footer of ``file`` gives them.

    Raises:
        FormatError: if the footer is malformed or larger than any honest one.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or not 0 < length <= min(MAX_FOOTER_BYTES, size - 12):
        raise FormatError("it does not end with the footer of a Parquet file")
    file.seek(size - 8 - length)
    footer = _Reader(file.read(length)).struct()
    return [
        [_chunk_of(chunk, size) for chunk in _structs(group, 1)] for group in _structs(footer, 4)
    ]


def pages_of(file: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """The pages of one column chunk of ``file``.

    Raises:
        FormatError: if the headers cannot be read, or do not end where the chunk ends.
    """
    position, end = chunk.start, chunk.start + chunk.length
    for _ in range(MAX_PAGES):
        if position >= end:
            break
        file.seek(position)
        reader = _Reader(file.read(min(MAX_HEADER_BYTES, end - position)))
        header = reader.struct()
        kind = _number(header, 1, _I32)
        if kind not in _HEADERS:
            raise FormatError("a page is of no kind that holds values")
        field, encoding_field = _HEADERS[kind]
        inner = _value(header, field, _STRUCT)
        yield Page(
            is_dictionary=kind == _DICTIONARY_PAGE,
            uncompressed=_number(header, 2, _I32),
            values=_number(inner, 1, _I32),
            encoding=_number(inner, encoding_field, _I32),
        )
        position += reader.position + _number(header, 3, _I32)
    if position != end:
        raise FormatError("the pages of a column do not end where the footer says")


def _chunk_of(fields: Fields, size: int) -> Chunk:
    if 1 in fields:
        raise FormatError("a column lies in another file")
    meta: Fields = _value(fields, 3, _STRUCT)
    start = _number(meta, 9, _I64)
    if 11 in meta:
        dictionary = _number(meta, 11, _I64)
        start = dictionary if 0 < dictionary < start else start
    length = _number(meta, 7, _I64)
    if start + length > size:
        raise FormatError("a column lies outside the file")
    path = b".".join(part for part in _value(meta, 3, _LIST) if isinstance(part, bytes))
    return Chunk(path.decode(errors="backslashreplace"), start, length)


def _value(fields: Fields, number: int, kind: int) -> Any:
    found = fields.get(number)
    if found is None or found[0] != kind:
        raise FormatError(f"field {number} of a header is missing or of another type")
    return found[1]


def _number(fields: Fields, number: int, kind: int) -> int:
    value: int = _value(fields, number, kind)
    if value < 0:
        raise FormatError(f"field {number} of a header is negative")
    return value


def _structs(fields: Fields, number: int) -> list[Fields]:
    values = _value(fields, number, _LIST)
    if not all(isinstance(value, dict) for value in values):
        raise FormatError(f"field {number} of a header is no list of structures")
    return list(values)


class _Reader:
    """Reads one Thrift struct. A field that occurs twice is refused: decoders would differ in
    which one they take."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self, depth: int = 0) -> Fields:
        """Every field with its type."""
        if depth > _MAX_DEPTH:
            raise FormatError("a header nests too deeply")
        fields: Fields = {}
        number = 0
        while (byte := self._byte()) != _STOP:
            delta, kind = byte >> 4, byte & 0x0F
            number = number + delta if delta else self._zigzag()
            if number in fields:
                raise FormatError(f"field {number} of a header occurs twice")
            is_flag = kind in (_TRUE, _FALSE)
            fields[number] = kind, (kind == _TRUE if is_flag else self._read(kind, depth))
        return fields

    def _read(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._take(1)
        if kind == _DOUBLE:
            return self._take(8)
        raise FormatError("a header holds a field of an unknown type")

    def _list(self, depth: int) -> list[Any]:
        if depth > _MAX_DEPTH:
            raise FormatError("a header nests too deeply")
        byte = self._byte()
        size, kind = byte >> 4, byte & 0x0F
        count = self._varint() if size == 15 else size
        if count > len(self._data) - self.position:
            raise FormatError("a header is cut off")
        return [self._read(kind, depth) for _ in range(count)]

    def _take(self, count: int) -> bytes:
        start = self.position
        if start + count > len(self._data):
            raise FormatError("a header is cut off")
        self.position += count
        return self._data[start : self.position]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise FormatError("a header holds a number that is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
