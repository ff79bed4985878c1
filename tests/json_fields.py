"""Compares the JSON that a command of dlrun prints with its schema in docs/json.

usage: json_fields.py NAME[#DEFINITION] <OUTPUT

NAME is the name of a schema, such as status or submit#sweep. The schemas say which fields are
always present, and later versions may add fields. This comparison also refuses a field that the
schema lacks, so that each new field is added to the schema.
"""

import functools
import json
import pathlib
import sys

import jsonschema

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs" / "json"


def names():
    return sorted(file.name.removesuffix(".schema.json") for file in FOLDER.glob("*.schema.json"))


@functools.cache
def document(name):
    return json.loads((FOLDER / f"{name}.schema.json").read_text())


def resolved(schema, name):
    """Returns the schema with every $ref replaced by its target. In the result, an object whose
    schema lists its fields may have only these, unless `additionalProperties` says otherwise."""
    if isinstance(schema, list):
        return [resolved(one, name) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        file, _, pointer = schema["$ref"].partition("#")
        name = file.removesuffix(".schema.json") or name
        target = document(name)
        for word in pointer.split("/")[1:]:
            target = target[word]
        return resolved(target, name)
    made = {word: resolved(value, name) for word, value in schema.items() if word != "definitions"}
    # In docs/json, each object that lists its fields has `properties` and `required`. So
    # `properties` without a list `required` beside it is a field of this name, not the keyword.
    if isinstance(made.get("properties"), dict) and isinstance(made.get("required"), list):
        made.setdefault("additionalProperties", False)
    return made


@functools.cache
def schema_of(name):
    """Returns the resolved() schema of NAME or NAME#DEFINITION."""
    file, _, definition = name.partition("#")
    whole = document(file)
    return resolved(whole["definitions"][definition] if definition else whole, file)


def complaints(name, value):
    """Returns a text for each difference between the value and its schema."""
    validator = jsonschema.Draft7Validator(schema_of(name))
    return [f"{name}: /{'/'.join(map(str, error.absolute_path))}: {error.message}"[:400]
            for error in validator.iter_errors(value)]


def fields(schema, path=""):
    """Yields the path of each field in a schema, such as /restarts/*/cause."""
    for field, field_schema in schema.get("properties", {}).items():
        yield f"{path}/{field}"
        yield from fields(field_schema, f"{path}/{field}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from fields(schema[word], f"{path}/*")


def seen_fields(schema, value, path=""):
    """Yields the paths of the schema's fields that the value has."""
    if isinstance(value, dict):
        for field, field_value in value.items():
            if field in schema.get("properties", {}):
                yield f"{path}/{field}"
                yield from seen_fields(schema["properties"][field], field_value,
                                       f"{path}/{field}")
            elif isinstance(schema.get("additionalProperties"), dict):
                yield from seen_fields(schema["additionalProperties"], field_value, f"{path}/*")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            yield from seen_fields(schema["items"], item, f"{path}/*")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        value = json.load(sys.stdin)
    except json.JSONDecodeError as error:
        sys.exit(f"{sys.argv[1]}: the output is not one JSON value: {error}")
    found = complaints(sys.argv[1], value)
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
