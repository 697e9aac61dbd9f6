"""Judges values by the types of others. Each line of standard input is [name, value]."""

import json
import sys

import pydantic


def judge(problems, standard):
    """Prints the values that do not fit, and exits with 1 if there are any.

    `problems` gets a name and a value, and returns a list of texts or raises a validation error. `standard` is the
    end of the sentence "3 values, 1 of them not ...".
    """
    count = bad = 0
    for line in sys.stdin:
        name, value = json.loads(line)
        count += 1
        try:
            found = problems(name, value)
        except pydantic.ValidationError as error:
            found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        if found:
            bad += 1
            print(f"{name} {json.dumps(value)}\n  " + "\n  ".join(found[:12]))
    print(f"{count} values, {bad} of them not {standard}")
    sys.exit(1 if bad else 0)
