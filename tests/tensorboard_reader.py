#!/usr/bin/env python3
"""usage: tensorboard_reader.py FILE...

Decodes TensorBoard's event files and prints one JSON object per event. Prints the reason and exits
with code 1 if a checksum is wrong, a record is cut, a protocol buffer is malformed, an event has a
field that dlrun does not write, file_version is missing in the first event, or another event has
it.

This decoder is written from the formats alone: the framing of TFRecord, CRC32C as RFC 3720
specifies it, the wire format of protocol buffers, and the numbers of the fields in event.proto and
summary.proto. It shares no code and no table with dlrun.
"""

import json
import struct
import sys

STATUS = {0: "unspecified", 1: "start", 2: "stop", 3: "checkpoint"}


class Damaged(Exception):
    pass


def crc32c(data):
    """Returns the CRC32C, computed bit by bit: polynomial 0x1EDC6F41, reflected in and out."""
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            carry = (crc ^ (byte >> bit)) & 1
            crc >>= 1
            if carry:
                crc ^= 0x82F63B78
    return crc ^ 0xFFFFFFFF


def unmask(masked):
    """Returns the CRC32C from the masked form in which TFRecord stores it."""
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def records(data):
    """Verifies the checksums of each record and yields its content."""
    at = 0
    while at < len(data):
        if len(data) - at < 12:
            raise Damaged(f"the header at byte {at} is cut")
        head = data[at:at + 8]
        (length,), (masked,) = struct.unpack("<Q", head), struct.unpack("<I", data[at + 8:at + 12])
        if unmask(masked) != crc32c(head):
            raise Damaged(f"wrong checksum of the length at byte {at}")
        at += 12
        if len(data) - at < length + 4:
            raise Damaged(f"the record at byte {at} is cut")
        body = data[at:at + length]
        (masked,) = struct.unpack("<I", data[at + length:at + length + 4])
        if unmask(masked) != crc32c(body):
            raise Damaged(f"wrong checksum of the record at byte {at}")
        at += length + 4
        yield body


def varint(data, at):
    """Returns the varint that begins at byte `at`, and the position after it."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Damaged("a malformed varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Yields (number, wire type, value) of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = data[at:at + 8], at + 8
        elif wire == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            if len(value) != length:
                raise Damaged("a cut field")
        elif wire == 5:
            value, at = data[at:at + 4], at + 4
        else:
            raise Damaged(f"the wire type {wire}")
        yield number, wire, value


def require(condition, damage):
    """Raises Damaged unless the condition holds."""
    if not condition:
        raise Damaged(damage)


def summary_of(data):
    """Returns the scalars of a Summary by tag."""
    scalars = {}
    for number, wire, value in fields(data):
        require((number, wire) == (1, 2), "a field of Summary that is not `value`")
        tag = simple = None
        for inner, inner_wire, content in fields(value):
            if inner == 1:
                require(inner_wire == 2, "a tag that is no text")
                tag = content.decode("utf-8")
            elif inner == 2:
                require(inner_wire == 5, "a simple_value that is no float")
                (simple,) = struct.unpack("<f", content)
            else:
                raise Damaged(f"the field {inner} of Summary.Value")
        require(tag is not None and simple is not None and tag not in scalars,
                "a value without tag or number, or a tag that is there twice")
        scalars[tag] = simple
    return scalars


def event_of(data):
    """Returns an Event as a dictionary. A missing step is 0."""
    event = {"step": 0}
    for number, wire, value in fields(data):
        if number == 1:
            require(wire == 1, "a wall_time that is no double")
            (event["wall_time"],) = struct.unpack("<d", value)
        elif number == 2:
            require(wire == 0, "a step that is no varint")
            event["step"] = value - (1 << 64) if value >> 63 else value
        elif number == 3:
            event["file_version"] = value.decode("utf-8")
        elif number == 5:
            event["scalars"] = summary_of(value)
        elif number == 7:
            status = dict((inner, content) for inner, _, content in fields(value)).get(1, 0)
            require(status in STATUS, f"the session status {status}")
            event["session"] = STATUS[status]
        else:
            raise Damaged(f"the field {number} of Event")
    require("wall_time" in event, "an event without wall_time")
    return event


def main():
    require(crc32c(b"123456789") == 0xE3069283, "this decoder's CRC32C is wrong")
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            data = file.read()
        try:
            for index, record in enumerate(records(data)):
                event = event_of(record)
                require((index == 0) == ("file_version" in event),
                        f"event {index}: file_version must be in the first event only")
                print(json.dumps(event))
        except (Damaged, UnicodeDecodeError, struct.error) as error:
            sys.exit(f"{path}: {error}")


main()
