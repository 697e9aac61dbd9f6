//! Each difference between a draft and its Python is a TODO in the draft and in its notes: never a constant, never
//! nothing.

#![allow(clippy::unwrap_used)]

use valvehouse_port::{Draft, port};

/// Returns the draft of a filter with these members, after these lines of the file.
fn filter(file: &str, members: &str) -> Draft {
    let indented: String = members.lines().map(|line| format!("    {line}\n")).collect();
    port(&format!("{file}\nclass Filter:\n{indented}"), "plugin").unwrap()
}

/// Returns the draft of a filter whose hook has these lines.
fn hook(file: &str, lines: &str) -> Draft {
    let indented: String = lines.trim_matches('\n').lines().map(|line| format!("    {line}\n")).collect();
    filter(file, &format!("def inlet(self, body):\n{indented}    return body"))
}

/// Asserts that a line of the Python file that contains `fragment` is left to the author, for a reason with these words.
#[track_caller]
fn left(draft: &Draft, fragment: &str, why: &str) {
    let is_named = draft.notes.iter().any(|note| note.is_todo && note.text.contains(why));
    assert!(is_named, "nothing says {why:?}: {:?}\n{}", draft.notes, draft.script);
    assert!(draft.script.contains("// TODO"), "{}", draft.script);
    let is_shown =
        draft.script.lines().any(|line| line.trim_start().starts_with("//") && line.contains(fragment));
    assert!(fragment.is_empty() || is_shown, "{fragment} is not left:\n{}", draft.script);
    assert!(draft.lines.left > 0 && draft.script.contains("global: false"), "{}", draft.script);
}

#[track_caller]
fn translated(draft: &Draft) {
    let todo: Vec<_> = draft.notes.iter().filter(|note| note.is_todo).collect();
    assert!(todo.is_empty() && !draft.script.contains("TODO"), "{todo:?}\n{}", draft.script);
}

const LIMITER: &str = "
def __init__(self):
    self.requests = {}
    self.count = 0
    self.last = None

def inlet(self, body):
    user = body['user']
    self.requests.setdefault(user, []).append(1)
    if len(self.requests[user]) > 10:
        raise Exception('too many')
    self.count += 1
    if self.last == body['model']:
        body['again'] = True
    self.last = body['model']
    return body";

#[test]
fn what_a_class_keeps_between_calls_is_left() {
    let draft = filter("", LIMITER);
    for (fragment, name) in [
        ("self.requests.setdefault(user, [])", "requests"),
        ("if len(self.requests[user]) > 10:", "requests"),
        ("self.count += 1", "count"),
        ("if self.last == body['model']:", "last"),
        ("self.last = body['model']", "last"),
    ] {
        left(&draft, fragment, &format!("`self.{name}`, which the class keeps between calls"));
    }
    assert!(!draft.script.contains("state"), "{}", draft.script);
}

#[test]
fn what_is_kept_by_the_class_by_objects_or_through_helpers_is_left() {
    let limiter = "
class Limiter:
    def __init__(self):
        self.seen = []

    def allow(self, user):
        self.seen.append(user)
        return len(self.seen) < 3";
    let inlet = "def inlet(self, body):\n    body['ok'] = self.limiter.allow(body['user'])\n    return body";
    let of = |init: &str, inlet: &str| {
        filter(limiter, &format!("def __init__(self):\n    self.limiter = {init}\n{inlet}"))
    };
    left(&of("Limiter()", inlet), "self.limiter.allow", "`self.limiter`");
    let in_map =
        "def inlet(self, body):\n    body['ok'] = self.limiter['a'].allow(body['user'])\n    return body";
    left(&of("{'a': Limiter()}", in_map), "self.limiter['a']", "`self.limiter`");
    let counted = "seen = []\n\ndef inlet(self, body):\n    return self.note(body)\n\ndef note(self, body):\n    \
                   self.seen.append(1)\n    body['n'] = len(self.seen)\n    return body";
    left(&filter("", counted), "self.seen.append(1)", "`self.seen`");
    let toggled = "def __init__(self):\n    self.on = False\n\ndef inlet(self, body):\n    if body['x'] == '/on':\n        \
                   self.on = True\n    return body\n\ndef outlet(self, body):\n    body['on'] = self.on\n    return body";
    left(&filter("", toggled), "body['on'] = self.on", "`self.on`");
    let begun = "def __init__(self):\n    self.begun = time.time()\n\ndef inlet(self, body):\n    \
                 body['up'] = time.time() - self.begun\n    return body";
    left(&filter("import time", begun), "self.begun", "`self.begun`");
    left(
        &filter("", "def inlet(self, body, seen=[]):\n    seen.append(1)\n    return body"),
        "",
        "the default of `seen`",
    );
}

#[test]
fn what_each_turn_sets_before_it_reads_it_is_state() {
    let draft = filter(
        "import time",
        "
def __init__(self):
    self.begun = 0
    self.user = None
    self.tags = []

def inlet(self, body):
    self.begun = time.time()
    self.prepare(body)
    self.tags.append(body['model'])
    return body

def prepare(self, body):
    self.user = body['user']
    self.tags = []

def outlet(self, body):
    body['took'] = time.time() - self.begun
    body['by'] = self.user
    body['tags'] = self.tags
    return body",
    );
    translated(&draft);
    assert!(draft.script.contains("state.begun") && draft.script.contains("state.tags"), "{}", draft.script);
}

#[test]
fn a_keyword_argument_without_a_counterpart_is_left() {
    for (line, why) in [
        ("body['x'] = json.dumps(body['y'], sort_keys=True)", "`sort_keys=` of `dumps`"),
        ("body['x'] = now.isoformat(timespec='seconds')", "`timespec=` of `isoformat`"),
        ("body['x'] = m.model_dump(exclude_none=True)", "`exclude_none=` of `model_dump`"),
        ("body['x'] = html.escape(body['y'], quote=False)", "`quote=` of `escape`"),
        ("body['x'] = dict(zip(body['y'], body['z'], strict=True)).copy(deep=1)", "`deep=` of `copy`"),
    ] {
        let draft = hook(
            "import html, json\nfrom datetime import datetime",
            &format!("now = datetime.utcnow()\nm = body['m']\n{line}"),
        );
        left(&draft, line, why);
    }
    translated(&hook("import json", "body['x'] = json.dumps(body['y'], ensure_ascii=False, indent=2)"));
}

#[test]
fn options_of_requests_that_the_host_does_not_have_are_left() {
    for option in [
        "verify=False",
        "verify=self.ssl",
        "proxies={'a': 'b'}",
        "cookies={'a': 'b'}",
        "allow_redirects=False",
        "cert='x'",
    ] {
        let name = option.split('=').next().unwrap();
        let call = format!("body['x'] = requests.get('https://a.example/', {option}).json()");
        left(&hook("import requests", &format!("self.ssl = 1\n{call}")), "", &format!("`{name}`"));
        let of_client =
            format!("with httpx.Client({option}) as c:\n    body['x'] = c.get('https://a.example/').json()");
        let draft = hook("import httpx", &format!("self.ssl = 1\n{of_client}"));
        left(&draft, "", &format!("`{name}`"));
        assert!(draft.script.contains("http::get(\"https://a.example/\")"), "{}", draft.script);
    }
    translated(&hook(
        "import requests",
        "body['x'] = requests.get('https://a.example/', verify=True).json()",
    ));
}

#[test]
fn a_zone_goes_no_further_than_its_variable() {
    let file = "from datetime import datetime\nfrom zoneinfo import ZoneInfo\n\ndef stamp(when):\n    return when.hour";
    for (line, why) in [
        ("body['x'] = stamp(now)", "leaves its variable"),
        ("body['x'] = [now]", "leaves its variable"),
        ("body['x'] = {'at': now}", "leaves its variable"),
        ("body['x'] = now", "leaves its variable"),
        ("rows.append(now)", "leaves its variable"),
        ("return now", "leaves its variable"),
    ] {
        let lines = format!("rows = []\nnow = datetime.now(ZoneInfo('Europe/Rome'))\n{line}");
        left(&hook(file, &lines), line, why);
    }
    let two = "now = datetime.now(ZoneInfo('Europe/Rome'))\nif body['utc']:\n    now = datetime.utcnow()\nbody['x'] = now.hour";
    left(&hook(file, two), "now = datetime.now", "a time of one of several zones");
    translated(&hook(file, "now = datetime.now(ZoneInfo('Europe/Rome'))\nbody['x'] = now.strftime('%H')"));
}

#[test]
fn the_first_of_several_handlers_does_not_take_the_errors_of_the_others() {
    for later in ["ValueError", "Exception", "(TypeError, ValueError)"] {
        let lines = format!(
            "try:\n    body['n'] = int(body['x'])\nexcept KeyError:\n    body['n'] = 1\nexcept {later}:\n    body['n'] = 2"
        );
        left(&hook("", &lines), "except KeyError:", "`except KeyError`");
    }
    let bare = "try:\n    body['n'] = int(body['x'])\nexcept KeyError:\n    body['n'] = 1\nexcept:\n    body['n'] = 2";
    left(&hook("", bare), "except KeyError:", "`except KeyError`");
    translated(&hook("", "try:\n    body['n'] = int(body['x'])\nexcept Exception:\n    body['n'] = 2"));
    let only = hook("", "try:\n    body['n'] = int('x')\nexcept KeyError:\n    body['n'] = 1");
    assert!(
        only.notes.iter().any(|note| note.text.contains("also catches a `ValueError`")),
        "{:?}",
        only.notes
    );
}

#[test]
fn a_variable_whose_line_is_left_is_not_taken_for_none() {
    let draft =
        hook("import pandas", "name = pandas.name(body)\nbody['x'] = f\"in {name}\"\nbody['y'] = str(name)");
    left(&draft, "name = pandas.name(body)", "`pandas.name`");
    assert!(!draft.script.contains("None") && draft.script.contains("${name}"), "{}", draft.script);
}

#[test]
fn hooks_and_settings_of_base_classes_in_the_file_are_those_of_the_plugin() {
    let core = "
class Base:
    limit = 3

    def __init__(self):
        self.valves = self.Valves()
        self.word = 'core'

class Core(Base):
    class Valves(BaseModel):
        size: int = 5

    def inlet(self, body):
        body['size'] = self.valves.size
        body['word'] = self.word + self.own() + str(self.limit)
        return body

    def own(self):
        return 'base'

    def outlet(self, body):
        return body

class Filter(Core):
    def __init__(self):
        super().__init__()
        self.word = 'mine'

    def own(self):
        return 'own'";
    let draft = port(core, "plugin").unwrap();
    translated(&draft);
    for part in
        ["fn inlet(", "fn outlet(", "size: 5", "Valves.size", "WORD = \"mine\"", "\"own\"", "LIMIT = 3"]
    {
        assert!(draft.script.contains(part), "no {part} in\n{}", draft.script);
    }
    assert!(!draft.script.contains("\"base\"") && !draft.script.contains("core"), "{}", draft.script);
    let draft = port("from x import Core\nclass Filter(Core):\n    pass", "plugin").unwrap();
    assert!(draft.notes.iter().any(|note| note.text.contains("the base class `Core`")), "{:?}", draft.notes);
}

#[test]
fn settings_beside_the_class_are_those_of_the_host() {
    let source = "
class Valves(BaseModel):
    max_turns: int = 4

class UserValves(BaseModel):
    bonus_turns: int = 0

file_handler = True

class Filter:
    def inlet(self, body, __user__, valves):
        limit = valves.max_turns + __user__.valves.bonus_turns
        if len(body.get('messages', [])) > limit:
            raise Exception(f'Conversation turn limit exceeded ({limit})')
        return body

    async def stream(self, event):
        print('token', event.get('data'))
        return event";
    let draft = port(source, "limit").unwrap();
    translated(&draft);
    assert!(
        draft.script.contains("let limit = Valves.max_turns + __user__.valves.bonus_turns;"),
        "{}",
        draft.script
    );
    assert!(draft.script.contains("const file_handler = true;"), "{}", draft.script);
    let draft =
        filter("", "def inlet(self, body, database):\n    body['x'] = database.name\n    return body");
    left(&draft, "", "`database`, a parameter that nobody passes");
}

#[test]
fn a_gathered_failure_is_not_raised() {
    let lines = "tasks = [self.one(n) for n in (1, 2)]\nbody['x'] = await asyncio.gather(*tasks, return_exceptions=True)";
    let draft = filter(
        "import asyncio",
        &format!(
            "async def inlet(self, body):\n    {}\n    return body\n\nasync def one(self, n):\n    return n",
            lines.replace('\n', "\n    ")
        ),
    );
    left(&draft, "asyncio.gather(", "`gather` that returns exceptions");
}

#[test]
fn a_second_name_of_a_list_or_map_that_changes_is_left() {
    for (lines, why) in [
        // An element, under its new name and under its old one.
        (
            "q = {'a': [1]}\nfirst = q.get('a')\nfirst.pop(0)\nbody['n'] = len(q['a'])",
            "`first`, a second name",
        ),
        (
            "q = {'a': [1]}\nfirst = q['a']\nq['a'].append(2)\nbody['n'] = len(first)",
            "`first`, a second name",
        ),
        ("q = [[1]]\nlast = q[-1]\nx = last.pop()\nbody['n'] = q", "`last`, a second name"),
        ("a = []\nb = a\nb.append(1)\nbody['n'] = a", "`b`, a second name"),
        ("a = []\nb = a if body['x'] else []\nb.append(1)\nbody['n'] = a", "`b`, a second name"),
        ("a = {}\nb = a or {}\nb['x'] = 1\nbody['n'] = a", "`b`, a second name"),
        ("a = {}\nb, c = a, 1\nb['x'] = 1\nbody['n'] = a", "`b`, a second name"),
        ("a = b = []\na.append(1)\nbody['n'] = b", "one of two names"),
        ("a = b = {}\nb['x'] = 1\nbody['n'] = a", "one of two names"),
        // A part of another list or map.
        ("rows = []\nrow = {}\nrows.append(row)\nrow['x'] = 1\nbody['n'] = rows", "a second name of `row`"),
        (
            "rows = []\nrow = {}\nrows.append({'r': row})\nrow['x'] = 1\nbody['n'] = rows",
            "a second name of `row`",
        ),
        ("row = {}\nrows = [row]\nrow['x'] = 1\nbody['n'] = rows", "a second name of `row`"),
        ("row = []\nm = {'r': row}\nrow += [1]\nbody['n'] = m", "a second name of `row`"),
        ("m = {}\nrow = []\nm['r'] = row\nrow.append(1)\nbody['n'] = m", "a second name of `row`"),
        (
            "rows = []\nrow = {}\nrows.append(row)\nrows[0]['x'] = 1\nbody['n'] = row",
            "changes as an element of `rows`",
        ),
        // A value in a loop.
        (
            "rows = {'a': {}}\nfor k, r in rows.items():\n    r['x'] = 1\nbody['n'] = rows",
            "the elements of `rows`",
        ),
        (
            "rows = [{}]\nfor i, r in enumerate(rows):\n    r['x'] = i\nbody['n'] = rows",
            "the elements of `rows`",
        ),
        ("a = []\nb = []\nfor r in [a, b]:\n    r.append(1)\nbody['n'] = a", "the elements of `a`"),
        (
            "rows = [{}]\nfor r in sorted(rows, key=len):\n    r['x'] = 1\nbody['n'] = rows",
            "the elements of `rows`",
        ),
        (
            "rows = [[]]\nlast = None\nfor r in rows:\n    last = r\n    last.append(1)\nbody['n'] = rows",
            "`last`, a second name",
        ),
        (
            "rows = []\nrow = []\nfor x in body['x']:\n    row.append(x)\n    rows.append(row)\nbody['n'] = rows",
            "a second name of `row`",
        ),
        // An argument.
        (
            "calls = [{}]\nfill(calls[0], 'x')\nbody['n'] = calls",
            "`fill` changes its copy of a part of `calls`",
        ),
        ("calls = {}\nfill(calls, 'x')\nbody['n'] = calls", "`fill` changes its copy of `calls`"),
        ("calls = {}\nthrough(calls)\nbody['n'] = calls", "`through` changes its copy of `calls`"),
        (
            "calls = {}\nunnamed = given_back(calls)\nbody['n'] = calls",
            "`given_back` changes its copy of `calls`",
        ),
        ("calls = [{}]\nfor c in calls:\n    fill(c, 'x')\nbody['n'] = calls", "calls"),
    ] {
        left(&hook(HELPERS, lines), "", why);
    }
}

const HELPERS: &str = "
def fill(target, part):
    target['text'] = part

def through(target):
    inner = target
    fill(inner, 'x')

def given_back(target):
    target['x'] = 1
    return target
";

#[test]
fn a_list_or_map_with_one_name_or_of_the_host_may_change() {
    for lines in [
        "a = []\na.append(1)\nbody['n'] = a",
        "rows = []\nfor x in body['x']:\n    row = {}\n    row['x'] = x\n    rows.append(row)\nbody['n'] = rows",
        "rows = []\nrow = []\nfor x in body['x']:\n    row.append(x)\n    if len(row) > 2:\n        rows.append(row)\n        row = []\nbody['n'] = rows",
        "first = body['messages'][0]\nfirst['content'] = 'x'",
        "for m in body['messages']:\n    m['content'] = 'x'",
        "for i, m in enumerate(body['messages']):\n    m['content'] = 'x'",
        "for part in [{'n': 1}, {'n': 2}]:\n    part['n'] += 1",
        "rows = [{}]\nfor r in rows:\n    r['x'] = 1\nbody['n'] = rows",
        "m = {'role': 'user'}\nm['content'] = 'x'\nbody['messages'].append(m)",
        "fill(body['messages'][0], 'x')",
        "calls = {}\ncalls = given_back(calls)\nbody['n'] = calls",
        "data = json.loads(body['x'])\npart = data['a']\npart['b'] = 1\nbody['n'] = data",
        "a = b = 0\na += 1\nbody['n'] = b",
        "n = {'a': 1}\nx = n['a']\nx += 1\nbody['n'] = x",
        "a = list(body['x'])\nb = a\nbody['n'] = [a, b]",
    ] {
        translated(&hook(&format!("import json\n{HELPERS}"), lines));
    }
}
