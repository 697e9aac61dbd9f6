//! Modules: files that scripts import, and attempts to import other files.

use crate::host::{TestHost, until};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use valvehouse::context::{Context, Events, Turn, TurnFacts};
use valvehouse::filter::{Chain, ChainOutcome, Hook};
use valvehouse::json::Json;
use valvehouse::script::{Diagnostic, Kind, Script, Settings, read_file};

/// Creates a plugin folder with files by their paths.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn compile(folder: &Path, name: &str) -> Result<Script, Vec<Diagnostic>> {
    let read = read_file(Kind::Filter, folder, &folder.join(name)).map_err(|problem| vec![problem])?;
    Script::compile(&read.file, &Settings::default())
}

/// Returns the problems of `x.rhai` in a folder.
fn problem_text(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let problems = match compile(folder.path(), "x.rhai") {
        Ok(script) => script.warnings,
        Err(problems) => problems,
    };
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    messages.join("\n").replace(&folder.path().display().to_string(), "filters")
}

/// Runs the inlet of `x.rhai`. Returns `body.out` or the failure.
async fn run(files: &[(&str, &str)]) -> Result<String, String> {
    let folder = folder(files);
    let script = compile(folder.path(), "x.rhai").unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    });
    let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
    let turn = Turn::new(TurnFacts::default(), Context::default(), Events::default());
    let body = Json::parse(br#"{"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
    match chain.run(Hook::Inlet, body, &turn).await {
        Ok(ChainOutcome::Done(body) | ChainOutcome::Skipped(body)) => {
            Ok(body.get("out").unwrap_or_default().to_string())
        }
        Err(error) => Err(format!("{error:?}").replace(&folder.path().display().to_string(), "filters")),
    }
}

/// Runs an inlet that imports the module `lib/words`.
async fn with_words(module: &str, code: &str) -> Result<String, String> {
    let text = format!(
        "import \"lib/words\" as words;\nconst LIMIT = 1;\nfn helper(x) {{ `main ${{x}}` }}\nfn inlet(body) {{ {code} }}"
    );
    run(&[("x.rhai", &text), ("lib/words.rhai", module)]).await
}

const WORDS: &str = "
const LIMIT = 7;
const NAMES = #{ LIMIT: \"key\", helper: [1, 2] };
/// Louder.
fn shout(x) { helper(x).to_upper() + \"!\" }
fn helper(x) { `module ${x}` }
private fn hidden() { 1 }
fn limit() { LIMIT }
fn names() { NAMES }
fn each(list, f) { list.map(|item| f.call(item)) }
fn louder() { |x| shout(x) }
fn by_name() { Fn(\"helper\").call(1) }
fn as_value() { [1, 2].map(helper) }
fn local() { let LIMIT = 3; let limit = LIMIT + 1; limit }
fn shadowed(helper) { helper }
fn property(m) { m.helper.len() + m.LIMIT.len() }
fn in_text(x) { `${helper(x)} ${LIMIT}` }
fn roles(body) { let out = []; for m in body.messages { out.push(m.role); } out }
fn pick(x) { switch x { 1 => LIMIT, _ => helper(x) } }
";

#[tokio::test]
async fn a_script_uses_functions_and_constants_of_a_module() {
    let cases = [
        ("body.out = words::shout(\"a\")", "\"MODULE A!\""),
        ("body.out = helper(1) + words::helper(1)", "\"main 1module 1\""),
        ("body.out = [LIMIT, words::LIMIT, words::limit()]", "[1,7,7]"),
        ("body.out = words::names()", r#"{"LIMIT":"key","helper":[1,2]}"#),
        ("body.out = words::property(words::NAMES)", "5"),
        // Closures pass in both directions and keep the scope in which they were written.
        ("body.out = words::each([1, 2], |x| helper(x))", r#"["main 1","main 2"]"#),
        ("let f = words::louder(); body.out = f.call(\"b\")", "\"MODULE B!\""),
        ("let f = |x| words::shout(x); body.out = [\"c\"].map(f)", r#"["MODULE C!"]"#),
        ("body.out = [1].map(words::helper)", r#"["module 1"]"#),
        ("body.out = words::by_name() + words::as_value()[0]", "\"module 1module 1\""),
        ("body.out = [words::local(), words::shadowed(5)]", "[4,5]"),
        ("body.out = words::in_text(1)", "\"module 1 7\""),
        ("body.out = words::roles(body)", r#"["user"]"#),
        ("body.out = [words::pick(1), words::pick(2)]", r#"[7,"module 2"]"#),
    ];
    for (code, expected) in cases {
        assert_eq!(with_words(WORDS, code).await.as_deref(), Ok(expected), "{code}");
    }
    let stray = format!("{WORDS}fn stray(x) {{ only_in_main(x) }}");
    for (code, module, unknown) in [
        ("words::hidden()", WORDS, "words::hidden"),
        ("words::nothing(1)", WORDS, "words::nothing"),
        ("words::stray(1)", &stray, "only_in_main"),
    ] {
        let script = format!(
            "import \"lib/words\" as words;\nfn only_in_main(x) {{ x }}\nfn inlet(body) {{ {code} }}"
        );
        let report = problem_text(&[("x.rhai", &script), ("lib/words.rhai", module)]);
        assert!(report.contains(&format!("unknown function `{unknown}`")), "{code}: {report}");
    }
}

#[tokio::test]
async fn modules_import_relative_and_top_level_modules() {
    let files = [
        (
            "deep/x.rhai",
            "import \"_near\" as near; import \"lib/a\" as a;\nfn inlet(body) { body.out = [near::f(), a::f()]; }",
        ),
        ("deep/_near.rhai", "import \"lib/far/b\" as a;\nfn f() { \"near \" + a::f() }"),
        ("lib/a.rhai", "import \"far/b\" as b;\nfn f() { \"a \" + b::f() }"),
        ("lib/far/b.rhai", "fn f() { \"b\" }"),
    ];
    let folder = folder(&files);
    let script = compile(folder.path(), "deep/x.rhai").unwrap();
    let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
    let turn = Turn::new(TurnFacts::default(), Context::default(), Events::default());
    let body = Json::from([("messages", Json::array())]);
    let Ok(ChainOutcome::Done(body)) = chain.run(Hook::Inlet, body, &turn).await else { panic!() };
    assert_eq!(body.get("out").unwrap().to_string(), r#"["near b","a b"]"#);
}

#[test]
fn a_failed_import_is_reported_at_its_position() {
    let import = |what: &str| format!("import \"{what}\" as m;\nfn inlet(body) {{ m::f() }}");
    for (what, words) in [
        ("lib/gone", "x.rhai:1:8: error[V401]: unknown module `lib/gone`"),
        ("../x", "invalid module path `../x`"),
        ("lib/../../x", "invalid module path"),
        ("/etc/passwd", "invalid module path `/etc/passwd`"),
        ("lib//a", "invalid module path"),
        ("lib/a.rhai", "invalid module path"),
        ("lib/a\\x00", "invalid module path"),
        ("other", "cannot import `other`: it is a plugin, not a module"),
        ("LIB/a", "unknown module"),
        ("lib/A", "unknown module"),
    ] {
        let files =
            [("x.rhai", &*import(what)), ("lib/a.rhai", "fn f() { 1 }"), ("other.rhai", "fn inlet(b) {}")];
        let report = problem_text(&files);
        assert!(report.contains(words), "{what}: {report}");
    }
    for (text, words) in [
        ("import \"lib/a\";\nfn inlet(body) {}", "missing name of the imported module"),
        ("import \"lib/\" + \"a\" as a;\nfn inlet(body) {}", "cannot import a computed path"),
        (
            "import \"lib/a\" as json;\nfn inlet(body) {}",
            "cannot import a module as `json`: the host has a module of this name",
        ),
        (
            "import \"lib/a\" as a; import \"lib/a\" as a;\nfn inlet(body) {}",
            "cannot import two modules as `a`",
        ),
        (
            "fn inlet(body) {\n  import \"lib/a\" as a; a::f() }",
            "x.rhai:2:3: error[V404]: `import` is not allowed within a function",
        ),
        ("fn inlet(body) { a::f() }", "undefined module: a"),
    ] {
        let report = problem_text(&[("x.rhai", text), ("lib/a.rhai", "fn f() { 1 }")]);
        assert!(report.to_lowercase().contains(&words.to_lowercase()), "{text}: {report}");
    }
}

#[test]
fn an_error_in_a_module_is_reported_in_the_module() {
    let x = ("x.rhai", "import \"lib/a\" as a;\nfn inlet(body) { a::f() }");
    for (module, words) in [
        ("fn f() {\n    let x = ;\n}", "lib/a.rhai:2:13: error[V101]:"),
        ("fn f() {\n    x\n}", "lib/a.rhai:2:5: error[V104]: undefined variable: x"),
        ("fn f() { g() }\nconst g = 1 + f();", "lib/a.rhai:2:1: error[V405]: cannot compute `g`"),
        (
            "fn f() { 1 }\nf();",
            "lib/a.rhai:2:1: error[V405]: statements are not allowed at the top of a module",
        ),
        ("const Valves = #{ a: 1 };\nfn f() { 1 }", "`Valves` is not allowed in a module"),
        (
            "fn f() { http::get(\"http://a.example\") }",
            "lib/a.rhai:1:10: error[V301]: `http` is used but not declared in `requirements`",
        ),
        ("fn f() { regex::find(\"a\", \"(\") }", "lib/a.rhai:1:"),
        (
            "const A = 1;\nfn f() { A = 2; }",
            "lib/a.rhai:2:10: error[V107]: cannot assign to the constant `A`",
        ),
        ("import \"lib/a\" as a;\nfn f() { 1 }", "cannot import modules in a cycle: `lib/a` imports `lib/a`"),
        ("import \"lib/b\" as b;\nfn f() { 1 }", "`lib/a` imports `lib/b` imports `lib/a`"),
        ("fn string.f() { 1 }\nfn f() { 1 }", "cannot export the method `string.f` from a module"),
        ("fn f() { let a = `one\\n`; a }", "is not an escape"),
    ] {
        let report = problem_text(&[
            x,
            ("lib/a.rhai", module),
            ("lib/b.rhai", "import \"lib/a\" as a;\nfn g() { a::f() }"),
        ]);
        assert!(report.contains(words) && !report.contains("__m"), "{module}: {report}");
    }
    let report = problem_text(&[x, ("lib/a.rhai", "fn f() { http::get(\"http://a.example\") }")]);
    assert!(
        report.contains("the opening comment of") && report.contains("x.rhai: requirements: http"),
        "{report}"
    );
}

#[cfg(unix)]
#[test]
fn links_cannot_leave_the_module_folder() {
    let outside = folder(&[("secret.rhai", "fn f() { 1 }"), ("lib/a.rhai", "fn f() { 1 }")]);
    for (link, target) in [("lib/a.rhai", "secret.rhai"), ("lib/b", "lib"), ("_a.rhai", "secret.rhai")] {
        let name = if link == "lib/b" { "lib/b/a" } else { link.trim_end_matches(".rhai") };
        let text = format!("import \"{name}\" as a;\nfn inlet(body) {{ a::f() }}");
        let inside = folder(&[("x.rhai", &text), ("lib/c.rhai", "fn f() { 1 }")]);
        std::os::unix::fs::symlink(outside.path().join(target), inside.path().join(link)).unwrap();
        let problems = compile(inside.path(), "x.rhai").unwrap_err();
        assert!(problems[0].to_string().contains("leads out of the plugin folder"), "{link}: {problems:?}");
    }
}

#[test]
fn modules_are_bounded_in_number_depth_and_size() {
    let many: Vec<(String, String)> =
        (0..40).map(|n| (format!("lib/m{n}.rhai"), "fn f() { 1 }".to_owned())).collect();
    let imports: String = (0..40).map(|n| format!("import \"lib/m{n}\" as m{n};\n")).collect();
    let x = format!("{imports}fn inlet(body) {{}}");
    let files: Vec<(&str, &str)> =
        many.iter().map(|(name, text)| (&**name, &**text)).chain([("x.rhai", &*x)]).collect();
    assert!(problem_text(&files).contains("imports exceeded their limit"));

    let chain: Vec<(String, String)> = (0..10)
        .map(|n| {
            (format!("lib/m{n}.rhai"), format!("import \"lib/m{}\" as next;\nfn f() {{ next::f() }}", n + 1))
        })
        .collect();
    let x = "import \"lib/m0\" as m;\nfn inlet(body) { m::f() }";
    let files: Vec<(&str, &str)> = chain
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .chain([("x.rhai", x), ("lib/m10.rhai", "fn f() { 1 }")])
        .collect();
    assert!(problem_text(&files).contains("imports"), "{}", problem_text(&files));

    let long = format!("fn f() {{ 1 }}\n//{}", "x".repeat(300 * 1024));
    let report =
        problem_text(&[("x.rhai", "import \"lib/a\" as a;\nfn inlet(body) {}"), ("lib/a.rhai", &long)]);
    assert!(report.contains("lib/a.rhai: error[V002]: the file has 300 KB"), "{report}");
}

#[tokio::test]
async fn a_runtime_error_is_reported_at_its_position_in_the_module() {
    let module = "import \"lib/inner\" as inner;\nfn f(x) {\n    inner::g(x)\n}\nfn h(list) {\n    list.map(|x| x.nothing())\n}";
    let inner = "fn g(x) {\n\n    x.missing()\n}";
    let x = |code: &str| format!("import \"lib/a\" as a;\nfn inlet(body) {{\n    {code}\n}}");
    for (code, place, calls) in [
        (
            "a::f(1)",
            "lib/inner.rhai:3:7",
            vec!["g called at filters/lib/a.rhai:3:", "f called at filters/x.rhai:3:"],
        ),
        ("a::h([1])", "lib/a.rhai:6:20", vec!["h called at filters/x.rhai:3:"]),
    ] {
        let files = [("x.rhai", &*x(code)), ("lib/a.rhai", module), ("lib/inner.rhai", inner)];
        let error = run(&files).await.unwrap_err();
        assert!(error.contains(place), "{error}");
        assert!(calls.iter().all(|call| error.contains(call)), "{error}");
    }
}

#[tokio::test]
async fn a_module_is_limited_by_the_budget_of_its_script() {
    let endless = ["loop {}", "let a = []; loop { a.push(1); }", "f()", "[1].map(|x| { loop {} })"];
    for body in valvehouse_testkit::sampled(endless, 2) {
        let module = format!("fn f() {{ {body} }}");
        let error = with_words(&module, "words::f()").await.unwrap_err();
        let bounds = ["exceeded its", "overflow", "too large"];
        assert!(bounds.iter().any(|word| error.contains(word)), "{body}: {error}");
    }
    let caught = with_words("fn f() { try { loop {} } catch { } 1 }", "body.out = words::f()").await;
    assert!(caught.unwrap_err().contains("exceeded its"));
}

#[tokio::test]
async fn a_script_with_a_waiting_module_may_wait() {
    let text = "/*\nrequirements: http\nallow_hosts: api.example.com\n*/\nimport \"lib/a\" as a;\nfn inlet(body) { a::f() }";
    let folder = folder(&[("x.rhai", text), ("lib/a.rhai", "fn f() { http::get(\"http://127.0.0.1:9/\") }")]);
    let script = Arc::new(compile(folder.path(), "x.rhai").unwrap());
    let chain = Chain::new(vec![script.into_filter(Arc::default())]);
    let turn = Turn::new(TurnFacts::default(), Context::default(), Events::default());
    let body = Json::from([("messages", Json::array())]);
    // The call is refused without a panic, because it ran where it may wait.
    let error = chain.run(Hook::Inlet, body, &turn).await.err().map(|error| format!("{error:?}")).unwrap();
    assert!(error.contains("lib/a.rhai:1:") && error.contains("127.0.0.1"), "{error}");
}

/// Appends the module's text to every response.
const SAYS: &str =
    "import \"lib/words\" as words;\nfn outlet(body) { body.messages[-1].text += words::say(); body }";

fn module_with(word: &str) -> String {
    format!("fn say() {{ \" {word}\" }}")
}

#[tokio::test]
async fn a_changed_module_reloads_every_script_that_imports_it_at_once() {
    let host = TestHost::new().filter("one", SAYS).filter("two", SAYS).start().await;
    host.stands("one", "broken").await;
    host.save("lib/words", module_with("a"));
    host.stands("one", "live").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream a a");
    for word in ["b", "c", "d"] {
        host.save("lib/words", module_with(word));
        until("the module's new version runs", || async {
            let text = host.ask("x").await.text();
            let words: Vec<&str> = text.split(' ').skip(3).collect();
            assert_eq!(words[0], words[1], "both scripts change together");
            words[0] == word
        })
        .await;
    }
}

#[tokio::test]
async fn a_broken_or_deleted_module_leaves_its_scripts_on_their_last_good_version() {
    let mut host = TestHost::new()
        .filter("one", SAYS)
        .filter("two", SAYS)
        .filter("three", "fn inlet(body) {}")
        .start()
        .await;
    host.save("lib/words", module_with("good"));
    host.stands("two", "live").await;

    host.save("lib/words", "fn say() {\n    let x = ;\n}");
    host.stands("one", "stale").await;
    host.stands("two", "stale").await;
    host.stands("three", "live").await;
    let problem = host.problems("one").remove(0);
    assert!(problem.place().ends_with("lib/words.rhai:2:13"), "{problem}");
    assert_eq!(host.ask("x").await.text(), "hello from upstream good good");

    // The last good source of the module is stored with that of the script.
    host.restart().await;
    host.stands("one", "stale").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream good good");

    host.delete("lib/words");
    until("its absence is reported", || async {
        host.problems("one")[0].to_string().contains("unknown module")
    })
    .await;
    host.stands("one", "stale").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream good good");

    host.save("lib/words", module_with("better"));
    host.stands("one", "live").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream better better");
}

#[tokio::test]
async fn tools_import_from_their_own_folder() {
    let tool = "import \"_math\" as math;\nfn tools() { [math::entry(), #{ name: \"twice\", description: \"Doubles\", handler: Fn(\"twice\") }] }\nfn twice(args) { math::twice(args.n ?? 2) }";
    let math = "fn twice(n) { n * 2 }\nfn entry() { #{ name: \"thrice\", description: \"Triples\", handler: thrice } }\nfn thrice(args) { 3 * (args.n ?? 2) }";
    let host = TestHost::new().tool("numbers", tool).tool("_math", math).start().await;
    host.stands("numbers", "live").await;
    let kernel = host.snapshot().invoking();
    for (name, expected) in [("twice", "4"), ("thrice", "6")] {
        let result = kernel.invoke(name, Json::object(), &Context::default()).await.unwrap();
        assert_eq!(format!("{}", result.value), expected);
    }
}

#[tokio::test]
async fn functions_have_the_names_that_rhai_reserves() {
    let module = "fn match(x) { case(x) + 100 }\nfn case(y) { let f = |x| x * 2; call(f, y) }\nfn twice(f) { call(f, 5) }";
    let main = "import \"lib/words\" as words;\n\
                fn inlet(body) {\n    let match = 2;\n    body.out = [default(match), call(1), call(1, 2), [3, 4].map(|x| call(x)), words::match(1), words::twice(|x| x + 1), with(1)];\n    body\n}\n\
                fn default(x) { x + 1 }\nfn call(x) { x * 10 }\nfn call(x, y) { x + y }\nfn with(x) { if is_def_fn(\"default\", 1) { call(x) } else { 0 } }";
    let files = [("lib/words.rhai", module), ("x.rhai", main)];
    assert_eq!(problem_text(&files), "");
    assert_eq!(run(&files).await.unwrap(), "[3,10,3,[30,40],102,6,10]");
    let main = "fn call(f, x) { f.call(x) }\nfn inlet(body) { body.out = [call(|x| x + 1, 1), call(|x, y| x + y, 1, 2)]; body }";
    assert_eq!(run(&[("x.rhai", main)]).await.unwrap(), "[2,3]");
    // A closure is still called where the script has no function of this name.
    let main = "fn inlet(body) { let f = |x| x + 1; body.out = [f.call(1), call(f, 2)]; body }";
    assert_eq!(run(&[("x.rhai", main)]).await.unwrap(), "[2,3]");
    // The message of an error has the name in the source.
    let twice =
        problem_text(&[("x.rhai", "fn inlet(body) { body }\nfn default(x) { x }\nfn default(x) { x }")]);
    assert!(twice.contains("default") && !twice.contains("__reserved"), "{twice}");
}
