//! `valvehouse run`: one hook on a body, or a whole turn.

use crate::cli::Project;
use valvehouse::json::Json;

const SHOUT: &str = r#"
const Valves = #{ mark: "!" };
fn inlet(body, valves, __user__, __metadata__) {
    print(`for ${__user__.id ?? "nobody"}`);
    emit(#{ type: "status", data: #{ description: "shouting" } });
    body.messages[-1].text = body.messages[-1].text.to_upper() + valves.mark + (__metadata__.more ?? "");
    body
}
fn pre_chat(ctx) { skip("no need to ask") }
fn outlet(body) { deny("not like this", 451) }
fn post_chat(ctx) {
    let nothing = ();
    ctx.result.content = nothing.text;
}
"#;

const COUNTS: &str = "/*\nrequirements: kv\n*/\nfn inlet(body) { body.count = kv::incr(\"seen\"); body }";

fn project() -> Project {
    Project::new().filter("shout", SHOUT)
}

#[test]
fn a_hook_is_shown_with_its_changes_cost_and_output() {
    let project = project();
    project
        .run("run inlet shout --text hello --user ann")
        .ends(0)
        .prints("filters/shout.rhai")
        .prints("/messages/0/content")
        .prints("- \"hello\"")
        .prints("+ \"HELLO!\"")
        .prints("operations")
        .prints("log shout: for ann")
        .prints("event shout: {\"type\":\"status\",\"data\":{\"description\":\"shouting\"}}")
        .stderr_has("dry run");
    let report = project.run("run inlet filters/shout.rhai --text hi --format json").ends(0).json();
    assert_eq!(report.at_path("outcome"), Json::from("continue"));
    assert_eq!(report.at_path("diff.0.path"), Json::from("/messages/0/content"));
    assert_eq!(report.at_path("value.messages.0.content"), Json::from("HI!"));
    assert_eq!(report.at_path("lines.0.text"), Json::from("for nobody"));
    assert!(report.at_path("cost.operations").as_i64().unwrap() > 0, "{report}");
}

#[test]
fn the_body_comes_from_a_file_from_stdin_or_from_the_line_itself() {
    let body = r#"{"messages": [{"role": "user", "content": "hi"}], "seed": 7}"#;
    let project = project().with("request.json", body);
    for (words, stdin) in [
        (["run", "inlet", "shout", "--print", "value", "--body", "request.json"], ""),
        (["run", "inlet", "shout", "--print", "value", "--body", "-"], body),
        (["run", "inlet", "shout", "--print", "value", "--body", body], ""),
    ] {
        let value = project.run_with(&words, stdin).ends(0).json();
        assert_eq!(value.at_path("messages.0.content"), Json::from("HI!"));
        assert_eq!(value.at_path("seed"), Json::from(7_i64));
    }
    project.run("run inlet shout --body nothing.json").ends(65).stderr_has("cannot read nothing.json");
    project
        .run_with(&["run", "inlet", "shout", "--body", "{nonsense"], "")
        .ends(65)
        .stderr_has("not valid JSON");
    project
        .run_with(&["run", "inlet", "shout", "--body", "{\"a\": 1}"], "")
        .ends(65)
        .stderr_has("\"messages\"");
    project.run("run inlet shout").ends(2).stderr_has("--body");
}

#[test]
fn valves_and_metadata_can_be_set_for_one_run() {
    let project = project();
    let words = ["run", "inlet", "shout", "--text", "hi", "--print", "text", "--valves", "mark=?"];
    project.run_with(&[&words[..], &["--metadata", "{\"more\": \"#\"}"]].concat(), "").ends(0).prints("HI?#");
    project.run("run inlet shout --text hi --print text").ends(0).prints("HI!");
    project.run("run inlet shout --text hi --valves marc=?").ends(2).stderr_has("did you mean `mark`?");
    project.run("run inlet shout --text hi --metadata 7").ends(2).stderr_has("--metadata");
}

#[test]
fn an_early_answer_a_rejection_and_an_error_are_distinguished() {
    let project = project();
    project.run("run pre_chat shout --text hi").ends(0).prints("skipped with no need to ask");
    project.run("run outlet shout --text hi").ends(1).stderr_has("refused (451) by shout: not like this");
    project
        .run("run post_chat shout --text hi")
        .ends(65)
        .stderr_has("filters/shout.rhai:13:")
        .stderr_has("^");
    let report = project.run("run outlet shout --text hi --format json").ends(1).json();
    assert_eq!(report.at_path("status"), Json::from(451_i64));
    project.write("filters/broken.rhai", "fn inlet(body) {\n    body.x = ;\n}\n");
    project
        .run("run inlet broken --text hi")
        .ends(65)
        .stderr_has("does not load")
        .stderr_has("filters/broken.rhai:2:");
}

#[test]
fn unknown_names_are_answered_with_the_available_ones() {
    let project = project();
    project.run("run inlet shuot --text hi").ends(2).stderr_has("did you mean `shout`?");
    project.run("run stream shout --text hi").ends(2).stderr_has("it has inlet, pre_chat");
    project.run("run inlett shout --text hi").ends(2).stderr_has("inlet");
    project.run("run inlet --text hi").ends(2).stderr_has("missing script of inlet");
    project.run("run tool shout --text hi").ends(2).stderr_has("valvehouse invoke");
}

#[test]
fn a_stream_is_shown_event_by_event_in_every_input_format() {
    let masks = "fn stream(event, state) { stream::window(event, state, 20, |text| text::replace(text, \"secret\", \"***\")); event }";
    let recorded = concat!(
        ": a comment\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"my sec\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ret is\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n"
    );
    let project = Project::new().filter("mask", masks).with("answer.sse", recorded);
    project
        .run("run stream mask --body answer.sse")
        .ends(0)
        .prints("- \"my sec\"")
        .prints("text \"my *** is\"");
    let pieces = "[\"my sec\", {\"content\": \"ret\"}, \" is\"]";
    let words = ["run", "stream", "mask", "--body", pieces, "--print", "text"];
    project.run_with(&words, "").ends(0).prints("my *** is\n");
    let report =
        project.run_with(&["run", "stream", "mask", "--text", "my secret", "--format", "json"], "").json();
    assert_eq!(report.at_path("text"), Json::from("my ***"));
    project
        .run_with(&["run", "stream", "mask", "--body", "[7]"], "")
        .ends(65)
        .stderr_has("invalid chunk of a stream");
}

#[test]
fn a_tool_call_is_shown_before_and_after() {
    let guard = "fn pre_invocation(ctx) { if ctx.tool.name == \"pay\" { throw \"no money\"; } ctx }\nfn post_invocation(ctx) { ctx.result += \"!\"; ctx }";
    let project = Project::new().filter("guard", guard);
    let call = "{\"tool\": \"pay\", \"args\": {\"amount\": 3}}";
    project.run_with(&["run", "pre_invocation", "guard", "--body", call], "").ends(1).stderr_has("no money");
    let done = "{\"tool\": \"weather\", \"result\": \"sunny\"}";
    let words = ["run", "post_invocation", "guard", "--body", done, "--print", "text"];
    project.run_with(&words, "").ends(0).prints("sunny!");
    project
        .run_with(&["run", "post_invocation", "guard", "--body", "{}"], "")
        .ends(65)
        .stderr_has("missing `tool`");
}

#[test]
fn a_dry_run_leaves_nothing_behind_and_a_live_run_does() {
    let project = Project::new().filter("counts", COUNTS);
    let count = |more: &str| {
        let words = format!("run inlet counts --text hi --print value {more}");
        project.run(&words).ends(0).json().get("count").and_then(|count| count.as_i64())
    };
    assert_eq!(count(""), Some(1));
    assert_eq!(count(""), Some(1));
    assert_eq!(count("--live"), Some(1));
    assert_eq!(count(""), Some(2));
    assert_eq!(count("--live"), Some(2));
}

#[test]
fn a_whole_turn_shows_every_step_and_the_answer() {
    let tags = "fn outlet(body) { body.messages[-1].text += \" (seen)\"; body }";
    let loud = "fn inlet(body) { body.messages[-1].text += \"!\"; body }";
    let project = Project::new().filter("loud", loud).filter("tags", tags);
    project
        .run("run turn --text hello")
        .ends(0)
        .prints("inlet   loud")
        .prints("+ \"hello!\"")
        .prints("demo/demo")
        .prints("outlet  tags")
        .prints("You said: hello!")
        .prints("(seen)");
    let report = project.run("run turn --text hello --format json").ends(0).json();
    assert!(report.at_path("trace.steps").items().len() >= 3, "{report}");
    project.run("run turn --text hello --model nothing").ends(2).stderr_has("does not exist");
    project.run("run turn loud --text hello").ends(2).stderr_has("remove `loud`");
    project.write("filters/refuses.rhai", "fn inlet(body) { deny(`not today`, 403) }");
    project.run("run turn --text hello").ends(1).stderr_has("refused (403) by refuses: not today");
}
