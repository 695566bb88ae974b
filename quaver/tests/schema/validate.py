"""Validates JSON documents, each against a schema. Lines of standard input name both, a tab between them; for each a line
comes back: `valid`, or where the document differs and how."""

import json
import sys

from jsonschema import Draft202012Validator


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


for line in sys.stdin.read().splitlines():
    schema, document = map(read, line.split("\t"))
    Draft202012Validator.check_schema(schema)
    error = next(Draft202012Validator(schema).iter_errors(document), None)
    print(f"{error.json_path}: {error.message[:200]}" if error else "valid")
