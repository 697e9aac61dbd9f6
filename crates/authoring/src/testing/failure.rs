//! The failure of a test: its position, its reason, and the compared values.

use rhai::{Dynamic, EvalAltResult, Position};
use valvehouse_core::text::nearest;
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_json::Json;
use valvehouse_json::diff::{DiffOperation, diff};
use valvehouse_script::Script;
use valvehouse_script::diagnostic::{Code, Diagnostic};
use valvehouse_script_std::reference::Function;

/// The failure of a test.
#[derive(Debug, Clone)]
pub struct TestFailure {
    /// The position in the test file, and the reason.
    pub problem: Diagnostic,
    /// The actual and the expected value, if a comparison failed.
    pub compared: Option<(Json, Json)>,
}

impl TestFailure {
    /// Returns the changes from the expected to the actual value.
    pub fn differences(&self) -> Vec<DiffOperation> {
        self.compared.iter().flat_map(|(actual, expected)| diff(expected, actual)).collect()
    }
}

/// The failure of an assertion.
#[derive(Debug, Clone)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) compared: Option<(Json, Json)>,
}

/// The end of a test, with its position, that no `catch` receives. Rhai replaces the position of such an error by
/// that of each call on the stack.
#[derive(Debug, Clone)]
struct TestEnd(Position);

/// Ends the running test.
pub(super) fn end(position: Position) -> Box<EvalAltResult> {
    EvalAltResult::ErrorTerminated(Dynamic::from(TestEnd(position)), position).into()
}

/// Returns `true` if scripts cannot catch an error: a failed assertion, an exceeded budget.
pub(super) fn is_final(error: &EvalAltResult) -> bool {
    matches!(error.unwrap_inner(), EvalAltResult::ErrorTerminated(..))
}

/// Describes an error of a test, at its position in the test file. `tested` is the script, if it compiles; `known` are
/// the functions that only tests may call.
pub(super) fn describe(
    tests: &Script,
    tested: Option<&Script>,
    function: &str,
    error: &EvalAltResult,
    wrong: Option<Wrong>,
    known: &[Function],
) -> TestFailure {
    let text = &tests.file.text;
    let plain = |message: String| Diagnostic::of(Code::TestFailed, &tests.file, message);
    if let EvalAltResult::ErrorTerminated(token, _) = error.unwrap_inner() {
        if let (Some(TestEnd(position)), Some(wrong)) = (token.clone().try_cast(), wrong) {
            return TestFailure {
                problem: plain(wrong.message).at(text, position),
                compared: wrong.compared,
            };
        }
        let ended = plain(summary_of_run(error));
        let ended = match error.unwrap_inner().position() {
            Position::NONE => ended.at_function(text, function),
            position => ended.at(text, position),
        };
        let help = "reduce the work of the test, or split it; a test has the limits of a tool";
        return TestFailure { problem: ended.help(help), compared: None };
    }
    let problem = tests.problem_of_run(Code::TestFailed, function, error);
    let help = problem.help.clone().or_else(|| help_for_unknown(error, tested, known));
    TestFailure { problem: Diagnostic { help, ..problem }, compared: None }
}

/// Returns what a test may have meant by an unknown function.
fn help_for_unknown(error: &EvalAltResult, tested: Option<&Script>, known: &[Function]) -> Option<String> {
    let EvalAltResult::ErrorFunctionNotFound(signature, _) = error.unwrap_inner() else { return None };
    let called = signature.split(" (").next().unwrap_or(signature);
    if tested.is_some_and(|script| script.functions().any(|function| function.name == called)) {
        return Some(match called {
            "pipe" => "run a whole turn with the pipe: `chat(request)`".into(),
            _ => format!("call a function of the script with `run_function(\"{called}\", [arguments])`"),
        });
    }
    let (module, name) = called.split_once("::").unwrap_or(("", called));
    let of_module = known.iter().filter(|known| known.module == module && !known.is_method);
    let near = nearest(name, of_module.map(|known| known.name.as_str()))?;
    let path = called.strip_suffix(name)?;
    Some(format!("did you mean `{path}{near}`?"))
}
