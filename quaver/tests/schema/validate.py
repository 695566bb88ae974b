"""Validates JSON documents, each against a schema. Lines of standard input name both, a tab between them; for each a line
comes back: `valid`, or where the document differs and how."""

import functools
import json
import sys

from jsonschema import Draft202012Validator


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@functools.cache
def validator(path):
    """That of a schema. It is checked once: that takes longer than a document does."""
    schema = read(path)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


for line in sys.stdin.read().splitlines():
    schema, document = line.split("\t")
    error = next(validator(schema).iter_errors(read(document)), None)
    print(f"{error.json_path}: {error.message[:200]}" if error else "valid")
