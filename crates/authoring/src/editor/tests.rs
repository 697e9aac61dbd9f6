//! Tests of the answers to an editor, including for texts that do not parse. `‸` marks the cursor.

use super::*;
use std::collections::BTreeSet;

fn cut(text: &str) -> (Sketch, usize) {
    let at = text.find('‸').expect("a cursor");
    (Sketch::of(&text.replace('‸', "")), at)
}

fn no_modules(_: &str) -> Option<Sketch> {
    None
}

fn suggested(text: &str) -> BTreeSet<String> {
    let (sketch, at) = cut(text);
    sketch.suggestions(at, &no_modules).into_iter().map(|suggestion| suggestion.label).collect()
}

#[track_caller]
fn offers(text: &str, expected: &[&str], not: &[&str]) {
    let labels = suggested(text);
    for label in expected {
        assert!(labels.contains(*label), "{text}\nlacks {label}: {labels:?}");
    }
    for label in not {
        assert!(!labels.contains(*label), "{text}\nhas {label}");
    }
}

fn hover(text: &str) -> String {
    let (sketch, at) = cut(text);
    sketch
        .hover(at, &no_modules)
        .map_or_else(String::new, |hover| format!("{}\n{}", hover.signature, hover.doc))
}

#[test]
fn members_are_completed_by_the_type_of_the_variable() {
    let messages = ["last", "count", "keep_last", "system", "filter", "len"];
    offers("fn inlet(body) { body.‸ }", &["messages", "model", "texts", "ensure"], &["role", "args"]);
    offers("fn inlet(body) { body.messages.‸", &messages, &["role", "model"]);
    for message in [
        "body.messages[0].‸",
        "body.messages[-1].te‸",
        "body.messages.last(\"user\").‸; x",
        "let m = body.messages.last(); m.‸",
        "let all = body.messages; let m = all.last(\"user\"); if m.‸ == 1 { }",
        "for m in body.messages { m.‸ }",
        "for (m, i) in body.messages { if m.‸",
        "body.messages.filter(|m| m.‸",
        "let m = body.messages.find(|m| m.role == \"user\"); m.‸",
        "let m = body[\"messages\"][0]; m.‸",
        "for m in body.messages.tail(3) { print(`x ${m.‸}`) }",
    ] {
        offers(
            &format!("fn inlet(body) {{ {message} }}"),
            &["text", "content", "role", "images"],
            &["model"],
        );
    }
    offers("fn stream(event) { for place in event.texts { place.‸ } }", &["text", "kind", "role"], &["args"]);
    offers("fn pre_invocation(ctx) { ctx.tool.‸ }", &["name", "tags"], &["args"]);
    offers("fn f() { http::get(u, #{ ‸ }) }", &["headers", "timeout"], &["let", "abs"]);
    offers("fn f() { throw #{ ‸ }; }", &["status", "message", "retry_after"], &["let"]);
    offers("fn f() { emit(#{ type: ‸ }); }", &["\"status\""], &["let"]);
    offers("fn f() { emit(#{ type: \"‸\" }); }", &["status", "notification"], &["let", "\"status\""]);
    offers("fn f() { emit(#{ type: \"sta‸\", data: #{} }); }", &["status"], &["let"]);
    offers("const Valves = #{ a: #{ type: \"‸\", value: 1 } };", &["integer"], &["let"]);
    offers("fn f() { print(\"‸\"); }", &[], &["let", "status"]);
    offers("fn f() { models::get(\"x\").‸ }", &["price", "abilities", "context_length"], &["role"]);
    offers("fn post_chat(ctx) { ctx.context.‸ }", &["get", "set", "history"], &["role"]);
    offers("fn handler(args, ctx) { ctx.‸ }", &["get", "set", "variables"], &["result"]);
    offers("fn inlet(body, __user__) { __user__.‸ }", &["role", "valves"], &["messages"]);
    offers("fn inlet(body) { try { } catch (e) { e.‸ } }", &["message", "status", "line"], &["role"]);
    offers("fn inlet(body) { let r = http::get(\"x\"); r.‸ }", &["status", "json", "headers"], &["role"]);
    offers("fn f(body) { \"a\".‸ }", &["to_upper", "split"], &["role", "sqrt"]);
    offers("fn f(state) { state.seen = 1; state.‸ }", &["seen"], &[]);
    offers("fn f(x) { x.‸ }", &[], &["role", "status"]);
}

#[test]
fn valves_are_completed_with_their_declarations() {
    let valves = "const Valves = #{ limit: #{ value: 4, description: \"How many\" }, names: [], };\nconst UserValves = #{ bonus: 1 };\n";
    let with = |code: &str| format!("{valves}fn inlet(body, valves, __user__) {{ {code} }}");
    offers(&with("valves.‸"), &["limit", "names"], &["description", "bonus"]);
    offers(&with("if Valves.‸ > 1"), &["limit", "names"], &[]);
    offers(&with("__user__.valves.‸"), &["bonus"], &["limit"]);
    offers(&with("valves.names.‸"), &["len", "contains"], &["limit"]);
    assert_eq!(hover(&with("valves.li‸mit")), "Valves.limit: integer = 4\nHow many");
    let (sketch, at) = cut(&with("valves.lim‸it"));
    assert_eq!(
        sketch.definition(at),
        Some(Place::Here(valves.find("limit").unwrap()..valves.find("limit").unwrap() + 5))
    );
    offers(
        "const Valves = #{ limit: #{ value: 4, ‸ } };",
        &["minimum", "description"],
        &["value", "priority"],
    );
    offers("const Valves = #{ limit: #{ type: ‸ } };", &["\"string\""], &["minimum"]);
    offers(
        "const parameters = #{ city: #{ ‸ } };\nfn handler(args) { }",
        &["required", "default"],
        &["secret"],
    );
    offers(
        "const parameters = #{ city: #{ type: \"string\" } };\nfn handler(args) { args.‸ }",
        &["city"],
        &[],
    );
}

#[test]
fn functions_are_completed_with_and_without_their_module() {
    offers("fn f() { regex::‸ }", &["find", "replace", "is_match"], &["get"]);
    offers("fn f() { let x = kv::user::ge‸", &["get", "incr"], &["user"]);
    offers("fn f() { kv::‸ }", &["get", "user", "chat"], &["find"]);
    let text = "import \"lib/words\" as words;\nconst LIMIT = 4;\n// Shouts.\nfn shout(text) { text }\nfn inlet(body, valves) { let loud = 1; ‸ }";
    offers(
        text,
        &["body", "valves", "loud", "shout", "LIMIT", "words", "regex", "deny", "empty", "if"],
        &["inlet", "filter"],
    );
    offers("fn f() { let later = 1; }\nfn g() { ‸ }", &["f"], &["later"]);
    offers("fn f() { \"regex::‸\" }", &[], &["find"]);
    offers("fn f() { // regex::‸", &[], &["find"]);
}

#[test]
fn hooks_and_their_parameters_are_completed() {
    offers("‸", &["inlet", "stream", "handler", "pipe", "const Valves"], &["deny"]);
    offers("fn inlet(body) { body }\n\n‸", &["outlet"], &["inlet", "deny"]);
    offers("fn ‸", &["inlet", "outlet"], &["deny"]);
    offers("fn inlet(body, ‸) { body }", &["valves", "__user__", "state"], &["body", "event"]);
    offers("fn stream(‸", &["event", "state"], &["body"]);
    offers("fn own(‸) { }", &[], &["valves"]);
    offers("const ‸", &["Valves", "toggle"], &[]);
    let (sketch, at) = cut("‸");
    let inlet = sketch.suggestions(at, &no_modules).into_iter().find(|one| one.label == "inlet").unwrap();
    assert_eq!(inlet.insert, "fn inlet(body) {\n    $0\n    body\n}");
}

#[test]
fn the_opening_comment_is_completed() {
    offers("/*\n‸\n*/", &["title", "requirements", "security"], &["inlet"]);
    offers("/*\ntitle: x\nrequirements: kv, ‸\n*/", &["http", "llm"], &["kv", "title"]);
    offers("/*\non_error: ‸", &["abort", "continue"], &[]);
    offers("/* x */\nfn f() { /*\n‸\n*/ }", &[], &["title"]);
    assert!(hover("/*\nsecu‸rity: true\n*/").starts_with("security: true or false\n`true`: a guard."));
}

#[test]
fn a_number_with_an_exponent_is_one_token() {
    for number in ["1e-5", "2.5E+3", "1_000", "0xe", "7"] {
        let kinds: Vec<_> =
            super::scan::tokens(&format!("x = {number} - y")).into_iter().map(|token| token.kind).collect();
        use super::scan::Kind::{Number, Sign, Word};
        assert_eq!(kinds, [Word, Sign, Number, Sign, Word], "{number}");
    }
}

#[test]
fn hovering_shows_signature_and_documentation() {
    assert!(
        hover("fn f() { regex::fi‸nd(x, y) }")
            .starts_with("regex::find(text, pattern: text) -> any\nReturns the first match")
    );
    assert!(
        hover("fn inlet(body) { body.messages.la‸st(\"user\") }")
            .contains("messages.last(role: text) -> message")
    );
    assert!(hover("fn inlet(body) { kv::in‸cr(\"x\") }").contains("Needs `requirements: kv`."));
    assert!(hover("fn in‸let(body) { }").contains("Called once per turn"));
    assert!(hover("fn inlet(body, __us‸er__) { }").starts_with("__user__: __user__\nThe user"));
    assert!(hover("fn inlet(body) { de‸ny(\"no\") }").contains("deny(message, status: integer)"));
    assert_eq!(
        hover("// Shouts.\n// Loudly.\nfn shout(text) { }\nfn f() { sho‸ut(1) }"),
        "fn shout(text)\nShouts.\nLoudly."
    );
    assert_eq!(hover("fn f() { nothing.kno‸wn }"), "");
}

#[test]
fn declarations_are_found() {
    for (text, declared) in [
        ("fn f() { g‸() }\nfn [g]() { }", "g"),
        ("fn f([a]) { a‸ }", "a"),
        ("const [A] = 1;\nfn f() { A‸ }", "A"),
        ("fn f() { let a = 1; { let [a] = 2; a‸ } }", "a"),
        ("fn f() { let [a] = 1; { let a = 2; } a‸ }", "a"),
        ("fn f(x) { x.map(|[one]| one‸ + 1) }", "one"),
        ("fn f(x) { for [one] in x { one‸ } }", "one"),
        ("fn f() { let [a] = 1; `x ${a‸} y` }", "a"),
    ] {
        let there = text.replace('‸', "").find('[').unwrap();
        let (sketch, at) = cut(&text.replacen('[', "", 1).replacen(']', "", 1));
        let expected = Some(Place::Here(there..there + declared.len()));
        assert_eq!(sketch.definition(at), expected, "{text}");
    }
    let (sketch, at) = cut("import \"lib/words\" as words;\nfn f() { words::sh‸out(1) }");
    let place = Place::In { import: "lib/words".into(), name: Some("shout".into()) };
    assert_eq!(sketch.definition(at), Some(place));
}

#[test]
fn the_call_at_the_cursor_is_reported() {
    let call = |text: &str| {
        let (sketch, at) = cut(text);
        sketch.call(at).map(|call| (call.ways[0].0.clone(), call.argument))
    };
    let find = "regex::find(text, pattern: text) -> any".to_owned();
    assert_eq!(call("fn f() { regex::find(a, ‸ }"), Some((find.clone(), 1)));
    assert_eq!(call("fn f() { regex::find([1, 2], b(c, d)‸) }"), Some((find, 1)));
    assert_eq!(call("fn f() { g(1‸) }\nfn g(a, b) { }"), Some(("fn g(a, b)".into(), 0)));
    assert_eq!(call("fn f(‸) { }"), None);
}

#[test]
fn random_text_does_not_break_the_editor_support() {
    let whole = include_str!("../../../../filters/redact.rhai");
    let ends = whole.char_indices().map(|(at, _)| at).step_by(211);
    let odd = [
        "\"",
        "`${",
        "fn",
        "fn f(",
        "'",
        "/*",
        "#{",
        ")",
        "]}",
        "let",
        "for in",
        "|",
        "a.b.",
        "::",
        "const Valves = #{ a",
        "\u{1f600}.",
        "import \"x",
    ];
    for text in ends.map(|end| &whole[..end]).chain(odd) {
        let sketch = Sketch::of(text);
        sketch.symbols();
        let places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        for at in places.rev().take(12) {
            sketch.suggestions(at, &no_modules);
            sketch.hover(at, &no_modules);
            sketch.definition(at);
            sketch.call(at);
        }
    }
}

#[test]
fn the_outline_lists_top_level_items() {
    let text = "import \"lib/a\" as a;\nconst Valves = #{ limit: 4, deep: #{ value: 1 } };\nfn inlet(body, valves) { }\nfn own() { }";
    let symbols: Vec<(String, SymbolKind, usize)> = Sketch::of(text)
        .symbols()
        .into_iter()
        .map(|symbol| (symbol.name, symbol.kind, symbol.below.len()))
        .collect();
    let expected = [
        ("a", SymbolKind::Module, 0),
        ("Valves", SymbolKind::Constant, 2),
        ("inlet", SymbolKind::Hook, 0),
        ("own", SymbolKind::Function, 0),
    ];
    assert_eq!(symbols, expected.map(|(name, kind, below)| (name.to_owned(), kind, below)));
}
