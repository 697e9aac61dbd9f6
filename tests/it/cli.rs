//! The command line as users see it: the real binary in separate folders.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;
use valvehouse::json::Json;

pub(crate) use valvehouse_testkit::command::{CommandOutput, Project, Server, TIMEOUT, signal};

const TURN_LIMIT: &str = r#"/*
title: Turn limit
*/
const Valves = #{
    priority: 0,
    max_turns: #{ value: 4, minimum: 1, maximum: 500, description: "Messages allowed" },
    token: #{ value: "", secret: true },
};
const UserValves = #{ bonus_turns: 0 };

fn inlet(body, __user__, valves) {
    let limit = valves.max_turns + __user__.valves.bonus_turns;
    if valves.token != "" && body.token == valves.token {
        return body;
    }
    if body.messages.len() > limit {
        throw `Conversation turn limit exceeded (${limit})`;
    }
    body
}
"#;
const REFUSES: &str = "fn inlet(body) { deny(`not today`, 403) }";
const BROKEN: &str = "fn inlet(body) {\n    body.x = ;\n    body\n}\n";
const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { body }";

#[cfg(target_os = "linux")]
#[test]
fn a_host_raises_its_file_limit_for_connections() {
    let project = Project::new();
    let mut serve = Command::new("sh");
    serve.args(["-c", "ulimit -Sn 256; exec \"$0\" serve --port 0", env!("CARGO_BIN_EXE_valvehouse")]);
    serve.current_dir(project.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = Project::listens(serve);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let words: Vec<u64> = files.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(words[0], words[1].min(65_536), "{files}");
}

#[test]
fn every_command_has_help_with_examples() {
    let project = Project::new();
    project.run("--help").ends(0).prints("Examples:").prints("Exit codes:");
    project.run("--version").ends(0).prints("valvehouse 0.");
    for command in [
        "serve",
        "dev",
        "chat",
        "new",
        "run",
        "repl",
        "check",
        "valves",
        "valves get",
        "valves set",
        "valves reset",
        "valves spec",
        "grant",
        "explain",
        "confirm",
        "audit",
        "nodes",
        "release",
        "config",
        "key",
    ] {
        project.run(&format!("{command} --help")).ends(0).prints("Examples:");
    }
}

#[test]
fn searching_for_hosts_creates_no_store() {
    let project = Project::new();
    project.run("nodes").ends(0).stderr_has("no host is running on this store");
    let made: Vec<_> = std::fs::read_dir(project.path(".")).unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
}

#[test]
fn a_wrong_command_line_is_reported_with_a_suggestion() {
    let project = Project::new();
    project.run("").ends(2).stderr_has("Usage:");
    project.run("chekc").ends(2).stderr_has("check");
    project.run("list --formt json").ends(2).stderr_has("--format");
    project.run("list --format yaml").ends(2).stderr_has("human, json");
    project.run("list --quiet --verbose").ends(2);
    project.run("valves set turn_limit max_turns").ends(2).stderr_has("KEY=VALUE");
    project.run("serve --port 70000").ends(2);
}

#[test]
fn config_shows_effective_settings_with_sources_and_without_secrets() {
    let settings = "[server]\nlisten = \"127.0.0.1:8080\"\nkeys = [\"sk-hidden\"]\n";
    let project = Project::new().with("valvehouse.toml", settings);
    let shown =
        project.run("config server").ends(0).prints("127.0.0.1:8080").prints("in valvehouse.toml:2:1");
    assert!(!shown.out.contains("sk-hidden") && !shown.out.contains("admin.key"), "{}", shown.out);
    project
        .run("config server.listen --set server.listen=127.0.0.1:1")
        .ends(0)
        .prints("from the command line");
    let one = project.run("config server.max_body_mb --format json").ends(0).json();
    assert_eq!(one.at_path("0.value"), Json::from("32"));
    project.run("config server.nothing").ends(2).stderr_has("unknown setting `server.nothing`");

    // The reference of all settings is available even if the configuration is invalid.
    let project = Project::new().with("valvehouse.toml", "[serve]\n");
    project.run("config").ends(78);
    project.run("config --reference").ends(0).prints("# Configuration").prints("VALVEHOUSE__SERVER__LISTEN");
}

#[test]
fn invalid_settings_are_reported_with_position_and_suggestion() {
    let project = Project::new().with("valvehouse.toml", "[server]\nlisen = \"x\"\n");
    project.run("list").ends(78).stderr_has("in valvehouse.toml:2:1").stderr_has("did you mean `listen`?");
    let project = Project::new();
    project.run("list --set server.lisen=x").ends(78).stderr_has("did you mean `listen`?");
    project.run("list --project nowhere").ends(78).stderr_has("cannot find the project folder");
    project.run("serve --listen 0.0.0.0:0").ends(78).stderr_has("server.keys is empty");
    let project = Project::new().with("valvehouse.toml", "[server\n");
    let json = project.run("list --format json").ends(78);
    let error = Json::parse(json.talk.trim().as_bytes()).unwrap();
    assert_eq!(error.at_path("error.exit").as_i64(), Some(78));
}

#[test]
fn a_store_that_cannot_be_opened_is_reported_with_a_fix() {
    let project = Project::new().with("file", "");
    let ran = project.run("list --set store.url=sqlite://file/state.db").ends(69);
    ran.stderr_has("cannot create the store's folder").stderr_has("set store.url to another file");
}

#[test]
fn list_shows_the_status_of_every_plugin() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT).filter("bad", BROKEN);
    let ran = project.run("list").ends(0).prints("turn_limit").prints("Turn limit").prints("inlet");
    let ran = ran.prints("broken").prints("filters/bad.rhai:2:14: error[V101]: ");
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    let json = project.run("list --format json").ends(0).json();
    assert_eq!(json.at_path("plugins.0.state").as_str(), Some("broken"));
    assert_eq!(json.at_path("plugins.0.problems.0.line").as_i64(), Some(2));
    assert_eq!(json.at_path("plugins.1.hooks.0").as_str(), Some("inlet"));
    Project::new().run("list").ends(0).stderr_has("no plugins yet");
}

#[test]
fn list_shows_call_metrics_and_open_breakers() {
    let project = Project::new()
        .filter("moody", "fn inlet(body) { if body.messages.len() > 1 { let x = 1 / 0; } body }")
        .with("valvehouse.toml", "[breaker]\nfailure_threshold = 2\ncool_down_ms = 3_600_000\n");
    project.run("list --stats").ends(0).stderr_has("no host is running on this project");
    let server = project.serve("");
    project.run("list --stats").ends(0).stderr_has("no plugin has been called");
    let statuses = [1, 2, 2, 1].map(|turns| server.chat(turns).0);
    assert_eq!(statuses, [200, 500, 500, 503]);
    let end = Instant::now() + TIMEOUT;
    while !project.run("list").ends(0).out.contains("breaker open") {
        assert!(Instant::now() < end, "its breaker never opens");
    }
    let listed = project.run("list").ends(0).prints("refused with 503").prints("division by zero");
    assert!(listed.out.contains("moody"), "{}", listed.out);
    let stats = project.run("list --stats").ends(0).prints("inlet").prints("OPERATIONS");
    let row: Vec<&str> = stats.out.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row[..4], ["moody", "inlet", "3", "2"], "{}", stats.out);
    project.run("explain --model demo").ends(0).prints("its circuit breaker is open: it failed 2 times");
    let json = project.run("list --format json").ends(0).json();
    assert_eq!(json.at_path("plugins.0.breaker_open.failures").as_i64(), Some(2));
    assert_eq!(json.at_path("plugins.0.stats.inlet.broken").as_i64(), Some(2));
    assert_eq!(json.get("hosts").and_then(|hosts| hosts.as_i64()), Some(1));
}

#[test]
fn list_does_not_change_the_last_good_versions() {
    let project = Project::new().filter("x", "fn inlet(body) { body }");
    project.run("list").ends(0).prints("live");
    project.write("filters/x.rhai", BROKEN);
    project.run("list").ends(0).prints("broken");
    project.write("filters/x.rhai", "fn inlet(body) { body }");
    project.run("chat hello").ends(0);
    project.write("filters/x.rhai", BROKEN);
    project.run("list").ends(0).prints("stale");
}

#[test]
fn a_closed_stdout_is_not_a_failure() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    let mut child = project.command(&["list"]).stdin(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn check_shows_the_line_and_a_caret() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    project.run("check").ends(0).prints("checked 1 file, 0 problems");
    project.write("filters/bad.rhai", BROKEN);
    let ran = project.run("check").ends(1).prints("checked 2 files, 1 problem");
    ran.prints("filters/bad.rhai:2:14: error[V101]: ").prints(" 2 |     body.x = ;\n   |              ^\n");
    assert!(!project.path(".valvehouse").exists(), "check touched the store");
    let json = project.run("check --format json").ends(1).json();
    assert_eq!(json.at_path("problems.0.column").as_i64(), Some(14));
    assert_eq!(json.at_path("checked").as_i64(), Some(2));
}

#[test]
fn check_writes_sarif_for_code_scanning() {
    let project = Project::new().filter("bad one", BROKEN).filter("broken", BROKEN);
    project.write("filters/doubtful.rhai", "fn inlet(body) {\n    let x = 1;\n    body\n}\n");
    let ran = project.run("check --format sarif").ends(1);
    let report = ran.json();
    assert_eq!(report.text("version").as_deref(), Some("2.1.0"));
    assert_eq!(report.at_path("runs.0.tool.driver.name").as_str(), Some("valvehouse"));
    let (rules, results) = (report.at_path("runs.0.tool.driver.rules"), report.at_path("runs.0.results"));
    assert_eq!((rules.items().len(), results.items().len()), (3, 3), "{report}");
    for result in results.items() {
        // GitHub requires an existing rule, a level, a message and one location with a relative URI.
        let rule = rules.at(result.at_path("ruleIndex").as_i64().unwrap()).unwrap();
        assert_eq!(rule.text("id"), result.text("ruleId"));
        for words in ["shortDescription.text", "fullDescription.text", "help.text", "help.markdown"] {
            assert!(rule.at_path(words).as_str().is_some_and(|text| !text.is_empty()), "{words} of {rule}");
        }
        assert!(["error", "warning"].contains(&result.text("level").unwrap().as_str()));
        assert!(!result.at_path("message.text").as_str().unwrap().is_empty());
        let place = result.at_path("locations.0.physicalLocation");
        let uri = place.at_path("artifactLocation.uri").as_str().unwrap().to_owned();
        assert!(uri.starts_with("filters/") && !uri.contains(' '), "{uri}");
        assert!(place.at_path("region.startLine").as_i64().is_some_and(|line| line >= 1));
    }
    let broken = results.items().into_iter().find(|result| result.text("ruleId").as_deref() == Some("V101"));
    let region = broken.unwrap().at_path("locations.0.physicalLocation.region");
    let place = ["startLine", "startColumn", "endColumn"].map(|key| region.at_path(key).as_i64().unwrap());
    assert_eq!(place, [2, 14, 15]);
    project.run("list --format sarif").ends(2).stderr_has("--format sarif works only with valvehouse check");
}

#[test]
fn a_code_is_explained_with_an_example() {
    let project = Project::new();
    project.run("explain v502").ends(0).prints("V502: an unknown function").prints("Right:");
    project.run("explain --codes").ends(0).prints("V101").prints("V611");
    let page = project.run("explain V101 --format json").ends(0).json();
    assert_eq!(page.text("code").as_deref(), Some("V101"));
    assert!(page.text("page").unwrap().contains("```rhai"));
    project.run("explain V50Z").ends(2).stderr_has("unknown code `V50Z`; did you mean `V50");
}

#[test]
fn check_reports_problems_of_modules_once() {
    let imports = "import \"lib/a\" as a;\nfn inlet(body) { a::f() }";
    let project = Project::new().filter("x", imports).filter("y", imports).filter("lib/a", "fn f() { 1 }");
    project.run("check").ends(0).prints("checked 3 files, 0 problems");
    project.write("filters/lib/a.rhai", "fn f() {\n    let x = ;\n}");
    for what in ["check", "check filters", "check filters/lib/a.rhai"] {
        project.run(what).ends(1).prints("lib/a.rhai:2:13").prints(", 1 problem");
    }
    project.write("filters/_unused.rhai", "import \"lib/gone\" as gone;");
    project.run("check").ends(1).prints("_unused.rhai:1:8").prints("unknown module `lib/gone`");
}

#[test]
fn check_takes_files_folders_and_ids() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT).with("other/bad.rhai", BROKEN);
    project.run("check turn_limit").ends(0).prints("checked 1 file, 0 problems");
    project.run("check filters/turn_limit.rhai other").ends(1).prints("checked 2 files, 1 problem");
    project.run("check other/bad.rhai").ends(1).prints("bad.rhai:2:14");
    project.run("check nowhere.rhai").ends(65).stderr_has("unknown file, folder or plugin `nowhere.rhai`");
    project.run("check turn_limt").ends(65).stderr_has("did you mean `turn_limit`?");
    project.write("notes.txt", "");
    project.run("check notes.txt").ends(65).stderr_has("ends in .rhai");
}

#[test]
fn check_recognizes_tools_in_a_mixed_folder() {
    let project = Project::new();
    for (folder, name, code) in [
        ("filters", "shouts", "fn inlet(body) { body }"),
        ("tools", "adds", "fn handler(args) { args.a + args.b }"),
    ] {
        let folder = project.path("policies").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name).with_extension("rhai"), code).unwrap();
    }
    project.run("check policies").ends(0).prints("checked 2 files");
    project.run("check policies/tools").ends(0).prints("checked 1 file");
    project.run("check policies/filters").ends(0).prints("checked 1 file");
}

#[test]
fn check_names_the_problem_of_every_bad_file() {
    for (text, expected) in [
        ("", "the file is empty"),
        ("fn inlet(body, __usr__) { body }", "did you mean `__user__`?"),
        ("/*\nrequirements: htp\n*/\nfn inlet(body) { body }", "did you mean `http`?"),
        ("/*\nrequired_host_version: 99.0.0\n*/\nfn inlet(body) { body }", "needs host version 99.0.0"),
        ("def inlet(body):\n    return body\n", "cannot read Python"),
        (
            "const Valves = #{ a: #{ value: 1, minimun: 0 } };\nfn inlet(body) { body }",
            "did you mean `minimum`?",
        ),
    ] {
        let project = Project::new().filter("x", text);
        project.run("check").ends(1).prints(expected).prints("filters/x.rhai");
    }
    let project = Project::new().filter("Not an id", "fn inlet(body) { body }");
    project.run("check").ends(1).prints("invalid plugin id `Not an id`");
    let project = Project::new();
    std::fs::create_dir(project.path("filters")).unwrap();
    std::fs::write(project.path("filters/x.rhai"), b"fn inlet(body) { \"\xff\" }").unwrap();
    project.run("check").ends(1).prints("not UTF-8");
}

#[test]
fn two_files_with_one_id_are_a_warning_that_strict_counts() {
    let project = Project::new()
        .filter("x", "fn inlet(body) { body }")
        .with("filters/more/x.rhai", "fn inlet(body) { body }");
    project.run("check").ends(0).prints("duplicate plugin id `x`").prints("checked 2 files");
    project.run("check --strict").ends(1);
    project.run("list").ends(0).prints("duplicate plugin id `x`");
}

#[test]
fn commands_that_only_read_write_nothing() {
    let project = Project::new()
        .filter("turn_limit", TURN_LIMIT)
        .with("tests/turn_limit.rhai", "fn test_nothing() { }\n")
        .with("body.json", r#"{"messages": [{"role": "user", "content": "hi"}]}"#);
    let files = || {
        let mut names: Vec<_> = std::fs::read_dir(project.path(".")).unwrap().flatten().collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        names.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let before = files();
    for (command, code) in [
        ("list", 0),
        ("list --tools", 0),
        ("list --stats", 0),
        ("check", 0),
        ("config", 0),
        ("explain", 0),
        ("explain --coverage", 0),
        ("history turn_limit", 0),
        ("valves get turn_limit", 0),
        ("valves spec turn_limit", 0),
        ("grant turn_limit", 0),
        ("grant turn_limit --revoke", 2),
        ("nodes", 0),
        ("runs", 0),
        ("runs forget nobody", 2),
        ("user show ann", 0),
        ("user forget ann --yes", 0),
        ("diff", 2),
        ("mcp list", 0),
        ("run inlet turn_limit --body body.json", 0),
    ] {
        project.run(command).ends(code);
        assert_eq!(files(), before, "after: {command}");
    }
    project.run("valves set turn_limit max_turns=6").ends(0);
    assert_ne!(files(), before);
}

#[test]
fn valves_are_shown_with_their_sources() {
    let project = Project::new()
        .filter("turn_limit", TURN_LIMIT)
        .with("valvehouse.toml", "[filters.turn_limit]\nvalves = { max_turns = 8 }\n");
    let source = |project: &Project| {
        let json = project.run("valves get turn_limit --format json").ends(0).json();
        json.at_path("valves.max_turns").to_string()
    };
    assert_eq!(source(&project), r#"{"value":8,"source":"valvehouse.toml"}"#);
    project
        .run("valves set turn_limit max_turns=6")
        .ends(0)
        .prints("max_turns = 6 — stored; no host is running");
    assert_eq!(source(&project), r#"{"value":6,"source":"stored"}"#);
    project.run("valves get turn_limit").ends(0).prints("Messages allowed").prints("stored");
    assert_eq!(project.run("valves get turn_limit max_turns").ends(0).out, "6\n");
    project.run("valves set turn_limit max_turns=null").ends(0).prints("max_turns = 8 (valvehouse.toml)");
    project.run("valves set turn_limit max_turns=6 priority=3").ends(0);
    project.run("valves reset turn_limit max_turns").ends(0).prints("max_turns = 8 (valvehouse.toml)");
    project.run("valves reset turn_limit").ends(0).prints("priority = 0 (default)");
    project.run("valves reset turn_limit").ends(0).stderr_has("no valves were set");
    let spec = project.run("valves spec turn_limit").ends(0).json();
    assert_eq!(spec.at_path("properties.max_turns.maximum").as_i64(), Some(500));
}

#[test]
fn an_invalid_valve_is_rejected_with_the_reason() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT).filter("bad", BROKEN);
    project.run("valves set turn_limt max_turns=3").ends(2).stderr_has("did you mean `turn_limit`?");
    project.run("valves set turn_limit max_turn=3").ends(2).stderr_has("did you mean `max_turns`?");
    project.run("valves get turn_limit colour").ends(2).stderr_has("known names:").stderr_has("max_turns");
    project
        .run("valves set turn_limit priority=1 max_turns=many")
        .ends(65)
        .stderr_has("`max_turns`")
        .stderr_has("many");
    project.run("valves set turn_limit max_turns=501").ends(65).stderr_has("must be 500 or less");
    project.run("valves set bad x=1").ends(65).stderr_has("filters/bad.rhai:2:14");
    assert_eq!(project.run("valves get turn_limit priority").ends(0).out, "0\n");
}

#[test]
fn secrets_are_never_shown() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    let ran = project.run("valves set turn_limit token=hush-hush").ends(0).prints("********");
    assert!(!ran.out.contains("hush"));
    for words in
        ["valves get turn_limit", "valves get turn_limit token", "valves get turn_limit --format json"]
    {
        let ran = project.run(words).ends(0).prints("********");
        assert!(!ran.out.contains("hush") && !ran.talk.contains("hush"));
    }
}

#[test]
fn users_have_their_own_valves() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT).filter("x", "fn inlet(body) { body }");
    project.run("valves set turn_limit max_turns=1").ends(0);
    project.run("valves set turn_limit bonus_turns=3 --user ann").ends(0).prints("bonus_turns = 3");
    assert_eq!(project.run("valves get turn_limit bonus_turns --user ann").out, "3\n");
    assert_eq!(project.run("valves get turn_limit bonus_turns --user bob").out, "0\n");
    project
        .run("valves set turn_limit max_turns=3 --user ann")
        .ends(2)
        .stderr_has("unknown valve `max_turns`");
    project.run("valves get x --user ann").ends(2).stderr_has("has no user valves");
    project.run("explain --model demo --user ann").ends(0).prints(r#"{"bonus_turns":3}"#);
    project.run("valves spec turn_limit --user-valves").ends(0).prints("bonus_turns");
}

#[test]
fn grants_add_up_and_are_shown_with_their_sources() {
    let project = Project::new()
        .filter("weather", "fn inlet(body) { body }")
        .with("valvehouse.toml", "[grants.weather]\nhttp = [\"api.example.com\"]\nkv = true\n")
        .with("data/x.txt", "");
    project.run("grant weather http=other.org files=./data/ llm").ends(0).prints(
        "http = api.example.com, other.org — stored; no host is running on this project\nfiles = data — ",
    );
    let shown = project.run("grant weather").ends(0);
    let shown = shown.prints("http   api.example.com, other.org  valvehouse.toml and stored");
    shown.prints("files  data                        stored").prints("valvehouse.toml\nllm ");
    let json = project.run("grant weather --format json").ends(0).json();
    assert_eq!(
        json.to_string(),
        r#"{"id":"weather","granted":{"http":["api.example.com","other.org"],"files":["data"],"kv":true,"llm":true},"configured":{"http":["api.example.com"],"kv":true},"stored":{"http":["other.org"],"files":["data"],"llm":true}}"#
    );
    let json = project.run("grant weather env=HOME --format json").ends(0).json();
    assert_eq!(json.at_path("stored.env").to_string(), r#"["HOME"]"#);
    assert_eq!(json.at_path("reach.hosts").as_i64(), Some(0));
    Project::new().filter("x", REFUSES).run("grant x").ends(0).stderr_has("nothing is granted to `x`");
}

#[test]
fn grants_are_revoked_singly_or_all_at_once() {
    let project = Project::new()
        .filter("weather", "fn inlet(body) { body }")
        .with("valvehouse.toml", "[grants.weather]\nhttp = [\"api.example.com\"]\n");
    project.run("grant weather http=a.org,b.org shell=git env=HOME").ends(0);
    project.run("grant weather --revoke http=a.org shell").ends(0).prints("shell = nothing — ");
    project.run("grant weather").ends(0).prints("api.example.com, b.org").prints("HOME");
    project.run("grant weather --revoke http=c.org").ends(2).stderr_has("http=c.org is not granted");
    project.run("grant weather --revoke shell").ends(2).stderr_has("`shell` is not granted to `weather`");
    project.run("grant weather --revoke http").ends(0).prints("http = api.example.com (valvehouse.toml) — ");
    project.run("grant weather --revoke http").ends(2).stderr_has("by valvehouse.toml; remove it there");
    // Grants of a removed plugin can still be revoked.
    std::fs::remove_file(project.path("filters/weather.rhai")).unwrap();
    project.run("grant weahter --revoke").ends(2).stderr_has("did you mean `weather`?");
    project.run("grant weather --revoke").ends(0).prints("no more grants are stored for weather");
    project
        .run("grant weather --revoke")
        .ends(2)
        .stderr_has("cannot revoke grants of `weather`: none are stored");
}

#[test]
fn an_invalid_grant_is_reported_and_changes_nothing() {
    let project = Project::new().filter("weather", "fn inlet(body) { body }").filter("bad", BROKEN);
    project.run("grant wether http=a.org").ends(2).stderr_has("did you mean `weather`?");
    project.run("grant file_raed files=data").ends(2).stderr_has("did you mean `file_read`?");
    project.run("grant nothing_alike http=a.org").ends(2).stderr_has("unknown plugin `nothing_alike`");
    let ran = project.run("grant weather htpp=a kv=1").ends(2).stderr_has("did you mean `http`?");
    ran.stderr_has("kv takes no list: write `kv`");
    project.run("grant weather files=~/x").ends(2).stderr_has("`~` is not expanded here");
    project.run("grant weather files").ends(2).stderr_has("files needs a folder");
    project
        .run("grant file_read http=a.org")
        .ends(2)
        .stderr_has("`file_read` does not use `http`, only files");
    project.run("grant weather").ends(0).stderr_has("nothing is granted to `weather`");
    // A script that has never loaded may be waiting for this grant.
    project.run("grant bad http=a.org").ends(0).prints("http = a.org");
    project.run("grant shell_exec shell=git files=.").ends(0).prints("shell = git").prints("files = .");
}

#[test]
fn a_grant_without_limits_prints_a_warning() {
    let project = Project::new().filter("weather", "fn inlet(body) { body }");
    let ran = project.run("grant weather http shell env").ends(0).prints("http = everything");
    let ran = ran.stderr_has("may now reach every public host").stderr_has("may now run every program");
    ran.stderr_has("keys and passwords included");
    project.run("grant weather --revoke shell=git").ends(2).stderr_has("`shell` is granted without a list");
    project.run("grant weather files=nowhere").ends(0).stderr_has("the folder nowhere does not exist yet");
}

#[test]
fn a_running_host_applies_a_grant() {
    let project = Project::new().filter("weather", "fn inlet(body) { body }");
    let server = project.serve("");
    project.run("grant weather http=a.org").ends(0).prints("http = a.org — live on 1 host");
    project.run("grant weather --revoke").ends(0).prints("live on 1 host");
    assert_eq!(server.chat(1).0, 200);
}

#[test]
fn concurrent_grants_are_all_stored() {
    let project = Project::new().filter("weather", "fn inlet(body) { body }");
    project.run("list").ends(0);
    std::thread::scope(|scope| {
        for host in ["a.org", "b.org", "c.org", "d.org"] {
            let project = &project;
            scope.spawn(move || project.run(&format!("grant weather http={host}")).ends(0));
        }
    });
    let json = project.run("grant weather --format json").ends(0).json();
    assert_eq!(json.at_path("granted.http").items().len(), 4, "{json}");
}

#[test]
fn explain_shows_running_order_and_reasons_for_skipped_filters() {
    let project = Project::new()
        .filter("late", "const Valves = #{ priority: 5 };\nfn inlet(body) { body }")
        .filter("early", "const Valves = #{ priority: -5 };\nfn outlet(body) { body }")
        .filter("special", "/*\nglobal: false\n*/\nfn inlet(body) { body }")
        .filter("asked", "const toggle = true;\nfn inlet(body) { body }")
        .filter("off", "fn inlet(body) { body }")
        .filter("bad", BROKEN)
        .with(
            "valvehouse.toml",
            "[filters.off]\nenabled = false\n[[providers]]\nname = \"demo\"\nkind = \"demo\"\n[[models]]\nname = \"a\"\nprovider = \"demo\"\nfilters = [\"special\"]\n[[models]]\nname = \"b\"\nprovider = \"demo\"\n",
        );
    let decisions = |model: &str| -> Vec<String> {
        let json = project.run(&format!("explain --model {model} --format json")).ends(0).json();
        let filters = json.get("filters").unwrap().items();
        let words =
            filters.iter().map(|it| format!("{} {}", it.text("id").unwrap(), it.text("decision").unwrap()));
        words.collect()
    };
    let expected =
        ["early runs", "asked not_asked_for", "bad broken", "off off", "special not_listed", "late runs"];
    assert_eq!(decisions("b"), expected);
    assert!(decisions("a").contains(&"special runs".to_owned()));
    let ran = project.run("explain --model b").ends(0).prints("1.  early").prints("2.  late");
    let ran = ran.prints("[filters.off] enabled = false").prints("the model `b` does not list it");
    ran.prints("\"filter_ids\": [\"asked\"]").prints("see valvehouse check bad");
    project.run("explain --model c").ends(2).stderr_has("the model `c` does not exist");
    project.run("explain").ends(0).stderr_has("model a").prints("special");
}

#[test]
fn callback_scripts_are_listed_checked_and_explained_like_filters() {
    let listens = "const callbacks = true;\nfn on_tool_start(event) {}\nfn on_tool_begin(event) {}";
    let project = Project::new().filter("listens", listens);
    project.run("list").ends(0).prints("on_tool_start");
    project.run("explain --model demo").ends(0).prints("listens").prints("runs for every model");
    let checked = project.run("check").ends(0);
    checked.prints("unknown callback `on_tool_begin`: it is never called").prints("did you mean `on_tool_");
}

#[test]
fn commands_find_a_running_host_on_any_port() {
    let project = Project::new();
    let settings = "--set server.listen=127.0.0.1:1";
    project.run(&format!("health {settings}")).ends(69).stderr_has("http://127.0.0.1:1");
    let server = project.serve("");
    project.run(&format!("health {settings}")).ends(0).prints("ok");
    project.run("trace").ends(0);
    let second = project.serve("");
    project
        .run("health")
        .ends(2)
        .stderr_has("several hosts are running on this project")
        .stderr_has(second.address())
        .stderr_has("--at");
    drop((server, second));
    project.run(&format!("health {settings}")).ends(69).stderr_has("http://127.0.0.1:1");
}

#[test]
fn check_warns_about_secrets_that_are_not_set() {
    let project = Project::new().with(
        "valvehouse.toml",
        "[[providers]]\nname = \"openai\"\nkind = \"openai\"\napi_key = \"env:NO_SUCH_KEY\"\nmodels = \"*\"\n",
    );
    let ran = project.run("check").ends(0).prints("valvehouse.toml:4:").prints("warning[V224]");
    ran.prints("cannot read providers.openai.api_key: the environment variable NO_SUCH_KEY is not set");
    project.run("check --strict").ends(1);
    let set = project.variable("NO_SUCH_KEY", "k");
    set.run("check --strict").ends(0).prints("0 problems");
}

#[test]
fn a_guard_without_its_secret_is_a_warning_of_a_check_and_does_not_load() {
    let guard = "/*\nsecurity: true\n*/\nconst Valves = #{ token: #{ value: \"\", secret: true } };\nfn inlet(body, valves) { body.token = valves.token; body }";
    let config = "[filters.guard]\nvalves = { token = \"env:NO_SUCH_KEY\" }\n";
    let project = Project::new().filter("guard", guard).with("valvehouse.toml", config);
    project.run("check").ends(0).prints("`NO_SUCH_KEY` is not set");
    project.run("check --strict").ends(1);
    project.run("list").prints("broken").prints("`NO_SUCH_KEY` is not set");
    project.run("chat hello").ends(1).stderr_has("refused (503) by guard");
    let set = project.variable("NO_SUCH_KEY", "a-secret");
    set.run("check --strict").ends(0);
    set.run("chat hello").ends(0);
}

#[test]
fn reading_commands_need_no_provider_key() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT).with(
        "valvehouse.toml",
        "[[providers]]\nname = \"openai\"\nkind = \"openai\"\napi_key = \"env:NO_SUCH_KEY\"\nmodels = \"*\"\n",
    );
    project.run("list").ends(0).prints("live");
    project.run("explain --model gpt").ends(0);
    project.run("valves set turn_limit max_turns=3").ends(0);
    project.run("chat --model gpt hello").ends(78).stderr_has("NO_SUCH_KEY is not set");
}

#[test]
fn chat_runs_the_same_filters() {
    let project = Project::new()
        .filter("loud", "fn stream(event) { event.text = event.text.to_upper(); event }")
        .filter("log", "fn inlet(body, __user__) { print(`request of ${__user__.id}`); body }");
    project
        .run("chat hello there --user ann")
        .ends(0)
        .prints("YOU SAID: HELLO THERE")
        .stderr_has("log: request of ann");
    project.run("chat --no-stream hello").ends(0).prints("YOU SAID: HELLO");
    project.run_with(&["chat"], "from a pipe\n").ends(0).prints("YOU SAID: FROM A PIPE");
    let json = project.run("chat hello --format json").ends(0).json();
    assert!(json.at_path("choices.0.message.content").as_str().unwrap().starts_with("YOU SAID"));
    project.run_with(&["chat"], " \n").ends(2).stderr_has("missing message");
    project.run("chat --model dmeo hello").ends(2).stderr_has("did you mean `demo`?");
    let quiet = project.run("chat hello --quiet").ends(0);
    assert_eq!(quiet.talk, "");
}

#[test]
fn chat_shows_a_rejection_and_its_filter() {
    let project = Project::new().filter("no", REFUSES);
    let ran = project.run("chat hello").ends(1).stderr_has("refused (403) by no: not today");
    assert_eq!(ran.out, "");
    let project = Project::new().filter("bug", "fn inlet(body) {\n    let x = [];\n    x[3]\n}");
    project.run("chat hello").ends(65).stderr_has("bug").stderr_has("bug.rhai:3:");
}

const ASKS: &str = r#"fn inlet(body) {
    let sure = ask(#{ type: "confirmation", data: #{ title: "Sure?", message: "It costs money" }, timeout: 30000 });
    print("between the questions");
    let city = ask(#{ type: "input", data: #{ title: "City", message: "Which one?", choices: ["Oslo", "Bergen"] } });
    body.messages[-1].content = `${sure} ${city}`;
    body
}"#;

#[test]
fn chat_shows_questions_of_filters_to_the_person() {
    let project = Project::new().filter("asks", ASKS);
    let ran = project.run_with(&["chat", "hello"], "perhaps\ny\n2\n").ends(0);
    let ran =
        ran.prints("You said: true Bergen").stderr_has("[confirmation] Sure?\n  It costs money\n  [y/N] ");
    let ran =
        ran.stderr_has("y or n: ").stderr_has("[input] City\n  Which one?\n  1) Oslo\n  2) Bergen\n  > ");
    assert!(!ran.out.contains("Sure"), "{}", ran.out);
    project.run_with(&["chat", "hello"], "\nTromsø").ends(0).prints("You said: false Tromsø");
    let quiet = project.run_with(&["chat", "hello", "--quiet"], "n\nOslo\n").ends(0).stderr_has("Which one?");
    assert!(!quiet.talk.contains("between"), "{}", quiet.talk);
    let json = project.run_with(&["chat", "hello", "--format", "json"], "y\n1\n").ends(0);
    json.stderr_has(r#"{"event":{"#).stderr_has(r#""type":"confirmation""#).prints("true Oslo");
}

#[test]
fn a_question_at_the_end_of_input_is_unanswered_at_once() {
    let project = Project::new().filter("asks", ASKS);
    project.run_with(&["chat", "hello"], "").ends(65).stderr_has("no user can answer");
    project.run_with(&["chat", "hello"], "y\n").ends(65).stderr_has("no user can answer");
    // The whole of stdin was the message.
    project.run_with(&["chat"], "hello\ny\nOslo\n").ends(65).stderr_has("no user can answer");
    let caught = "fn inlet(body) { try { ask(#{ type: \"input\" }); } catch (e) { body.messages[-1].content = e.message; } body }";
    let project = Project::new().filter("asks", caught);
    project.run_with(&["chat", "hello"], "").ends(0).prints("You said: no user can answer");
}

#[test]
fn an_expired_question_is_withdrawn() {
    let script = "fn inlet(body) {\n    try { ask(#{ type: \"input\", timeout: 3000 }); } catch (e) { body.messages[-1].content = e.message; }\n    body\n}";
    let project = Project::new().filter("asks", script);
    let mut child = project.command(&["chat", "hello"]).stdin(Stdio::piped()).spawn().unwrap();
    // The input stays open and silent until the end.
    let stdin = child.stdin.take();
    let (mut out, mut talk) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{talk}");
    assert!(out.contains("no answer within 3000 ms"), "{out}");
    assert!(talk.contains("the question has been closed; no answer is needed"), "{talk}");
    drop(stdin);
}

#[test]
fn nothing_is_written_while_a_question_is_open() {
    let script = "fn inlet(body) { emit(#{ type: \"status\", data: #{ description: \"before\" } }); ask(#{ type: \"input\", data: #{ title: \"Now?\" } }); body }";
    let logs = "fn inlet(body) { print(`after`); body }";
    let project = Project::new().filter("asks", script).filter("late", logs);
    let ran = project.run_with(&["chat", "hello"], "now\n").ends(0);
    let place = |text: &str| ran.talk.find(text).unwrap_or_else(|| panic!("{text:?} in {}", ran.talk));
    assert!(place("before") < place("Now?") && place("Now?") < place("late: after"), "{}", ran.talk);
}

#[test]
fn a_missing_guard_rejects_until_its_removal_is_confirmed() {
    let project = Project::new().filter("guard", GUARD);
    project.run("confirm guard").ends(65).stderr_has("cannot confirm a change of `guard`: none is pending");
    project.run("confirm gurad").ends(2).stderr_has("did you mean `guard`?");
    project.run("chat hello").ends(0);
    std::fs::remove_file(project.path("filters/guard.rhai")).unwrap();
    project.run("list").ends(0).prints("missing").prints("valvehouse confirm guard");
    project.run("explain --model demo").ends(0).prints("refuses every request");
    project.run("chat hello").ends(1).stderr_has("refused (503) by guard");
    project.run("confirm guard").ends(0).prints("guard is no longer required: its removal is accepted");
    project.run("chat hello").ends(0);
    project.run("list").ends(0).stderr_has("no plugins yet");
}

#[test]
fn a_running_host_applies_a_valve_to_the_next_request() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    let server = project.serve("");
    assert_eq!(server.chat(3).0, 200);
    for limit in [1, 3, 2] {
        let set = project.run(&format!("valves set turn_limit max_turns={limit}"));
        set.ends(0).prints(&format!("max_turns = {limit} — live on 1 host"));
        assert_eq!(server.chat(limit).0, 200);
        let (status, body) = server.chat(limit + 1);
        assert_eq!(status, 400);
        assert!(body.contains(&format!("turn limit exceeded ({limit})")), "{body}");
    }
    server.wait_for_line("turn_limit settings");
    project.run("valves reset turn_limit").ends(0).prints("live on 1 host");
    assert_eq!(server.chat(4).0, 200);
}

#[test]
fn a_running_host_prints_the_result_of_every_save() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    let server = project.serve("");
    server.wait_for_line("curl http://");
    project.write("filters/no.rhai", REFUSES);
    server.wait_for_line("no loaded (generation 2");
    assert_eq!(server.chat(1).0, 403);
    project.write("filters/no.rhai", BROKEN);
    server.wait_for_line("no stale: its last good version keeps running (generation 3");
    server.wait_for_line("filters/no.rhai:2:14: error[V101]: ");
    server.wait_for_line("^");
    assert_eq!(server.chat(1).0, 403);
    std::fs::remove_file(project.path("filters/no.rhai")).unwrap();
    server.wait_for_line("no removed");
    assert_eq!(server.chat(1).0, 200);
}

#[test]
fn reading_commands_do_not_disturb_a_running_host() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    let server = project.serve("");
    for words in ["list", "explain --model demo", "valves get turn_limit", "chat hello"] {
        project.run(words).ends(0);
    }
    assert_eq!(server.chat(1).0, 200);
    project.run("valves set turn_limit max_turns=5").ends(0).prints("live on 1 host");
    server.wait_for_line("settings (generation 2");
}

#[test]
fn a_confirmed_removal_reaches_a_running_host() {
    let project = Project::new().filter("guard", GUARD);
    let server = project.serve("");
    std::fs::remove_file(project.path("filters/guard.rhai")).unwrap();
    server.wait_for_line("guard missing: requests are refused");
    assert_eq!(server.chat(1).0, 503);
    project.run("confirm guard").ends(0).prints("live on 1 host");
    assert_eq!(server.chat(1).0, 200);
}

#[test]
fn a_missing_guard_that_was_off_or_in_audit_mode_is_not_said_to_refuse_requests() {
    for (setting, why) in
        [("enabled = false", "it is switched off"), ("mode = \"audit\"", "it is in audit mode")]
    {
        let project = Project::new().filter("guard", GUARD);
        let server = project.serve("");
        project.write("valvehouse.toml", &format!("[filters.guard]\n{setting}\n"));
        server.wait_for_line("the guard `guard` would be");
        project.run("confirm guard").ends(0).prints("live on 1 host");
        std::fs::remove_file(project.path("filters/guard.rhai")).unwrap();
        server.wait_for_line(&format!("guard missing: no request is refused, since {why}"));
        assert_eq!(server.chat(1).0, 200);
        let sentence = format!("the guard `guard` is missing: no request is refused, since {why}");
        let list = project.run("list").ends(0).prints(&sentence).prints("valvehouse confirm guard");
        assert!(!list.out.contains("requests are refused"), "{}", list.out);
        let overview = server.get("/api/v1/overview");
        assert!(overview.contains(&sentence) && !overview.contains("requests are refused"), "{overview}");
    }
}

#[test]
fn a_port_in_use_is_reported_with_a_fix() {
    let project = Project::new();
    let server = project.serve("");
    let ran = project.run(&format!("serve --listen {}", server.address())).ends(69);
    ran.stderr_has("cannot listen on").stderr_has("perhaps by another valvehouse; use --port");
}

#[test]
#[cfg(unix)]
fn a_host_ends_on_a_signal_and_logs_it() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    for name in ["-TERM", "-INT"] {
        let mut server = project.serve("");
        signal(server.id(), "-HUP");
        server.wait_for_line("the settings are reloaded");
        signal(server.id(), name);
        assert_eq!(server.ends(), Some(0));
    }
    project.run("valves set turn_limit max_turns=2").ends(0).prints("no host is running");
}

#[test]
#[cfg(unix)]
fn a_second_signal_does_not_wait_for_answers_under_way() {
    let mut server = Project::new().serve("");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    // A request whose body is never sent.
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n"
    )
    .unwrap();
    // The host asks for the body, so the request is in progress.
    stream.read_exact(&mut [0; 12]).unwrap();
    signal(server.id(), "-TERM");
    server.wait_for_line("stopping");
    assert_eq!(server.exit_status(), None);
    signal(server.id(), "-TERM");
    server.wait_for_line("stopped at once");
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn json_output_of_a_host_is_one_object_per_line() {
    let project = Project::new().filter("turn_limit", TURN_LIMIT);
    let server = project.serve("--format json");
    project.write("filters/bad.rhai", BROKEN);
    let line = Json::parse(server.wait_for_line("\"reload\"").as_bytes()).unwrap();
    assert_eq!(line.text("change").as_deref(), Some("broken"));
    assert_eq!(line.at_path("problems.0.line").as_i64(), Some(2));
}

const ADD: &str = r#"/*
description: Adds.
tag: math
*/
const parameters = #{ a: #{ type: "integer", required: true }, b: #{ type: "integer", "default": 1 } };
fn handler(args, ctx) { ctx.set("sum", args.a + args.b); args.a + args.b }
"#;
const LISTS: &str =
    "/*\nrequirements: shell\n*/\nfn handler(args) { shell::run([\"echo\", args.what]).stdout }";

#[test]
fn invoke_calls_a_tool_through_the_filters_with_arguments_in_every_form() {
    let stamp = "fn post_invocation(ctx) { emit(#{ type: \"status\", data: #{ description: \"added\" } }); }";
    let project = Project::new().with("tools/add.rhai", ADD).filter("stamp", stamp);
    let ran = project.run("invoke add a=4");
    assert_eq!((ran.code, ran.out.trim()), (0, "5"), "{}", ran.talk);
    assert!(ran.talk.contains("[status] added"), "{}", ran.talk);
    let ran = project.run_with(&["invoke", "add", "--args", r#"{"a": 4, "b": "7"}"#, "--format", "json"], "");
    assert_eq!(ran.out.trim(), r#"{"result":11,"context":{"sum":11}}"#);
    let ran = project.run_with(&["invoke", "add", "--args", "-", "b=2"], r#"{"a": 1}"#);
    assert_eq!(ran.out.trim(), "3", "{}", ran.talk);
    for (words, code, expected) in [
        ("invoke add", 1, "`a` is required"),
        ("invoke add a=x", 1, "`a` must be a whole number"),
        ("invoke ad a=1", 2, "did you mean `add`?"),
        ("invoke add --args [1]", 2, "must be a JSON object"),
        ("invoke add --args {", 2, "not valid JSON"),
    ] {
        let ran = project.run(words);
        assert_eq!(ran.code, code, "{words}: {}", ran.talk);
        assert!(ran.talk.contains(expected) && ran.out.is_empty(), "{words}: {}", ran.talk);
    }
}

#[test]
fn a_tool_without_its_grant_is_reported_with_the_grant_command() {
    let project = Project::new().with("tools/say.rhai", LISTS).with("tools/add.rhai", ADD);
    for words in ["check", "check say", "list", "invoke say what=hi"] {
        let ran = project.run(words);
        let output = format!("{}{}", ran.out, ran.talk);
        assert!(output.contains("valvehouse grant say shell=PROGRAM"), "{words}: {output}");
    }
    assert_eq!(project.run("check").code, 1);
    assert_eq!(project.run("grant say shell=echo").code, 0);
    assert_eq!(project.run("invoke say what=hi").out.trim(), "hi");
    assert_eq!(project.run("check").code, 0);
    let listed = project.run("list").out;
    assert!(listed.contains("say") && listed.contains("todo_add") && listed.contains("native"), "{listed}");
    let explained = project.run("explain --model demo").out;
    assert!(explained.contains("human_confirm, add, say"), "{explained}");
    assert_eq!(project.run("grant say --revoke").code, 0);
    assert_eq!(project.run("invoke say what=hi").code, 2);
}

#[test]
fn list_and_explain_name_the_answering_model() {
    let project = Project::new().with(
        "valvehouse.toml",
        "[[providers]]\nname = \"mine\"\nkind = \"vllm\"\n\
         [[providers]]\nname = \"groq\"\nmodels = \"*\"\n\
         [[models]]\nname = \"assistant\"\nprovider = \"mine\"\nmodel = \"llama\"\nfallbacks = [\"groq/llama-small\"]\n",
    );
    project.run("list").ends(0).prints("http://127.0.0.1:8000/v1").prints("groq").prints("used");
    let json = project.run("list --format json").ends(0).json();
    assert_eq!(json.at_path("providers.1.name").as_str(), Some("groq"));
    assert_eq!(json.at_path("providers.1.open_breakers").to_string(), "[]");
    project.run("explain --model assistant").ends(0).prints("answered by: mine/llama, then groq/llama-small");
}
