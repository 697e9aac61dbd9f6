//! `valvehouse port` as a user meets it: drafts of scripts from Python plugins, which the host checks and runs.
//!
//! The `valvehouse` binary must be built: it lies beside `valvehouse-port`, or VALVEHOUSE names it.

#![allow(clippy::unwrap_used)]

#[cfg(unix)]
mod guide;
mod project;

use project::Project;

const FILTER: &str = include_str!("../plugins/filter.py");

const FILTER_TEST: &str = r#"
fn fields_of(text) {
    turn(#{ user: #{ id: "ann", valves: #{ bonus: 1 } } });
    inlet(conversation([text])).metadata
}

fn test_values_are_those_of_python() {
    let seen = fields_of("red, green,,blue@sea");
    assert_eq(seen.first, 2);
    assert_eq(seen.tags, ["red", "green", "blue@sea"]);
    assert_eq(seen.counts, #{ red: [1], green: [2], "blue@sea": [3] });
    assert_eq(seen.total, 104);
    assert_eq(seen.half, 3.5);
    assert_eq(seen.whole, 3);
    assert_eq(seen.tail, "sea");
    assert_eq(seen.head, "re");
    assert_eq(seen.fixed, "3.14 1,234,567");
    assert_eq(seen.shout, "A!");
    assert_eq(seen.shout2, "A?");
    assert_eq(seen.longest, "blue@sea");
    assert_eq(seen.sorted, ["blue@sea", "green", "red"]);
    assert_eq(seen.either, "fallback");
    assert_eq(seen.deep, ());
    assert_eq(seen.swapped, "home at ann");
    assert_eq(seen.helper, "3 tags");
    assert_eq(seen.limit, 10);
    assert_eq(fields_of("Call me Bob").name, "Bob");
}

fn test_what_is_refused() {
    turn(#{ user: #{ id: "ann", valves: #{ bonus: 1 } } });
    let refused = throws(|| inlet(conversation(["a", "b", "c", "d"])));
    assert_eq(refused.message, "Too long: 4 > 3");
    assert_eq(throws(|| inlet(conversation(["a secret"]))).message, "Not about that");
    assert_eq(seen::events()[0].data.description, "Refused");
}

fn test_the_other_hooks() {
    assert_eq(stream(["the colour", " red"]).text, "the color red");
    assert_contains(outlet(conversation(["hi", "answer"])).messages[-1].content, "(0 tags)");
}
"#;

const TOOLS: &str = include_str!("../plugins/tools.py");

const TOOLS_TEST: &str = r#"
fn test_the_service_is_asked() {
    canned::http("https://weather.example.com/*", #{ json: #{ temp: 21 } });
    assert_eq(invoke("weather", #{ city: "Rome" }), "21 c");
    assert_contains(seen::http()[0].url, "city=Rome");
    assert_eq(seen::events().map(|event| event.data.description), ["1: asking", "2: done"]);
    assert_eq(invoke("weather", #{ city: "Rome", days: 2 }), "Rome 0\nRome 1");
    assert_eq(invoke("forecast", #{ city: "Oslo", days: 1 }), "Oslo 0");
}

fn test_errors_are_texts() {
    canned::http("https://weather.example.com/*", #{ status: 500, text: "" });
    assert_contains(invoke("weather", #{ city: "Rome" }), "HTTP status 500");
}
"#;

const PIPE: &str = include_str!("../plugins/pipe.py");

const PIPE_TEST: &str = r#"
fn test_words() {
    assert_eq(chat("one two").text, "Thinking. One Two ");
}

fn test_lines() {
    canned::http("POST", "https://models.example.com/chat", "{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n");
    assert_eq(chat("stream").text, "Thinking. ab");
}
"#;

/// Statements with a value `v` and the result `r` that CPython 3.11 computes.
const EQUAL: &str = include_str!("../plugins/equal.json");

/// Returns a filter that runs these statements on the list `values` of the body.
fn filter_of(prelude: &str, cases: &[serde_json::Value]) -> String {
    let mut calls = String::new();
    let mut methods = String::new();
    for (at, case) in cases.iter().enumerate() {
        calls.push_str(&format!("        r.append(self.case_{at}(v[{at}]))\n"));
        methods.push_str(&format!("\n    def case_{at}(self, v):\n"));
        for line in case["lines"].as_array().unwrap() {
            methods.push_str(&format!("        {}\n", line.as_str().unwrap()));
        }
        methods.push_str("        return r\n");
    }
    format!(
        "{prelude}\n\nclass Filter:\n    def inlet(self, body: dict) -> dict:\n        v = body[\"values\"]\n        \
         r = []\n{calls}        body[\"results\"] = r\n        return body\n{methods}"
    )
}

/// Creates a project with these ported plugins, each with a test.
fn ported(plugins: &[(&str, &str, &str, &str)]) -> Project {
    let project = Project::new();
    for (name, source, script, test) in plugins {
        project.write(&format!("{name}.py"), source);
        project.run(&format!("port {name}.py")).ends(0).prints(script);
        project.write(&script.replace(".rhai", ".test.rhai"), test);
    }
    project
}

#[test]
fn a_ported_filter_behaves_as_in_python() {
    let project = ported(&[("house_rules", FILTER, "filters/house_rules.rhai", FILTER_TEST)]);
    project.run("check").ends(0);
    project.run("test").ends(0).prints("3 passed");
    let script = std::fs::read_to_string(project.path("filters/house_rules.rhai")).unwrap();
    for part in [
        "title: House rules",
        "max_turns: #{ value: 2, minimum: 1, maximum: 50, description: \"Messages\" }",
        "mode: #{ value: \"strict\", enum: [\"strict\", \"lax\"] }",
        "api_key: #{ value: \"\", secret: true }",
        "const UserValves",
        "const toggle = true;",
        "const LIMIT = 10;",
        "// how many messages a conversation may have",
    ] {
        assert!(script.contains(part), "no {part} in:\n{script}");
    }
    assert!(!script.contains("TODO") && !script.contains("global: false"), "{script}");
}

#[test]
fn ported_statements_have_the_results_of_python() {
    let equal: serde_json::Value = serde_json::from_str(EQUAL).unwrap();
    let lines = equal["prelude"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let prelude = lines.collect::<Vec<_>>().join("\n");
    let project = Project::new();
    for (number, cases) in equal["cases"].as_array().unwrap().chunks(40).enumerate() {
        let name = format!("equal_{number}");
        project.write(&format!("{name}.py"), &filter_of(&prelude, cases));
        project.run(&format!("port {name}.py")).ends(0);
        let script = std::fs::read_to_string(project.path(&format!("filters/{name}.rhai"))).unwrap();
        assert!(!script.contains("TODO"), "{script}");
        let values: Vec<&serde_json::Value> = cases.iter().map(|case| &case["value"]).collect();
        let body = serde_json::json!({
            "model": "m", "messages": [{ "role": "user", "content": "hi" }], "values": values,
        });
        project.write("body.json", &body.to_string());
        let run = project.run(&format!("run inlet {name} --body body.json --print value")).ends(0);
        let seen: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        for (case, result) in cases.iter().zip(seen["results"].as_array().unwrap()) {
            assert_eq!(*result, case["result"], "{}", case["lines"]);
        }
    }
}

#[test]
fn ported_tools_and_pipes_behave_as_in_python() {
    let project = ported(&[
        ("weather", TOOLS, "tools/weather.rhai", TOOLS_TEST),
        ("words", PIPE, "filters/words.rhai", PIPE_TEST),
    ]);
    project.run("check").ends(0);
    project.run("test").ends(0).prints("4 passed");
}

const ACTION: &str = include_str!("../plugins/action.py");

const ACTION_TEST: &str = r#"
fn test_each_button_has_its_case() {
    assert_eq(action("Hello", "upper").content, "HELLO");
    assert_eq(seen::events()[0].data.description, "1 words");
    assert_eq(action("SHOUT", "lower"), ());
}

fn test_the_person_names_a_prefix() {
    valves(#{ ask_prefix: true });
    canned::answer("Dear Ann");
    assert_eq(action("Hello", "lower").content, "Dear Ann: hello");
}
"#;

#[test]
fn a_ported_action_behaves_as_in_python() {
    let project = ported(&[("case", ACTION, "actions/case.rhai", ACTION_TEST)]);
    project.run("check").ends(0);
    project.run("test").ends(0).prints("2 passed");
    let script = std::fs::read_to_string(project.path("actions/case.rhai")).unwrap();
    assert!(script.contains("const actions = [") && !script.contains("TODO"), "{script}");
}

const LETTERS: &str = include_str!("../plugins/letters.py");

const LETTERS_TEST: &str = r#"
fn test_a_text_is_its_letters() {
    let seen = invoke("letters", #{ text: "aB1a" });
    assert_eq(seen.digits, 1);
    assert_eq(seen.upper, true);
    assert_eq(seen.blank, false);
    assert_eq(seen.codes, [97, 66, 97]);
    assert_eq(seen.known, ["A", "B", "A"]);
    assert_eq(seen.counts, #{ a: 2, B: 1, "1": 1 });
    assert_eq(seen.sorted, "1Ba");
    assert_eq(seen.first, "1");
    assert_eq(seen.pairs, ["0a", "1B", "21", "3a"]);
    assert_eq(seen.last, "a");
    assert_eq(seen.dashed, "a-B-1-a");
}

fn test_a_map_is_its_keys() {
    let seen = invoke("table", #{ table: #{ a: 1, b: 2, ccc: 3 } });
    assert_eq(seen.named, ["a", "ccc"]);
    assert_eq(seen.long, true);
    assert_eq([seen.widest, seen.list, seen.text], [3, 2, 1]);
    assert_eq(seen.sorted, ["ccc", "b", "a"]);
    assert_eq(seen.any, true);
    assert_eq(seen.all, true);
}
"#;

#[test]
fn a_ported_loop_runs_over_letters_and_keys() {
    let project = ported(&[("letters", LETTERS, "tools/letters.rhai", LETTERS_TEST)]);
    project.run("check").ends(0);
    project.run("test").ends(0).prints("2 passed");
    let script = std::fs::read_to_string(project.path("tools/letters.rhai")).unwrap();
    assert!(!script.contains("TODO"), "{script}");
}

const PAGES: &str = include_str!("../plugins/pages.py");

const PAGES_TEST: &str = r#"
fn test_elements_are_those_of_beautifulsoup() {
    let page = `<title>News</title><h2>Today</h2><ul id=news><li><a href="/1" class="new hot">One <b>1</b></a>
        <li><a href="/2" target=_top>Two</a></ul><a href="/3">Three</a><img src="a.png"><img alt="">`;
    canned::http("https://news.example.com/", page);
    let seen = invoke("pages", #{ path: "" });
    assert_eq(seen.title, "News");
    assert_eq(seen.links, [
        #{ text: "One 1", url: "/1", target: "none" },
        #{ text: "Two", url: "/2", target: "_top" },
    ]);
    assert_eq([seen.first, seen.count, seen.same], ["One 1", 4, 0]);
    assert_eq(seen.inside, ["One 1", "Two"]);
    assert_eq([seen.images, seen.hot, seen.bold], [["a.png"], ["a"], ["1", ""]]);
    assert_eq([seen.missing, seen.either, seen.has, seen.text], [true, "no", false, "a & b"]);
}
"#;

#[test]
fn a_ported_page_is_read_by_selectors() {
    let project = ported(&[("pages", PAGES, "tools/pages.rhai", PAGES_TEST)]);
    let script = std::fs::read_to_string(project.path("tools/pages.rhai")).unwrap();
    assert!(!script.contains("TODO"), "{script}");
    for part in [
        "html::select(soup, \"#news > li a[href]\")",
        "let soup = page.text;",
        "select_one(soup, \"a.hot\")",
        "html::select(news.html, \"* li\")",
    ] {
        assert!(script.contains(part), "no {part} in:\n{script}");
    }
    project.run("check").ends(0);
    project.run("test").ends(0).prints("1 passed");
}

#[test]
fn what_html_select_reads_otherwise_is_left_to_do() {
    let line = |code: &str| format!("        a.append({code})\n");
    let codes = [
        "soup.select('a:has(b)')",
        "soup.find_all('a', limit=2)",
        "soup.find_all(re.compile('^h'))",
        "soup.find_all('a', class_='b c')",
        "soup.find('p').select('h2 a')",
        "soup.find('p')['class']",
        "soup.find('p').parent",
        "soup.prettify()",
    ];
    let lines: String = codes.iter().map(|code| line(code)).collect();
    let source = format!(
        "import re\nfrom bs4 import BeautifulSoup\n\nclass Tools:\n    def todo(self, page: str) -> list:\n        \
         soup = BeautifulSoup(page, 'lxml')\n        a = []\n{lines}        return a\n"
    );
    let project = Project::new();
    project.write("todo.py", &source);
    project.run("port todo.py").ends(0);
    let script = std::fs::read_to_string(project.path("tools/todo.rhai")).unwrap();
    for code in codes {
        assert!(script.contains(&format!("//     a.append({code})")), "{code} in:\n{script}");
    }
    project.run("check").ends(0);
}

/// Filters that change, refuse, tell, log and ask, and one whose reaction nobody can guess.
const LIMIT: &str = "class Filter:\n    class Valves(BaseModel):\n        max_turns: int = 8\n\n    \
    def inlet(self, body):\n        if len(body['messages']) > self.valves.max_turns:\n            \
    raise Exception('too many')\n        return body\n";
const WORDS: &str = "class Filter:\n    def inlet(self, body):\n        \
    if body['messages'][-1]['content'].startswith('/secret'):\n            raise Exception('no')\n        \
    return body\n\n    def outlet(self, body):\n        print('seen', body)\n        return body\n";
const TELLS: &str = "class Filter:\n    async def inlet(self, body, __event_emitter__=None):\n        \
    await __event_emitter__({'type': 'status', 'data': {'description': 'x'}})\n        return body\n";
const RARE: &str = "class Filter:\n    def inlet(self, body):\n        if len(body['messages']) == 77:\n            \
    body['x'] = 1\n        return body\n";

#[test]
fn a_drafted_test_passes_and_fails_on_a_hook_that_does_nothing() {
    for (id, folder, source) in [
        ("limit", "filters", LIMIT),
        ("words", "filters", WORDS),
        ("tells", "filters", TELLS),
        ("house_rules", "filters", FILTER),
        ("talk", "filters", PIPE),
        ("case", "actions", ACTION),
        ("weather", "tools", TOOLS),
        ("letters", "tools", LETTERS),
    ] {
        let project = Project::new();
        project.write("plugin.py", source);
        project.run(&format!("port plugin.py --id {id}")).ends(0);
        let tests = std::fs::read_to_string(project.path(&format!("{folder}/{id}.test.rhai"))).unwrap();
        assert!(!tests.contains("to_be_written"), "{tests}");
        let passed = project.run("test --format json").ends(0).json();
        let count = |of: &serde_json::Value, key: &str| of[key].as_u64().unwrap();
        assert_eq!(count(&passed, "failed"), 0, "{tests}");
        // The same script, with functions that the host calls and that do nothing.
        let path = format!("{folder}/{id}.rhai");
        let script = std::fs::read_to_string(project.path(&path)).unwrap();
        let mut idle = String::new();
        let mut is_inside = false;
        for line in script.lines() {
            let starts =
                ["inlet", "stream", "outlet", "pipe", "action", "weather", "forecast", "letters", "table"];
            if starts.iter().any(|name| line.starts_with(&format!("fn {name}("))) {
                idle.push_str(&format!("{}}}\n", line));
                is_inside = !line.ends_with('}');
            } else if !is_inside {
                idle.push_str(&format!("{line}\n"));
            }
            is_inside &= line != "}";
        }
        project.write(&path, &idle);
        let idle = project.run("test --format json").ends(1).json();
        assert_eq!(count(&idle, "passed"), 0, "{tests}\n{idle}");
    }
}

#[test]
fn a_drafted_test_fails_until_it_is_written_if_no_call_makes_a_difference() {
    let project = Project::new();
    project.write("rare.py", RARE);
    project.run("port rare.py").ends(0);
    project.run("test").ends(1).prints("write a test of `inlet`");
}

#[test]
fn lines_without_a_translation_are_marked_and_counted() {
    let project = Project::new();
    project.write(
        "mixed.py",
        "import pandas\nimport re\n\nclass Filter:\n    def inlet(self, body):\n        frame = pandas.DataFrame(body)\n        \
         if re.search(r'a(?=b)', body['model']):\n            body['model'] = 'x'\n        return body\n",
    );
    project
        .run("port mixed.py")
        .ends(0)
        .prints("a filter: 4 of 7 lines translated (57 %)")
        .prints("Python packages (docs/guide/from-open-webui.md#counterparts)")
        .prints("line 6: `pandas.DataFrame`")
        .prints("patterns with look-around");
    let script = std::fs::read_to_string(project.path("filters/mixed.rhai")).unwrap();
    assert!(script.contains("//     frame = pandas.DataFrame(body)"), "{script}");
    assert!(script.contains("global: false"), "a draft runs for everybody:\n{script}");
    project.run("check").ends(0);
    project.run("test").ends(1).prints("write a test of `inlet`");
    let json = project.run("port mixed.py --dry-run --format json").ends(0).json();
    assert_eq!(json.get("translated").unwrap().to_string(), "4");
}

#[test]
fn existing_files_are_kept() {
    let project = Project::new();
    project.write("house_rules.py", FILTER);
    project.run("port house_rules.py --stdout").ends(0).prints("fn inlet(body, __user__");
    project.run("port house_rules.py --dry-run").ends(0).prints("filters/house_rules.rhai");
    assert!(!project.path("filters/house_rules.rhai").exists());
    project.write("filters/house_rules.rhai", "// mine\n");
    project.run("port house_rules.py").ends(2).stderr_has("filters/house_rules.rhai already exists");
    assert_eq!(std::fs::read_to_string(project.path("filters/house_rules.rhai")).unwrap(), "// mine\n");
    assert!(!project.path("filters/house_rules.test.rhai").exists());
    project.run("port house_rules.py --id other").ends(0).prints("filters/other.rhai");
    project.run("port house_rules.py --id No!").ends(2).stderr_has("invalid id `No!`");
    project.run("port house_rules.py --force").ends(0);
    project.run("check").ends(0);
}

#[test]
fn what_is_not_a_plugin_is_refused() {
    let project = Project::new();
    project.write("broken.py", "class Filter:\n    def inlet(self, body):\n        return body[\n");
    project
        .run("port broken.py")
        .ends(65)
        .stderr_has("cannot port broken.py: line 4, column 1: unexpected EOF while parsing");
    project.write("prose.py", "This is a letter.\n");
    project.run("port prose.py").ends(65).stderr_has("line 1, column 11");
    project.write("plain.py", "x = 1\n");
    project.run("port plain.py").ends(65).stderr_has("no plugin in the file: expected `class Filter`");
    project
        .write("deep.py", &format!("class Filter:\n    x = {}1{}\n", "[".repeat(5_000), "]".repeat(5_000)));
    project.run("port deep.py").ends(65).stderr_has("more than 60 levels");
    project.write("long.py", &"# a comment\n".repeat(60_000));
    project.run("port long.py").ends(65).stderr_has("exceeded its limit of 512 KB");
    std::fs::write(project.path("bytes.py"), [0xff, 0xfe, 0x00]).unwrap();
    project.run("port bytes.py").ends(65).stderr_has("it is not UTF-8 text");
    project.run("port missing.py").ends(65).stderr_has("cannot read missing.py");
    project.run("port").ends(2);
    // Of several classes, the port takes the one that Open WebUI would take.
    project.write(
        "two.py",
        "class Tools:\n    pass\n\nclass Filter:\n    def inlet(self, body):\n        return body\n",
    );
    project.run("port two.py").ends(0).prints("filters/two.rhai");
}

#[test]
fn port_reports_on_a_folder_without_writing() {
    let project = Project::new();
    project.write("plugins/a.py", FILTER);
    project.write("plugins/more/b.py", TOOLS);
    project.write("plugins/more/c.py", PIPE);
    project.write("plugins/setup.py", "x = 1\n");
    project.write("plugins/broken.py", "def (\n");
    project
        .run("port --measure plugins")
        .ends(0)
        .prints("filter       1    1 (100 %)")
        .prints("pipe         1    1 (100 %)")
        .prints("tool         1    1 (100 %)")
        .prints("not ported, no plugin: 1 file")
        .prints("not ported, not Python: 1 file");
    assert!(
        !project.path("filters").exists() || project.path("filters").read_dir().unwrap().next().is_none()
    );
    project.run("port --measure nowhere").ends(65).stderr_has("cannot read nowhere");
}

#[test]
fn unreadable_files_are_reported_with_the_reason() {
    let project = Project::new().with("plugins/a.txt", "");
    project.run("port plugins").ends(65).stderr_has("cannot read plugins: it is a folder; name a text file");
    project.run("port none.py").ends(65).stderr_has("cannot read none.py: ");
    std::fs::write(project.path("latin.py"), b"x = '\xe9'").unwrap();
    project.run("port latin.py").ends(65).stderr_has("cannot read latin.py: it is not UTF-8 text");
    std::fs::write(project.path("long.py"), "#".repeat(2 << 20)).unwrap();
    project.run("port long.py").ends(65).stderr_has("cannot read long.py: it exceeded its limit");
}

#[cfg(unix)]
#[test]
fn a_named_pipe_in_place_of_a_file_does_not_block() {
    let project = Project::new();
    let made = std::process::Command::new("mkfifo").arg(project.path("body.json")).status().unwrap();
    assert!(made.success());
    project.run("port body.json").ends(65).stderr_has("it is a pipe, socket or device");
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_not_read_and_links_are_not_written_through() {
    let elsewhere = Project::new().with("mine.rhai", "// mine\n");
    let project = Project::new().with("house_rules.py", FILTER).with("filters/x.rhai", "");
    project
        .run("port /dev/zero")
        .ends(65)
        .stderr_has("cannot read /dev/zero: it is a pipe, socket or device");
    let link = project.path("filters/house_rules.rhai");
    std::os::unix::fs::symlink(elsewhere.path("mine.rhai"), &link).unwrap();
    project.run("port house_rules.py").ends(2).stderr_has("already exists");
    project
        .run("port house_rules.py --force")
        .ends(65)
        .stderr_has("filters/house_rules.rhai: it is a symbolic link");
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "// mine\n");
    assert!(!project.path("filters/house_rules.test.rhai").exists());
    // The second file is the link: the first one stays as it was.
    std::fs::remove_file(&link).unwrap();
    project.write("filters/house_rules.rhai", "// mine\n");
    let link = project.path("filters/house_rules.test.rhai");
    std::os::unix::fs::symlink(elsewhere.path("mine.rhai"), &link).unwrap();
    project
        .run("port house_rules.py --force")
        .ends(65)
        .stderr_has("filters/house_rules.test.rhai: it is a symbolic link");
    assert_eq!(std::fs::read_to_string(project.path("filters/house_rules.rhai")).unwrap(), "// mine\n");
}
