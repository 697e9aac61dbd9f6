//! Lints: what each tells, and what none of them may.

use std::path::{Path, PathBuf};
use valvehouse_script::{Code, Kind, Script, Settings, SourceFile, read_file};

fn lints(text: &str) -> String {
    let file = SourceFile::new(Kind::guess(text), "x", "x.rhai", text);
    let problems =
        Script::compile(&file, &Settings::default()).map_or_else(|wrong| wrong, |script| script.lints());
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn each_lint_reports_its_code_and_suggests_a_fix() {
    let cases: [(&str, Code, &str); 50] = [
        (
            "fn inlet(body) { body.x = regex::fnd(\"a\", \"b\"); }",
            Code::UnknownFunction,
            "did you mean `regex::find`?",
        ),
        (
            "fn inlet(body) { body.x = helpr(1) + helper(1); } fn helper(a) { a }",
            Code::UnknownFunction,
            "did you mean `helper`?",
        ),
        (
            "fn inlet(body) { body.messages.append(1, 2, 3); }",
            Code::WrongArguments,
            "arguments of `append`: expected 1 argument, got 3",
        ),
        (
            "fn inlet(body) { body.x = helper(1); } fn helper(a, b) { a + b }",
            Code::WrongArguments,
            "expected 2 arguments, got 1",
        ),
        (
            "fn inlet(body) { body.x = body.model.startsWith(\"a\"); }",
            Code::UnknownFunction,
            "`starts_with(text)`",
        ),
        ("fn inlet(body) { body.x = sha256(\"a\"); }", Code::UnknownFunction, "`hash::sha256(…)`"),
        ("fn inlet(body) { body.x = Fn(\"nobody\"); }", Code::UnknownFunction, "unknown function `nobody`"),
        (
            "const Valves = #{ max_turns: 1 };\nfn inlet(body) { body.x = Valves.max_trns + Valves.max_turns; }",
            Code::UnknownValve,
            "did you mean `max_turns`?",
        ),
        (
            "const Valves = #{ a_valve: 1 };\nfn inlet(body, valves) { let v = valves; body.x = v.b_valve + v.a_valve; }",
            Code::UnknownValve,
            "unknown valve `b_valve`: `Valves` does not declare it",
        ),
        (
            "fn inlet(body, valves) { body.x = valves.limit; }",
            Code::UnknownValve,
            "declare it at the top: const Valves = #{ limit: … };",
        ),
        (
            "const UserValves = #{ bonus: 1 };\nfn inlet(body, __user__) { body.x = __user__.valves.bonsu + __user__.valves.bonus; }",
            Code::UnknownValve,
            "unknown valve `bonsu`: `UserValves` does not declare it",
        ),
        (
            "fn inlet(body, __user__) { body.x = __user__.emial; }",
            Code::UnknownProperty,
            "did you mean `email`?",
        ),
        ("fn inlet(body) { body.x = body.mesages; }", Code::UnknownProperty, "did you mean `messages`?"),
        (
            "fn inlet(body) { body.x = body.messages[0].contnet; }",
            Code::UnknownProperty,
            "did you mean `content`?",
        ),
        (
            "fn inlet(body) { for m in body.messages { print(m.contnet); } }",
            Code::UnknownProperty,
            "did you mean `content`?",
        ),
        (
            "fn outlet(body) { let answer = body.messages.last(); answer.contnet = \"x\"; }",
            Code::UnknownProperty,
            "unknown key `contnet`: nothing reads it",
        ),
        (
            "fn inlet(body, __metadata__) { body.x = __metadata__.chatid; }",
            Code::UnknownProperty,
            "did you mean `chat_id`?",
        ),
        ("fn inlet(body) { body.mesages = []; }", Code::UnknownProperty, "did you mean `messages`?"),
        ("fn post_chat(ctx) { print(ctx.resullt); }", Code::UnknownProperty, "did you mean `result`?"),
        (
            "fn post_chat(ctx) { ctx.result.contnet = \"x\"; }",
            Code::UnknownProperty,
            "did you mean `content`?",
        ),
        (
            "fn post_chat(ctx) { let answer = ctx.result; print(answer.finish_reson); }",
            Code::UnknownProperty,
            "did you mean `finish_reason`?",
        ),
        (
            "const Valves = #{ limit: 1, other: 2 };\nfn inlet(body, valves) { body.x = valves.limit; }",
            Code::UnusedValve,
            "unused valve `other`",
        ),
        (
            "const UserValves = #{ bonus: 0 };\nfn inlet(body) { body }",
            Code::UnusedValve,
            "`__user__.valves.bonus`",
        ),
        (
            "/*\nrequirements: kv\n*/\nfn inlet(body) { body }",
            Code::UnusedCapability,
            "unused capability `kv`",
        ),
        (
            "/*\nallow_hosts: example.com\n*/\nfn inlet(body) { body }",
            Code::UnusedCapability,
            "missing `http` in `requirements`",
        ),
        (
            "fn inlet(body) { body }\nfn shout(a) { shout(a) }",
            Code::UnusedFunction,
            "unused function `shout`",
        ),
        ("fn inlet(body) { let x = 1; body.y = 2; }", Code::UnusedVariable, "unused variable `x`"),
        ("fn inlet(body) { return body; body.x = 1; }", Code::Unreachable, "`return` always ends"),
        (
            "fn inlet(body) { if body.x { throw `no`; body.y = 1; } }",
            Code::Unreachable,
            "`throw` always ends",
        ),
        ("fn inlet(body) { body.x == 1; body }", Code::IdleComparison, "a single `=`"),
        ("fn inlet(body) { body.messages }", Code::WrongReturn, "`inlet` cannot return a list of messages"),
        ("fn outlet(body) { true }", Code::WrongReturn, "`outlet` cannot return true or false"),
        (
            "/*\nrequirements: kv\n*/\nfn inlet(body) { kv::incr(\"n\") }",
            Code::WrongReturn,
            "`inlet` cannot return a number",
        ),
        ("fn inlet(body) { body = #{ messages: [] }; }", Code::LostAssignment, "end the hook with `body`"),
        (
            "const Valves = #{ most: \"40\" };\nfn inlet(body, valves) { if body.messages.len() > valves.most { throw \"no\"; } }",
            Code::ForeignKinds,
            "cannot compare a number with a string",
        ),
        ("fn inlet(body) { let n = 0; body.x = n == \"0\"; n += 1; }", Code::ForeignKinds, "always false"),
        ("fn inlet(body) { body.model.to_upper(); body }", Code::LostResult, "`make_upper()`"),
        ("fn inlet(body) { text::trim(body.model); body }", Code::LostResult, "x = text::trim(x, …)"),
        ("fn inlet(body) { let m = body.messages[0]; m.content + \"x\"; body }", Code::LostResult, "x += …"),
        (
            "fn inlet(body) { body.metadata?.seen = true; body }",
            Code::LostResult,
            "is ignored without an error",
        ),
        (
            "fn inlet(body) { body.x = regex::replace(body.y, `a+`, |m| \"*\".pad(4, \"*\")); }",
            Code::ChangesInPlace,
            "the closure ends with `pad`",
        ),
        (
            "fn inlet(body) { let n = 4; body.x = [\"a\"].map(|t| t.pad(n, \"*\")); }",
            Code::ChangesInPlace,
            "`map` gets `()` instead of the value",
        ),
        (
            "fn inlet(body) { print(1, 2, 3, 4, 5, 6, 7, 8, 9); }",
            Code::WrongArguments,
            "expected at most 8, got 9",
        ),
        ("fn stream(event) { event.txt = \"x\"; }", Code::UnknownProperty, "did you mean `text`?"),
        ("fn inlet(body) { body.max_token = 3; }", Code::UnknownProperty, "did you mean `max_tokens`?"),
        ("fn inlet(body) { body.x = hasattr(body, \"a\"); }", Code::UnknownFunction, "in map"),
        ("fn handler(args) { if args.a { return 1; } args.b = 2; }", Code::NoResult, "nothing on this one"),
        (
            "fn inlet(body) { let s = (); for m in body.messages { if m.role == \"system\" { s = m; break; } } body.s = s; }",
            Code::NeedlessLoop,
            "with `.system`",
        ),
        (
            "fn inlet(body) { let t = \"\"; for p in body.messages[0].content { if p.type == \"text\" { t += p.text; } } body.t = t; }",
            Code::NeedlessLoop,
            "`message.text`",
        ),
        (
            "fn inlet(body) { while body.messages.len() > 4 { body.messages.remove(0); } }",
            Code::NeedlessLoop,
            "`.keep_last(n)`",
        ),
    ];
    for (text, code, words) in cases {
        let report = lints(text);
        assert!(report.contains(&format!("[{code}]")) && report.contains(words), "{text}\n{report}");
        let count = report.matches("warning[").count() + report.matches("error[").count();
        assert_eq!(count, 1, "{text}\n{report}");
        assert!(report.contains("help: "), "{text}\n{report}");
    }
}

#[test]
fn plausible_code_has_no_lints() {
    for text in [
        // Closures, what is handed on, and what a map holds.
        "fn inlet(body) { let f = |x| x + 1; body.x = f.call(1); }",
        "fn inlet(body) { body.x = [1, 2].map(double); } fn double(a) { a * 2 }",
        "fn inlet(body) { body.x = [1, 2].map(Fn(\"double\")); } fn double(a) { a * 2 }",
        "fn inlet(body) { let m = #{ act: |x| x }; body.x = m.act(1); }",
        "fn inlet(body) { let n = 2; body.x = [1].map(|x| x + n); }",
        "fn inlet(body) { body.shout(); } fn shout() { this.x = 1; }",
        // Valves that are read in another way.
        "const Valves = #{ a: 1, b: 2 };\nfn inlet(body, valves) { for k in valves.keys() { body[k] = valves[k]; } }",
        "const Valves = #{ a: 1 };\nfn inlet(body, valves) { body.all = valves; }",
        "const Valves = #{ a: 1 };\nfn inlet(body, valves) { put(body, valves); body } fn put(body, v) { body.x = v.a; }",
        "const Valves = #{ priority: 5 };\nfn inlet(body) { body }",
        "const Valves = #{ server: \"example.com\" };\nfn inlet(body, valves) { body.x = valves[\"server\"]; }",
        "/*\nrequirements: http\nallow_hosts: valve:server\n*/\nconst Valves = #{ server: \"example.com\" };\nfn inlet(body) { body.x = http::get(\"https://example.com\").text; }",
        "const UserValves = #{ a: 1 };\nfn inlet(body, __user__) { body.x = bonus(__user__.valves); } fn bonus(valves) { valves.a }",
        // Conditions, and calls for what they do.
        "fn inlet(body) { loop { break; } if body.x { body.y = 1; } if !body.x && body.y { body.z = 1; } }",
        "fn inlet(body) { let found = false; if !found { found = body.x; } body.y = found; }",
        "fn inlet(body) { let l = []; body.messages.map(|m| l.push(m.role)); body.x = l; }",
        "fn inlet(body) { body.model.trim(); body.x = [\"a\"].map(|t| { t.pad(4, \"*\"); t }); }",
        "fn inlet(body) { body.x?.y; body.to_upper(); body } fn to_upper() { this.x = 1; }",
        "fn inlet(body) { print(1, 2, 3, 4, 5, 6, 7, 8); debug(); }",
        // Open maps.
        "fn inlet(body) { body.modle = 1; body.x = body.modle; }",
        "fn inlet(body, __metadata__) { __metadata__.chatid = 1; body.x = __metadata__.chats; }",
        "fn inlet(body) { body.x = body.custom_key; body.y = body.tool; }",
        "fn inlet(body) { let m = #{ contnet: 1 }; body.x = m.contnet; }",
        "fn stream(event, state) { state.txt = (state.txt ?? \"\") + event.text; }",
        // Ends of hooks.
        "fn inlet(body) { if body.x { return; } body.messages.push(#{ role: \"user\", content: \"a\" }); }",
        "fn inlet(body) { body = #{ messages: [] }; return body; }",
        "fn inlet(body) { body = #{ messages: [] }; if body.x { body } else { skip(body) } }",
        "fn stream(event) { [] }",
        "fn stream_end(state) { \"the end\" }",
        "fn handler(args) { if args.a { return 1; } error(\"no a\") }",
        "fn handler(args) { print(args.a); }",
        "fn inlet(body) { let _unused = 1; body }",
        "fn inlet(body) { body }\nfn _later(a) { a }",
        "fn inlet(body) { let m = body.messages[0]; m.text = \"x\"; }",
        "fn inlet(body) { for m in body.messages { if m.role == \"user\" { m.text = \"x\"; } } }",
        "fn inlet(body) { switch body.model { \"a\" => body.x = 1, _ => body.x = 2 } }",
        "fn inlet(body) { try { body.x = 1 / body.y; } catch (e) { body.x = e.message; } }",
    ] {
        assert_eq!(lints(text), "", "{text}");
    }
}

#[test]
fn shipped_scripts_have_no_lints() {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut seen = 0;
    for (folder, kind) in [("filters", Kind::Filter), ("tools", Kind::Tool), ("actions", Kind::Action)] {
        for path in scripts_in(&top.join(folder)) {
            let read = read_file(kind, &top.join(folder), &path).unwrap();
            // A script that an operator has to grant first is compiled where it is tested.
            let Ok(script) = Script::compile(&read.file, &Settings::default()) else { continue };
            let report: String = script.lints().iter().map(|problem| format!("{problem}\n")).collect();
            assert_eq!(report, "", "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} scripts were found");
}

fn scripts_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "rhai"))
        .filter(|path| !path.to_string_lossy().contains(".test."))
        .collect()
}

#[test]
fn discarded_values_are_reported_in_nested_blocks_and_of_list_methods() {
    for code in [
        "for t in body.texts { regex::replace(t.text, \"a\", \"b\"); } body",
        "if body.stream { text::trim(body.model); } body",
        "if body.stream { let x = 1; x + 1; } body",
        "body.messages.filter(|m| m.role != \"tool\"); body",
        "body.messages.tail(2); body",
    ] {
        let found = lints(&format!("fn inlet(body) {{ {code} }}"));
        assert!(found.contains("V617"), "{code}: {found}");
    }
    for code in [
        "let x = if body.stream { text::trim(body.model) } else { \"\" }; body.x = x; body",
        "body.x = if body.stream { body.messages.tail(2) } else { body.messages }; body",
    ] {
        assert_eq!(lints(&format!("fn inlet(body) {{ {code} }}")), "", "{code}");
    }
}

#[test]
fn a_guard_that_compares_content_is_told_that_it_may_be_a_list() {
    for code in [
        "if m.content.contains(\"x\") { deny(\"no\"); }",
        "if m.content == \"x\" { deny(\"no\"); }",
        "if \"x\" in m.content { deny(\"no\"); }",
    ] {
        let code = format!("fn inlet(body) {{ for m in body.messages {{ {code} }} body }}");
        let found = lints(&format!("/*\nsecurity: true\n*/\n{code}"));
        assert!(found.contains("may be a list of parts"), "{code}: {found}");
        assert_eq!(lints(&code), "", "{code}");
    }
    let found = lints("fn inlet(body) { if \"x\" in body.texts { deny(\"no\"); } body }");
    assert!(found.contains("finds only entire texts"), "{found}");
}

#[test]
fn a_key_of_state_that_no_hook_sets_is_reported() {
    let text = "fn inlet(body, state) { state.blocked = true; }\nfn pre_chat(ctx, state) { if state.blokced == true { deny(\"x\"); } }";
    let found = lints(text);
    assert!(found.contains("unknown key `blokced`") && found.contains("did you mean `blocked`?"), "{found}");
    assert_eq!(lints(&text.replace("blokced", "blocked")), "");
    assert_eq!(lints("fn stream(event, state) { state.txt = (state.txt ?? \"\") + event.text; }"), "");
}
