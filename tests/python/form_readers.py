"""How servers in Python read forms.

Usage: form_readers.py FILE. Each line of the file has a form: its `type` and its `body` in base64. For each a line goes to
stdout: for each server the names and values of the fields, and `true` for files; or null if it rejects the form.
"""

import asyncio
import base64
import io
import json
import sys

import django
from django.conf import settings

settings.configure(DEFAULT_CHARSET="utf-8", FILE_UPLOAD_MAX_MEMORY_SIZE=1 << 24, DATA_UPLOAD_MAX_NUMBER_FIELDS=1000)
django.setup()
from django.core.files.uploadhandler import MemoryFileUploadHandler
from django.http.multipartparser import MultiPartParser
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartParser as StarletteParser
from werkzeug.formparser import parse_form_data


def text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def of_werkzeug(kind, body):
    environ = {
        "REQUEST_METHOD": "POST",
        "CONTENT_TYPE": kind,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
    }
    _, form, files = parse_form_data(environ, silent=False)
    fields = [[name, text(value), False] for name, value in form.items(multi=True)]
    return fields + [[name, text(file.read()), True] for name, file in files.items(multi=True)]


def of_django(kind, body):
    meta = {"CONTENT_TYPE": kind, "CONTENT_LENGTH": str(len(body))}
    form, files = MultiPartParser(meta, io.BytesIO(body), [MemoryFileUploadHandler()], "utf-8").parse()
    fields = [[name, text(value), False] for name, values in form.lists() for value in values]
    return fields + [[name, text(file.read()), True] for name, all in files.lists() for file in all]


def of_starlette(kind, body):
    async def chunks():
        yield body
        yield b""

    async def read():
        form = await StarletteParser(Headers({"content-type": kind}), chunks()).parse()
        fields = []
        for name, value in form.multi_items():
            is_file = not isinstance(value, str)
            fields.append([name, text(await value.read()) if is_file else value, is_file])
        return fields

    return asyncio.run(read())


for line in open(sys.argv[1], encoding="utf-8"):
    form = json.loads(line)
    read = {}
    for name, reader in (("werkzeug", of_werkzeug), ("django", of_django), ("starlette", of_starlette)):
        try:
            read[name] = reader(form["type"], base64.b64decode(form["body"]))
        except Exception:
            read[name] = None
    print(json.dumps(read))
