//! Tests that formatting keeps every token and is idempotent.

use super::format;
use super::lexeme::lex;
use parking_lot::Mutex;
use proptest::prelude::*;
use rhai::{Token, TokenizeState};
use std::path::Path;
use std::sync::Arc;
use valvehouse_script_std::engine;

/// Returns the tokens that the interpreter reads, and `true` if the text parses.
fn tokens_of_rhai(source: &str) -> (Vec<String>, bool) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut engine = engine::new();
    let noted = seen.clone();
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, _, _: &TokenizeState| {
        noted.lock().push(format!("{token:?}"));
        match token {
            Token::Reserved(word) => Token::Identifier(word),
            token => token,
        }
    });
    let parses = engine.compile(source.trim_start_matches('\u{feff}')).is_ok();
    let tokens = seen.lock().clone();
    (tokens, parses)
}

/// Returns the texts of all lexemes.
fn pieces(source: &str) -> Vec<&str> {
    lex(source.trim_start_matches('\u{feff}')).unwrap().into_iter().map(|lexeme| lexeme.text).collect()
}

#[track_caller]
fn keeps(source: &str) -> String {
    let formatted = format(source).unwrap_or_else(|error| panic!("{error}\n{source}"));
    assert_eq!(pieces(source), pieces(&formatted), "{source}");
    assert_eq!(tokens_of_rhai(source), tokens_of_rhai(&formatted), "{source}\n---\n{formatted}");
    let again = format(&formatted).unwrap();
    assert_eq!(again, formatted, "not settled:\n{source}");
    formatted
}

/// Returns all shipped scripts, modules and tests, and those of the guide.
fn shipped() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let mut folders =
        vec![root.join("filters"), root.join("tools"), root.join("examples"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rhai")
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                found.push(text);
            }
        }
    }
    for guide in std::fs::read_dir(root.join("docs/guide")).unwrap().flatten() {
        let text = std::fs::read_to_string(guide.path()).unwrap();
        let code = text.split("```rhai\n").skip(1).filter_map(|rest| rest.split("\n```").next());
        found.extend(code.map(str::to_owned));
    }
    assert!(found.len() > 80, "{}", found.len());
    found
}

#[test]
fn formatting_shipped_scripts_keeps_tokens_and_is_idempotent() {
    for text in shipped() {
        if lex(text.trim_start_matches('\u{feff}')).is_ok() && format(&text).is_ok() {
            keeps(&text);
        }
    }
}

#[test]
fn lines_are_indented_by_the_brackets_around_them() {
    for (source, expected) in [
        (
            "fn inlet( body ){\nbody.x=1 ;\n\n\n\n  body\n}",
            "fn inlet(body) {\n    body.x = 1;\n\n    body\n}\n",
        ),
        (
            "fn f() {\nlet x = list\n.map(|m|{\nm.text\n})\n.filter(|t|t!=\"\");\n}",
            "fn f() {\n    let x = list\n        .map(|m| {\n            m.text\n        })\n        .filter(|t| t != \"\");\n}\n",
        ),
        (
            "const Valves=#{\n  // How many.\n  limit:#{value:4,minimum:1}, // as many\n};",
            "const Valves = #{\n    // How many.\n    limit: #{ value: 4, minimum: 1 }, // as many\n};\n",
        ),
        (
            "fn f(){\nhttp::post(url,#{\na:1,\n},||{\nx\n});\n}",
            "fn f() {\n    http::post(url, #{\n        a: 1,\n    }, || {\n        x\n    });\n}\n",
        ),
        (
            "fn f(a){\nif a==1{\n1\n}else if !a.b{\n-1\n}else{\n2- -1\n}\n}",
            "fn f(a) {\n    if a == 1 {\n        1\n    } else if !a.b {\n        -1\n    } else {\n        2 - -1\n    }\n}\n",
        ),
        (
            "fn f(a){\nlet x=if a{1}else{2}\n+3;\nx\n// the end\n}",
            "fn f(a) {\n    let x = if a { 1 } else { 2 }\n        + 3;\n    x\n    // the end\n}\n",
        ),
        (
            "fn f(a){\nswitch a{\n1|2=>\"x\",\n_ if a>3=>{\n\"y\"\n}\n_=>()\n}\n}",
            "fn f(a) {\n    switch a {\n        1 | 2 => \"x\",\n        _ if a > 3 => {\n            \"y\"\n        }\n        _ => ()\n    }\n}\n",
        ),
    ] {
        assert_eq!(keeps(source), expected, "{source}");
    }
}

#[test]
fn tokens_of_one_line_are_spaced_by_kind() {
    for (source, expected) in [
        ("for i in 0..n{print(i)}", "for i in 0..n { print(i) }"),
        ("for (m,i)in list [ 1 .. 3 ]{}", "for (m, i) in list[1..3] {}"),
        ("let f=|x,y|x+y;", "let f = |x, y| x + y;"),
        ("let f=||1;", "let f = || 1;"),
        ("let a=b||c|d&&!e;", "let a = b || c | d && !e;"),
        ("return -1;", "return -1;"),
        ("let a = [ - 1 , + 2 ] ;", "let a = [-1, +2];"),
        ("x . y ?. z ?[ 0 ] :: w ( )", "x.y?.z?[0]::w()"),
        ("if (a){b}", "if (a) { b }"),
        ("let m=#{};let e=#{ };", "let m = #{}; let e = #{};"),
        ("body.default (1).if [ 2 ];", "body.default(1).if[2];"),
        ("#{if:1,default :2}", "#{ if: 1, default: 2 }"),
        ("a??b", "a ?? b"),
        ("a !in b", "a !in b"),
        ("l[ 1 : 3 ]+l[: n]+l[-2 :]", "l[1:3] + l[:n] + l[-2:]"),
        ("a or(b and not(c))", "a or (b and not (c))"),
        ("x.or(1); [#{ a:1 }]", "x.or(1); [#{ a: 1 }]"),
        ("x+=1e-5;y=1.5e+3;", "x += 1e-5; y = 1.5e+3;"),
        ("f ! (x)", "f!(x)"),
        ("1..=2", "1..=2"),
        ("'a'+\"b\"\"c\"+`d ${ e+1 } f`", "'a' + \"b\"\"c\" + `d ${ e+1 } f`"),
        ("foo( /* a */ b)/* c */;", "foo( /* a */ b) /* c */;"),
        ("a;   // aligned", "a;   // aligned"),
        ("a;// not", "a; // not"),
        ("let r = #\"a \"b\" \"#+1;", "let r = #\"a \"b\" \"# + 1;"),
    ] {
        let formatted = format(source).unwrap();
        assert_eq!(formatted, format!("{expected}\n"), "{source}");
        assert_eq!(format(&formatted).unwrap(), formatted);
        assert_eq!(pieces(source), pieces(&formatted), "{source}");
    }
}

#[test]
fn texts_comments_and_line_endings_keep_their_bytes() {
    let source =
        "\u{feff}/*\n  title:  x\n\tpriority: 1\n*/\r\nfn f() {\r\n\tlet t = `a\r\n   b  `;\r\n}\r\n";
    let expected =
        "\u{feff}/*\n  title:  x\n\tpriority: 1\n*/\r\nfn f() {\r\n    let t = `a\r\n   b  `;\r\n}\r\n";
    assert_eq!(format(source).unwrap(), expected);
    assert_eq!(format("").unwrap(), "");
    assert_eq!(format("\n\n  \n").unwrap(), "");
    assert_eq!(format("// only\n\n\n").unwrap(), "// only\n");
}

#[test]
fn unclosed_brackets_and_texts_are_reported_with_their_position() {
    for (source, place) in [
        ("fn f() {\n  g(\n}", "2:4: unclosed `(`"),
        ("fn f() {", "1:8: unclosed `{`"),
        ("fn f() { } }", "1:12: unexpected `}`"),
        ("let a = \"b;\n", "1:9: unclosed text or comment"),
        ("a /* b", "1:3: unclosed text or comment"),
        ("a `b ${c", "1:3: unclosed text or comment"),
        ("a `b ${\"c}`\n", "1:3: unclosed text or comment"),
        ("a \"b\"\"c\n", "1:3: unclosed text or comment"),
        ("a '\\'", "1:3: unclosed text or comment"),
        ("a #\"b\"", "1:3: unclosed text or comment"),
    ] {
        assert_eq!(format(source).unwrap_err().to_string(), place, "{source}");
    }
}

#[test]
fn texts_that_are_nested_too_deep_are_refused() {
    for depth in [40, 100_000] {
        let source = format!("let a = {}{};", "`${".repeat(depth), "}`".repeat(depth));
        assert_eq!(format(&source).unwrap_err().to_string(), "1:9: unclosed text or comment");
    }
}

/// Returns the same lexemes with other whitespace between them.
fn mangled(source: &str, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let text = source.trim_start_matches('\u{feff}');
    let Ok(lexemes) = lex(text) else { return source.to_owned() };
    let mut out = String::new();
    for (index, lexeme) in lexemes.iter().enumerate() {
        let follows_line = index > 0 && lexemes[index - 1].is_line_comment();
        let is_apart = index == 0 || lexeme.breaks > 0 || lexeme.blanks > 0;
        // Adjacent tokens may depend on having no whitespace between them.
        let blank = match random.u8(0..6) {
            _ if !is_apart => "",
            0 => "\n",
            1 => "\n\n\n\t",
            2 => "   ",
            3 => "\t",
            _ => " ",
        };
        // A blank before `(` or `[` does not matter, but a line break may.
        let blank = if follows_line && !blank.contains('\n') { "\n" } else { blank };
        out.push_str(blank);
        out.push_str(lexeme.text);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_layout_of_a_script_formats_to_the_same_tokens(seed in any::<u64>()) {
        let all = shipped();
        let source = mangled(&all[seed as usize % all.len()], seed);
        if format(&source).is_ok() {
            keeps(&source);
        }
    }

    #[test]
    fn any_text_is_formatted_or_refused(source in "[a-z0-9 \\n(){}\\[\\]#\"'`$/*|!.,;:=<>+?&-]{0,80}") {
        if let Ok(formatted) = format(&source) {
            prop_assert_eq!(format(&formatted).unwrap(), formatted.clone());
            prop_assert_eq!(pieces(&source), pieces(&formatted));
        }
    }
}

#[test]
fn unformattable_code_is_reported_with_its_position() {
    let deep = format!("{}{}", "{".repeat(300), "}".repeat(300));
    for (source, why) in [
        ("fn a() {\n    // x\r 1\n}\n", "a carriage return without a line feed"),
        (deep.as_str(), "more than 256 open brackets"),
        ("fn a() {", "unclosed `{`"),
    ] {
        let error = format(source).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
