//! `valvehouse run pipe`: one chat with a model of a pipe.

use crate::cli::Project;

const ECHO: &str = "fn pipes() { [\"loud\", \"quiet\"] }
fn pipe(body) {
    let text = body.messages.last(\"user\").text;
    yield_text(body.model + \": \");
    if text == \"no\" { deny(\"not today\"); }
    if text == \"bug\" { return text + [1][9]; }
    text
}
";

#[test]
fn a_pipe_returns_a_text_or_a_body() {
    let project = Project::new().with("filters/echo.rhai", ECHO);
    project.run("run pipe echo --text hello").ends(0).prints("loud: hello").stderr_has("dry run");
    project
        .run("run pipe filters/echo.rhai --text hello --model quiet --print text")
        .ends(0)
        .prints("quiet: hello");
    let report = project.run("run pipe echo --text hello --format json").ends(0).json();
    assert_eq!(report.text("model").as_deref(), Some("echo.loud"));
    assert_eq!(report.at_path("value.choices.0.message.content").to_string(), "\"echo.loud: hello\"");
}

#[test]
fn a_failing_pipe_is_reported_with_its_position() {
    let project =
        Project::new().with("filters/echo.rhai", ECHO).with("filters/plain.rhai", "fn inlet(body) { body }");
    project.run("run pipe echo --text no").ends(1).stderr_has("not today");
    project.run("run pipe echo --text bug").ends(65).stderr_has("out of bounds");
    project
        .run("run pipe echo --text hello --model other")
        .ends(2)
        .stderr_has("it offers echo.loud, echo.quiet");
    project.run("run pipe plain --text hello").ends(2).stderr_has("`plain` offers no model");
    project.run("run pipe echo").ends(2).stderr_has("missing input");
    project.run("run pipe --text hello").ends(2).stderr_has("missing script");
}
