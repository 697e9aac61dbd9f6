//! Problems of a tool's file name their place and a fix.

use std::sync::Arc;
use valvehouse_script::{Kind, Script, Settings, SourceFile};

fn compile(text: &str) -> Result<Arc<Script>, String> {
    let file = SourceFile::new(Kind::Tool, "x", "tools/x.rhai", text);
    let script = Script::compile(&file, &Settings::default());
    script.map(Arc::new).map_err(|problems| problems.iter().map(|problem| format!("{problem}\n")).collect())
}

#[test]
fn load_errors_have_position_reason_and_help() {
    let cases: &[(&str, &[&str])] = &[
        ("fn handle(args) { 1 }", &["missing `handler`", "did you mean `handler`?", ":1:4"]),
        ("fn help() { 1 }", &["missing `handler`", "fn handler(args)"]),
        ("fn inlet(body) { body }", &["move the file to filters/; `inlet` is a hook of filters"]),
        ("fn handler(a) { 1 }\nfn tools() { [] }", &["both `handler` and `tools`", ":2:4"]),
        ("fn handler(args, ctx, bogus) { 1 }", &["unknown parameter `bogus`", ":1:23", "__user__"]),
        (
            "const parameters = #{ city: \"string\" };\nfn handler(city) { 1 }",
            &["the argument `city` as a parameter", "args.city"],
        ),
        (
            "const parameters = #{\n n: #{ type: \"integr\" } };\nfn handler(args) { 1 }",
            &["did you mean `integer`?", ":2:8"],
        ),
        (
            "const parameters = #{ n: #{ type: \"integer\", \"default\": \"x\" } };\nfn handler(args) { 1 }",
            &["`n.default`"],
        ),
        ("const parameters = 5;\nfn handler(args) { 1 }", &["5"]),
        ("const tool = #{ tga: \"x\" };\nfn handler(args) { 1 }", &["`tga`", "did you mean `tag`?"]),
        ("const tool = #{ name: \"y\" };\nfn handler(args) { 1 }", &["expected the file's name x"]),
        ("/*\ntimeout: soon\n*/\nfn handler(args) { 1 }", &["`timeout`", "milliseconds", ":2:1"]),
        ("/*\nretry: 3 times\n*/\nfn handler(args) { 1 }", &["`retry`", ":2:1"]),
        ("/*\nidempotent: perhaps\n*/\nfn handler(args) { 1 }", &["`idempotent`", "true or false", ":2:1"]),
        ("fn tools() { loop {} }", &["`tools()` failed: exceeded its limit of 1000000 operations"]),
        ("fn tools() { throw \"no\" }", &["`tools()` failed: no"]),
        ("fn tools() { 5 }", &["`tools()` returned", "a list of maps"]),
        ("fn tools() { [] }", &["lists no tool"]),
        ("fn tools() { [#{ name: \"a\", handler: \"run\" }] }\nfn run(args) { 1 }", &["write Fn(\"run\")"]),
        (
            "fn tools() { [#{ name: \"a\", handler: Fn(\"rum\") }] }\nfn run(args) { 1 }",
            &["did you mean `run`?"],
        ),
        (
            "fn tools() { [#{ name: \"a\", handler: Fn(\"run\").curry(|x| x) }] }\nfn run(f, args) { 1 }",
            &["invalid bound argument"],
        ),
        (
            "fn tool_info() { #{ tgas: [] } }\nfn tools() { [#{ name: \"a\", handler: |args| 1 }] }",
            &["`tool_info()` returned the unknown key `tgas`"],
        ),
        (
            "/*\nrequirements: files, shell, env, http\n*/\nfn handler(args) { 1 }",
            &[
                "grant x files=FOLDER",
                "grant x shell=PROGRAM",
                "grant x env=VARIABLE",
                "allow_hosts: api.example.com",
            ],
        ),
        (
            "/*\nrequirements: http\nallow_hosts: valve:host\n*/\nfn handler(args) { 1 }",
            &["unknown valve `host`", ":3:20"],
        ),
        (
            "fn handler(args) { http::get(\"x\") }",
            &["`http` is used but not declared in `requirements`", "requirements: http"],
        ),
        ("def handler(args):\n    return 1", &["cannot read Python", "fn handler(args)"]),
        ("fn handler(args) { f\"Hello {args.name}\" }", &["values: `Hello ${name}`"]),
        ("fn handler(args) { json.dumps(args) }", &["json::stringify(value)"]),
        ("fn handler(args) { requests.get(\"x\") }", &["http::get(url)"]),
        ("# a comment\nfn handler(args) { 1 }", &["with `//`"]),
        ("fn handler(args) { raise \"x\"; }", &["write `throw "]),
        ("fn handler(args) { try { 1 } except { 1 } }", &["catch (e)"]),
        ("fn handler(args) { let xs = [x * 2 for x in args.xs]; xs }", &["map(|x|"]),
        ("fn handler(args) { x = 5; x }", &["`let x = …;`"]),
        ("import requests\nfn handler(args) { 1 }", &["remove the import"]),
        (
            "const parameters = #{ a: #{ type: \"str\" } };\nfn handler(args) { 1 }",
            &["did you mean `string`?"],
        ),
        (
            "const parameters = #{ a: #{ type: \"dict\" } };\nfn handler(args) { 1 }",
            &["did you mean `object`?"],
        ),
    ];
    for (text, words) in cases {
        let problems = compile(text).map(drop).expect_err(text);
        for word in *words {
            assert!(problems.contains(word), "{text}\n{problems}lacks {word}");
        }
    }
}

#[test]
fn tool_handlers_have_every_documented_form() {
    let cases = [
        "fn handler() { 1 }",
        "fn handler(args) { 1 }",
        "fn handler(_args, ctx) { 1 }",
        "fn handler(ctx, args) { 1 }",
        "fn handler(a, c, valves, __user__, state) { 1 }",
        "fn handler(args) { 1 }\nfn handler(args, ctx) { 2 }",
        "fn tools() { [#{ name: \"a\", handler: run }] }\nfn run(args) { 1 }",
        "fn tools() { [#{ name: \"a\", handler: Fn(\"run\").curry(1).curry([2]) }] }\nfn run(x, y, args, ctx) { 1 }",
        "fn tools() { let unit = \"c\"; [#{ name: \"a\", handler: |args| unit }] }",
    ];
    for text in cases {
        let script = compile(text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        assert_eq!(script.tools(&Arc::default()).len(), 1, "{text}");
    }
}

/// The prompts and resources of a script: roles and names.
fn served(text: &str) -> Vec<String> {
    let script = compile(text).unwrap_or_else(|problems| panic!("{problems}"));
    let served = script.served(&Arc::default());
    served.iter().map(|one| format!("{:?} {}", one.role, one.scripted.tool.name())).collect()
}

#[test]
fn a_file_may_offer_prompts_and_resources_without_a_tool() {
    let prompts = "fn prompts() { [#{ name: \"review\", arguments: [#{ name: \"code\", required: true }], handler: review, \
                   complete: |args| [\"a\"] }] }\nfn review(args) { args.code }";
    assert_eq!(served(prompts), ["Prompt review", "Completion complete"]);
    let resources =
        "fn resources() { [#{ uri: \"n://a\" }, #{ uriTemplate: \"n://{id}\" }] }\nfn resource(uri) { uri }";
    assert_eq!(served(resources), ["Resource resource"]);
    let script = compile(resources).unwrap();
    let function = &script.served(&Arc::default())[0].scripted.tool;
    let listed = function.spec.metadata.to_string();
    assert_eq!(
        listed,
        r#"{"resources":[{"uri":"n://a","name":"n://a"}],"templates":[{"uriTemplate":"n://{id}","name":"n://{id}"}]}"#
    );
}

#[test]
fn invalid_prompts_and_resources_are_reported() {
    for (text, expected) in [
        ("fn prompts() { 5 }", "`prompts()` returned"),
        ("fn prompts() { [#{ name: \"a\" }] }", "without a `handler`"),
        ("fn prompts() { [#{ name: \"a b\", handler: |args| 1 }] }", "1 to 64 of"),
        ("fn prompts() { [#{ nam: \"a\", handler: |args| 1 }] }", "did you mean `name`?"),
        ("fn prompts() { [#{ name: \"a\", arguments: [#{}], handler: |args| 1 }] }", "has no `name`"),
        ("fn resources() { [#{ uri: \"n://a\" }] }", "needs `fn resource(uri)`"),
        ("fn resources() { [#{ uri: \"a\" }] }\nfn resource(uri) { 1 }", "without a `uri`"),
        ("fn resources() { throw \"no\" }\nfn resource(uri) { 1 }", "`resources()` failed: no"),
    ] {
        let found = compile(text).unwrap_err();
        assert!(found.contains(expected), "{text}\n  found: {found}\n  want:  {expected}");
    }
}
