//! Drafts of constructs whose translation must be right or left to the author.

#![allow(clippy::unwrap_used)]

use valvehouse_port::port;

fn draft(source: &str) -> String {
    port(source, "plugin").unwrap().script
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
    for part in [
        "fn outlet(body, __user__)",
        "finish(body, __user__)",
        "is_loud(__user__)",
        "fn is_loud(__user__)",
        "__user__.valves.loud",
    ] {
        assert!(script.contains(part), "no {part} in:\n{script}");
    }
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
