//! Tests of the keys of live maps: their names, and misspelt ones.

use crate::{Kind, Script, Settings, SourceFile};
use valvehouse_core::context::Turn;
use valvehouse_core::filter::Hook;
use valvehouse_dialect::value::{self, Shape};
use valvehouse_json::Json;

/// Runs code on a request; returns the changed request, or the error.
fn run(header: &str, code: &str) -> Result<String, String> {
    let text = format!("/*\n{header}\n*/\nfn inlet(body) {{\n{code}\n}}");
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text.as_str());
    let script = Script::compile(&file, &Settings::default()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let message = Json::from([("role", "user".into()), ("content", "hello".into())]);
    let body = Json::from([("messages", vec![message].into()), ("contnet", "theirs".into())]);
    match script.call(Hook::Inlet, vec![value::live(&body, Shape::Body)], &Turn::default()).0 {
        Ok(_) => Ok(body.to_string()),
        Err(crate::run::script_call::CallEnd::Broken { failure, .. }) => Err(failure.to_string()),
        Err(_) => Err("refused".to_owned()),
    }
}

#[test]
fn get_knows_the_names_that_an_index_knows() {
    let code = "let m = body.messages[0]; body.found = [m.get(\"text\"), m.get(\"text\", \"x\"), m[\"text\"], \
                m.get(\"none\", \"y\"), m.get(\"none\") == (), m.get(\"role\")]; body";
    let found = run("title: x", code).unwrap();
    assert!(found.contains(r#""found":["hello","hello","hello","y",true,"user"]"#), "{found}");
}

#[test]
fn a_guard_fails_when_it_writes_a_misspelt_key() {
    for code in [
        "body.messages[0].contnet = \"x\";",
        "let m = body.messages.last(\"user\"); m.contnet = \"x\";",
        "for m in body.messages { m.contnet = \"x\"; }",
        "body.messages.map(|m| { m.contnet = \"x\"; m });",
    ] {
        let failed = run("security: true", code).unwrap_err();
        assert!(failed.contains("did you mean `content`?") && failed.contains("x.rhai:5:"), "{failed}");
        assert!(run("title: x", code).unwrap().contains(r#""contnet":"x""#), "{code}");
    }
    let failed = run("security: true", "body.mesages = [];").unwrap_err();
    assert!(failed.contains("did you mean `messages`?"), "{failed}");
}

#[test]
fn a_guard_may_write_keys_of_its_own() {
    for code in [
        // It is read, or the client has sent it.
        "body.mesages = 1; body.x = body.mesages;",
        "body.contnet = \"x\";",
        // It is like none, or known, or on a map of the script.
        "body.reviewed_by = 1; body.messages[0].checked = true;",
        "body.messages[0].content = \"x\"; body.messages[0].name = \"a\";",
        "let m = #{ role: \"user\" }; m.contnet = 1;",
    ] {
        assert!(run("security: true", code).is_ok(), "{code}: {:?}", run("security: true", code));
    }
}
