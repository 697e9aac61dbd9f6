//! Drafts of constructs whose translation must be right or left to the author.

#![allow(clippy::unwrap_used)]

use valvehouse_port::port;

fn draft(source: &str) -> String {
    port(source, "plugin").unwrap().script
}

#[track_caller]
fn assert_parts(script: &str, parts: &[&str]) {
    for part in parts {
        assert!(script.contains(part), "no {part} in:\n{script}");
    }
}

#[test]
fn helper_methods_receive_the_user_whose_settings_they_read() {
    let script = draft(
        r#"
class Filter:
    class UserValves(BaseModel):
        loud: bool = True

    def outlet(self, body, __user__=None):
        self.user_valves = self.UserValves(**__user__["valves"])
        return self.finish(body)

    def finish(self, body):
        if self.is_loud():
            body["loud"] = True
        return body

    def is_loud(self):
        return self.user_valves.loud
"#,
    );
    assert_parts(
        &script,
        &[
            "fn outlet(body, __user__)",
            "finish(body, __user__)",
            "is_loud(__user__)",
            "fn is_loud(__user__)",
            "__user__.valves.loud",
        ],
    );
}

#[test]
fn a_hook_without_a_user_parameter_reads_settings_of_the_user() {
    let script = draft(
        r#"
class Filter:
    class UserValves(BaseModel):
        loud: bool = True

    def inlet(self, body):
        body["loud"] = self.user_valves.loud
        return body
"#,
    );
    assert!(script.contains("fn inlet(body, __user__)"), "{script}");
}

#[test]
fn a_method_of_a_logger_with_a_computed_name_is_left_to_the_author() {
    let script = draft(
        r#"
import logging

class Filter:
    def inlet(self, body):
        write = getattr(logging.getLogger(), body["level"], None)
        write("seen")
        return body
"#,
    );
    assert!(script.contains("TODO a method by a computed name") && !script.contains("()["), "{script}");
}

#[test]
fn a_general_number_format_is_left_to_the_author() {
    let script = draft(
        r#"
class Filter:
    def inlet(self, body):
        body["size"] = f"{body['bytes']:.3g} of {body['all']:.2f}"
        return body
"#,
    );
    assert!(script.contains("TODO") && !script.contains("text::fixed(body.bytes, 3)"), "{script}");
}

#[test]
fn brackets_within_a_class_of_a_pattern_are_escaped() {
    let script = draft(
        r#"
import re

class Filter:
    def inlet(self, body):
        body["name"] = re.sub(r"[\\/[\]]+|[][]|[^[a]|\[x\]", "", body["name"])
        return body
"#,
    );
    assert!(script.contains(r"`[\\/\[\]]+|[\]\[]|[^\[a]|\[x\]`"), "{script}");
}

#[test]
fn a_class_of_an_object_is_tested_only_where_it_is_known() {
    let script = draft(
        r#"
from dataclasses import dataclass

@dataclass
class Step:
    title: str = ""

@dataclass
class Jump(Step):
    to: int = 0

class Filter:
    def inlet(self, body):
        body["known"] = isinstance(Jump(), Step)
        body["other"] = isinstance(Step(), dict)
        if isinstance(body["step"], Jump):
            body["jumps"] = True
        return body
"#,
    );
    assert!(script.contains("body.known = true;"), "{script}");
    assert!(script.contains("TODO `isinstance` of `Jump`"), "{script}");
    assert!(!script.contains("type_of(body.step)"), "{script}");
}

#[test]
fn an_error_is_never_silently_of_another_class() {
    let script = draft(
        r#"
class Filter:
    def inlet(self, body):
        try:
            self.read(body)
        except Exception as error:
            body["any"] = isinstance(error, Exception)
            body["late"] = isinstance(error, TimeoutError)
            if isinstance(error, PermissionError):
                body["denied"] = True
        return body

    def read(self, body):
        raise ValueError(body["id"])
"#,
    );
    assert_parts(
        &script,
        &[
            "body.any = true;",
            "body.late = error.message.contains(\"time\");",
            "TODO `isinstance` of `PermissionError`",
        ],
    );
}

#[test]
fn objects_have_the_attributes_and_methods_of_their_classes_and_bases() {
    let script = draft(
        r#"
import time

class Counter:
    unit = "words"
    started = time.time()

    def __init__(self, limit):
        self.limit = limit

    @property
    def label(self):
        return f"{self.limit} {self.unit}"

    def describe(self):
        return self.label

class Strict(Counter):
    unit = "letters"

    def __init__(self, limit):
        super().__init__(limit)
        self.is_strict = True

    def describe(self):
        return "at most " + super().describe()

class Plain(Counter):
    pass

class Filter:
    def inlet(self, body):
        strict = Strict(3)
        body["strict"] = strict.describe()
        body["label"] = strict.label
        body["plain"] = Plain(4).describe()
        return body
"#,
    );
    assert_parts(
        &script,
        &[
            "let made = #{ started: time::unix_ms() / 1000.0, unit: \"letters\" };",
            "made.mixin(new_counter(limit) + #{ unit: \"letters\" });",
            "`${this.limit} ${this.unit}`",
            "body.label = strict.strict_label();",
            "\"at most \" + this.counter_describe()",
            "let made = #{ unit: \"words\", started: time::unix_ms() / 1000.0 };",
            "new_plain(4).plain_describe()",
        ],
    );
    assert!(!script.contains("TODO"), "{script}");
}

#[test]
fn a_property_with_a_setter_is_called_and_its_assignment_is_left() {
    let script = draft(
        r#"
class Filter:
    @property
    def level(self):
        return 3

    @level.setter
    def level(self, value):
        print(value)

    def inlet(self, body):
        body["level"] = self.level
        self.level = 4
        return body
"#,
    );
    assert!(script.contains("body.level = level();"), "{script}");
    assert!(script.contains("TODO `self.level`, which is a method"), "{script}");
}

#[test]
fn a_default_in_front_of_setdefault_is_bound_to_a_variable() {
    let script = draft(
        r#"
class Filter:
    def inlet(self, body):
        body["seen"] = body.get("features", {}).setdefault("seen", True)
        body.get("options", {}).setdefault("tags", []).append("new")
        return body
"#,
    );
    assert!(script.contains("let map = body.features ?? #{}; if !(\"seen\" in map)"), "{script}");
    assert!(script.contains("let changed = body.options ?? #{};"), "{script}");
    assert!(!script.contains("(body."), "{script}");
}

#[test]
fn settings_with_names_beyond_ascii_are_read_by_key() {
    let script = draft(
        r#"
class Filter:
    class Valves(BaseModel):
        größe: int = 3
        sprache: str = "de"

    def __init__(self):
        self.valves = self.Valves()

    def inlet(self, body):
        body["a"] = self.valves.größe
        body["b"] = self.valves.sprache
        return body
"#,
    );
    assert!(script.contains("\"größe\": 3"), "{script}");
    assert!(script.contains("body.a = Valves[\"größe\"];"), "{script}");
    assert!(script.contains("body.b = Valves.sprache;"), "{script}");
}

#[test]
fn requests_have_the_timeout_and_the_address_of_their_client() {
    let script = draft(
        r#"
import aiohttp
import httpx

class Tools:
    class Valves(BaseModel):
        seconds: int = 20

    def __init__(self):
        self.valves = self.Valves()

    async def fetch(self, name: str) -> str:
        """Fetches a page."""
        with httpx.Client(timeout=5) as client:
            first = client.get("https://one.example/a")
            other = client.get("https://one.example/b", timeout=9)
        limit = aiohttp.ClientTimeout(total=self.valves.seconds)
        async with aiohttp.ClientSession(timeout=limit) as session:
            async with session.get("https://two.example/c") as answer:
                second = await answer.text()
        async with httpx.AsyncClient(base_url="https://three.example", timeout=httpx.Timeout(7.0, connect=1)) as client:
            third = await client.get(f"/{name}")
        return first.text + other.text + second + third.text
"#,
    );
    assert_parts(
        &script,
        &[
            "http::get(\"https://one.example/a\", #{ timeout: 5_000 })",
            "http::get(\"https://one.example/b\", #{ timeout: 9_000 })",
            "let limit = Valves.seconds;",
            "http::get(\"https://two.example/c\", #{ timeout: min(limit * 1_000, 300_000) })",
            "http::get(\"https://three.example\" + `/${args.name}`, #{ timeout: 7_000 })",
            "allow_hosts: one.example, three.example, two.example",
        ],
    );
}

#[test]
fn an_emitter_that_the_plugin_stores_emits() {
    let script = draft(
        r#"
class Filter:
    async def outlet(self, body, __event_emitter__=None, __event_call__=None):
        self.emitter = __event_emitter__
        self.question = __event_call__
        await self.say("done")
        return body

    async def say(self, text):
        if self.emitter:
            await self.emitter({"type": "status", "data": {"description": text}})
        return await self.question({"type": "confirmation", "data": {"message": text}})
"#,
    );
    assert!(script.contains("    emit(") && script.contains("ask("), "{script}");
    assert!(!script.contains("state"), "{script}");
}

#[test]
fn a_comprehension_that_assigns_in_its_condition_is_left() {
    let script = draft(
        r#"
class Filter:
    def inlet(self, body):
        body["texts"] = [text for one in body["messages"] if (text := one.get("content"))]
        return body
"#,
    );
    assert!(script.contains("TODO `:=` in the condition of a comprehension"), "{script}");
}

#[test]
fn methods_with_decorators_are_tools_and_their_decorators_are_noted() {
    let draft = port(
        r#"
def logged(function):
    return function

class Tools:
    @logged
    async def weather(self, city: str) -> str:
        """Returns the weather."""
        return city

    @property
    def version(self):
        return 2
"#,
        "plugin",
    )
    .unwrap();
    assert!(draft.script.contains("fn handler(args)") && draft.id == "weather", "{}", draft.script);
    assert!(draft.notes.iter().any(|note| note.text.contains("`@logged`")), "{:?}", draft.notes);
}

#[test]
fn a_parameter_with_a_field_has_its_description_and_default() {
    let script = draft(
        r#"
class Tools:
    def read(
        self,
        place: int = Field(description="Where to begin"),
        count: int = Field(5, description="How many"),
        unit: str = Field(default="line"),
        name: str = Field(..., description="Of the file"),
    ) -> str:
        """Reads."""
        return name
"#,
    );
    assert_parts(
        &script,
        &[
            "place: #{ type: \"integer\", required: true, description: \"Where to begin\" }",
            "count: #{ type: \"integer\", \"default\": 5, description: \"How many\" }",
            "unit: #{ type: \"string\", \"default\": \"line\" }",
            "name: #{ type: \"string\", required: true, description: \"Of the file\" }",
        ],
    );
}

#[test]
fn a_generator_whose_values_are_joined_in_a_return_is_collected() {
    let script = draft(
        r#"
class Pipe:
    def pipe(self, body):
        if body["stream"]:
            return self.send(body)
        return "".join([part for part in self.parts(body)])

    def parts(self, body):
        yield body["a"]

    def send(self, body):
        yield body["b"]
"#,
    );
    assert!(script.contains("yielded.push(body.a);"), "{script}");
    assert!(script.contains("yield_piece(body.b);") || script.contains("yield_text(body.b);"), "{script}");
}

#[test]
fn a_task_that_never_ends_is_left() {
    let script = draft(
        r#"
import asyncio

class Filter:
    async def inlet(self, body):
        asyncio.create_task(self.refresh())
        self.task = asyncio.create_task(self.refresh())
        asyncio.create_task(self.once())
        return body

    async def refresh(self):
        while True:
            await asyncio.sleep(60)

    async def once(self):
        while True:
            break
"#,
    );
    assert_eq!(script.matches("TODO `refresh`, a task that never ends").count(), 2, "{script}");
    assert!(script.contains("after(|| once("), "{script}");
}

#[test]
fn tuples_are_not_keys() {
    let script = draft(
        r#"
class Filter:
    def inlet(self, body):
        labels = {("a", "b"): 1}
        body["label"] = labels.get((body["x"], body["y"]), 0)
        body[body["x"], 1] = 2
        return body
"#,
    );
    assert_eq!(script.matches("TODO a tuple as a key").count(), 3, "{script}");
}

#[test]
fn a_computed_replacement_of_a_pattern_is_not_a_template() {
    let script = draft(
        r#"
import re

class Filter:
    def inlet(self, body):
        price = body["price"]
        body["a"] = re.sub("[0-9]+", price, body["a"])
        body["b"] = re.sub("[0-9]+", f"{price}!", body["b"])
        body["c"] = re.sub("([0-9]+)", r"$\1", body["c"])
        return body
"#,
    );
    assert_parts(
        &script,
        &[
            "regex::replace(body.a, \"[0-9]+\", |_groups| price)",
            "text::replace(`${price}!`, \"$\", \"$$\")",
            "regex::replace(body.c, \"([0-9]+)\", \"$$${1}\")",
        ],
    );
}

#[test]
fn lines_of_a_stream_that_a_method_returns_are_sent_as_lines() {
    let script = draft(
        r#"
import requests

class Pipe:
    def pipe(self, body):
        answer = requests.post("https://one.example/chat", json=body, stream=True)
        for line in answer.iter_lines():
            text, sources = self.read(line)
            yield text

    def read(self, line):
        return line, []
"#,
    );
    assert!(script.contains("send_line(text);"), "{script}");
}

#[test]
fn attributes_with_objects_and_times_are_read_where_they_are_stored() {
    let script = draft(
        r#"
from datetime import datetime

class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1

class Filter:
    def __init__(self):
        self._counter = Counter()
        self._started = datetime.now()

    def inlet(self, body):
        self._counter = Counter()
        self._started = datetime.now()
        self._counter.add()
        body["year"] = self._started.year
        return body
"#,
    );
    assert!(script.contains("state.ensure(\"counter\", new_counter())"), "{script}");
    assert!(script.contains("state.counter.counter_add();"), "{script}");
    assert!(script.contains("state.started") && !script.contains("started.year"), "{script}");
}

#[test]
fn a_helper_that_changes_a_list_of_its_caller_is_left() {
    let script = draft(
        r#"
class Filter:
    def inlet(self, body):
        seen = []
        self.collect(seen, body["id"])
        names = []
        names = self.collected(names, body["id"])
        self.collect(body["list"], body["id"])
        body["seen"] = seen + names
        return body

    def collect(self, into, one):
        into.append(one)

    def collected(self, into, one):
        into.append(one)
        return into
"#,
    );
    assert!(script.contains("TODO `collect` changes its copy of `seen`"), "{script}");
    assert!(script.contains("names = collected(names, body.id);"), "{script}");
    assert!(script.contains("    collect(body.list, body.id);"), "{script}");
}

#[test]
fn a_variable_of_a_loop_that_is_left_is_declared_again_after_it() {
    let script = draft(
        r#"
import os

class Filter:
    def inlet(self, body):
        for one in os.listdir("folder"):
            body["a"] = one
        with open("file") as one:
            body["b"] = one
        return body
"#,
    );
    assert_eq!(script.matches("let one = ();").count(), 2, "{script}");
}

#[test]
fn a_finally_that_a_return_skips_is_noted() {
    let with = |inside: &str| {
        let source = format!(
            "class Filter:\n    def inlet(self, body):\n        try:\n            {inside}\n        except Exception:\n            pass\n        finally:\n            body[\"seen\"] = True\n        return body\n"
        );
        port(&source, "plugin").unwrap().notes
    };
    let is_noted =
        |inside: &str| with(inside).iter().any(|note| note.line == 8 && note.text.contains("`finally`"));
    assert!(is_noted("return body[\"a\"]"));
    assert!(!is_noted("body[\"a\"] = 1"));
}

#[test]
fn a_handler_of_another_class_does_not_catch_what_the_body_raises() {
    let script = draft(
        r#"
class Filter:
    def inlet(self, body, __user__=None):
        try:
            if "bomb" in body["model"]:
                raise ValueError("bomb")
            body["level"] = __user__["valves"].level + body["depth"]
        except KeyError:
            pass
        at = datetime.now(timezone.utc).replace(hour=9223372036854775807, minute=0, second=0)
        return body
"#,
    );
    assert_parts(&script, &["if error.status == 500 {", "throw error;", "required(body, \"depth\")"]);
    assert!(!script.contains("required(__user__"), "{script}");
}

#[test]
fn the_ids_that_open_webui_has_in_the_metadata_are_those_of_the_host() {
    let script = draft(
        r#"
def safe_get(data, key):
    return data.get(key)

class Filter:
    def inlet(self, body, __metadata__=None):
        body["a"] = __metadata__["chat_id"]
        body["b"] = __metadata__.get("message_id", "")
        body["c"] = safe_get(__metadata__, "chat_id")
        return body
"#,
    );
    assert_parts(
        &script,
        &[
            "body.a = __chat_id__;",
            "body.b = __message_id__ ?? \"\";",
            "safe_get(#{ chat_id: __chat_id__, message_id: __message_id__ } + __metadata__, \"chat_id\")",
        ],
    );
    let head = script.lines().find(|line| line.starts_with("fn inlet(")).unwrap();
    assert!(
        ["__chat_id__", "__message_id__", "__metadata__"].iter().all(|name| head.contains(name)),
        "{head}"
    );
}

#[test]
fn a_pipe_answers_as_its_generator_does() {
    let script = draft(
        r#"
import aiohttp

class Pipe:
    def pipes(self):
        return self.models()

    def models(self):
        return self.fetch()

    def fetch(self):
        return requests.get("https://api.example.com/models", timeout=900).json()

    async def pipe(self, body):
        if not body.get("messages"):
            return
        async with aiohttp.ClientSession() as session:
            async with session.post("https://api.example.com/chat", json=body) as response:
                async for chunk in response.content.iter_chunked(1024):
                    yield chunk
        yield "data: {\"choices\": []}\n\n"
"#
        .replace("import aiohttp", "import aiohttp, requests")
        .as_str(),
    );
    assert_parts(
        &script,
        &[
            "const ttl = ",
            "timeout: 300_000",
            "return \"\";",
            "chunk += \"\\n\";",
            "send_line(\"data:",
            "\n    \"\"\n}",
        ],
    );
}

#[test]
fn what_the_host_does_otherwise_is_left_to_the_author() {
    for (lines, note) in [
        ("CACHE.clear()", "`CACHE`, which all calls share"),
        ("body[\"x\"] = \"a\\nb\".splitlines(keepends=True)", "keeps the line breaks"),
        ("body[\"x\"] = body[\"y\"].model_dump(exclude={\"z\"})", "of some fields"),
        ("body[\"x\"] = getattr(__request__.app.state, \"k\", None)", "the state of Open WebUI's server"),
        ("m = {}\n        n = {}\n        n[\"m\"] = m\n        m[\"x\"] = 1", "a second name of `m`"),
    ] {
        let source = format!(
            "CACHE = {{}}\n\nclass Filter:\n    def inlet(self, body, __request__=None):\n        {lines}\n        return body\n"
        );
        let notes = port(&source, "plugin").unwrap().notes;
        assert!(notes.iter().any(|one| one.is_todo && one.text.contains(note)), "{lines}: {notes:?}");
    }
}

#[test]
fn a_map_that_becomes_part_of_the_body_changes_with_it() {
    let script = draft(
        r#"
PATTERN = r"(\w)=(\w)"

class Filter:
    def inlet(self, body):
        extra = {}
        body["metadata"] = extra
        extra["mode"] = "full"
        pattern = body["pattern"]
        body["found"] = re.findall(pattern, "a=b")
        body["pairs"] = re.findall(PATTERN, "a=b")
        return body
"#
        .replace("PATTERN = r", "import re\nPATTERN = r")
        .as_str(),
    );
    assert_parts(
        &script,
        &[
            "extra = body.metadata;",
            "extra.mode = \"full\";",
            "found_all(\"a=b\", pattern)",
            "groups.extract(1)",
        ],
    );
}
