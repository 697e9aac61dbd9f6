//! The results and errors of scripts: `skip`, `error`, `ok`, `deny`, `throw`, and the value of `catch`.

use crate::answer::{MAX_MESSAGE, ThrownError, readable, without_place};
use crate::call;
use crate::standard::shortened_text;
use crate::value::{json_of, live};
use rhai::{
    Dynamic, Engine, EvalAltResult, FnNamespace, FuncRegistration, Module, NativeCallContext, Position,
};
use valvehouse_core::error::Rejection;
use valvehouse_json::Json;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// A result that a hook or tool returns explicitly.
#[derive(Debug, Clone)]
pub enum HookAnswer {
    /// The value that stops the chain.
    Skip(Json),
    /// The rejection that stops the chain.
    Error(Rejection),
    /// A value, and the context to continue with if it was passed.
    Ok(Json, Option<Json>),
}

impl ThrownError {
    /// Converts a value that a script throws or passes to `error`: a text, a map with `message`, or anything else
    /// as text.
    pub(crate) fn new(value: &Dynamic, line: Option<usize>) -> Self {
        if let Some(again) = value.read_lock::<Self>() {
            return again.clone();
        }
        let json = json_of(value).unwrap_or_else(|_| shortened_text(value, 4 * MAX_MESSAGE).into());
        let message = match &json {
            Json::Text(text) => text.to_string(),
            Json::Object(_) => match json.get("message") {
                Some(Json::Text(text)) => text.to_string(),
                Some(other) => other.to_string(),
                None => json.to_string(),
            },
            other => other.to_string(),
        };
        let mut rejection = Rejection::new(readable(&message));
        if let Some(status) = json.get("status").filter(|status| !status.is_null()) {
            rejection = rejection.with_status(status.as_i64().unwrap_or(0));
        }
        rejection.retry_after = json.get("retry_after").and_then(|seconds| seconds.as_f64());
        rejection.fatal = json.get("fatal").and_then(|fatal| fatal.as_bool()).unwrap_or(false);
        rejection.plugin = call::plugin();
        Self { rejection, line, value: json, bug: false, absent: None }
    }

    /// Returns the delay in seconds, as an integer if it is whole.
    fn retry_after(&self) -> Dynamic {
        match self.rejection.retry_after {
            None => Dynamic::UNIT,
            Some(seconds) if seconds.fract() == 0.0 => (seconds as i64).into(),
            Some(seconds) => seconds.into(),
        }
    }

    fn field(&self, name: &str) -> Dynamic {
        match name {
            "message" => self.rejection.message.clone().into(),
            "status" => i64::from(self.rejection.status).into(),
            "plugin" => self.rejection.plugin.clone().into(),
            "retry_after" => self.retry_after(),
            "line" => self.line.map_or(Dynamic::UNIT, |line| (line as i64).into()),
            other => live(&self.value.field(other), crate::value::Shape::Plain),
        }
    }
}

/// Fails if a hook or tool built a result and did not return it: a call of `error(…)` is meant to reject.
///
/// # Errors
/// Returns an error with the position of the answer.
pub fn all_returned(value: &Dynamic) -> Answer<()> {
    let built = call::built();
    if built.error.is_none() && built.skip.is_none() {
        return Ok(());
    }
    let (returns_error, returns_skip) = match value.read_lock::<HookAnswer>().as_deref() {
        Some(HookAnswer::Error(_)) => (true, true),
        Some(HookAnswer::Skip(_)) => (false, true),
        Some(HookAnswer::Ok(..)) | None => (false, false),
    };
    let lost = match built {
        call::AnswerPositions { error: Some(place), .. } if !returns_error => Some(("error", place)),
        call::AnswerPositions { skip: Some(place), .. } if !returns_skip => Some(("skip", place)),
        _ => None,
    };
    let Some((name, place)) = lost else { return Ok(()) };
    let message = format!(
        "the answer of `{name}(…)` is not returned; write `return {name}(…);`, or call `deny(…)`, which \
         ends the hook"
    );
    Err(EvalAltResult::ErrorRuntime(message.into(), place).into())
}

pub(crate) fn register(module: &mut Module) {
    fn global(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
        FuncRegistration::new(name)
            .with_namespace(FnNamespace::Global)
            .with_params_info(params)
            .with_comments([comment])
    }
    module.set_custom_type::<HookAnswer>("answer");
    module.set_custom_type::<ThrownError>("error");

    global(
        "skip",
        &["value", "answer"],
        "/// Creates an answer that stops the chain. Return it: `value` \
                                          becomes the model's answer, the tool's result or the final value, \
                                          depending on the hook.",
    )
    .set_into_module(module, |context: NativeCallContext<'_>, value: Dynamic| -> Answer<HookAnswer> {
        let answer = HookAnswer::Skip(json_of(&value)?);
        call::note_built(|built| built.skip = Some(context.call_position()));
        Ok(answer)
    });
    global(
        "error",
        &["reason", "answer"],
        "/// Creates an answer that stops the chain with an error. Return it: `reason` is a text, or \
         `#{message, status, retry_after}` with `retry_after` in seconds.",
    )
    .set_into_module(module, |context: NativeCallContext<'_>, reason: Dynamic| {
        call::note_built(|built| built.error = Some(context.call_position()));
        HookAnswer::Error(ThrownError::new(&reason, None).rejection)
    });
    global(
        "ok",
        &["value", "answer"],
        "/// Creates the result of a tool. Return it from the handler: `value` is the result.",
    )
    .set_into_module(module, |value: Dynamic| -> Answer<HookAnswer> {
        Ok(HookAnswer::Ok(json_of(&value)?, None))
    });
    global(
        "ok",
        &["value", "ctx", "answer"],
        "/// Creates the result of a tool. Return it from the handler: `value` is the result and `ctx` is \
         the context from then on.",
    )
    .set_into_module(module, |value: Dynamic, ctx: Dynamic| -> Answer<HookAnswer> {
        Ok(HookAnswer::Ok(json_of(&value)?, Some(json_of(&ctx)?)))
    });
    global("deny", &["message"], "/// Rejects the request with HTTP status 400 and ends the hook.")
        .set_into_module(module, |message: Dynamic| -> Answer<()> {
            Err(ThrownError::new(&message, None).into_error(Position::NONE))
        });
    global(
        "deny",
        &["message", "status: integer"],
        "/// Rejects the request with an HTTP status from 400 to 599 and ends the hook.",
    )
    .set_into_module(module, |message: Dynamic, status: i64| -> Answer<()> {
        let mut thrown = ThrownError::new(&message, None);
        thrown.rejection = thrown.rejection.with_status(status);
        Err(thrown.into_error(Position::NONE))
    });
    register_error(module);
}

/// Registers the properties of a caught error.
fn register_error(module: &mut Module) {
    let reader = |name: &str| {
        FuncRegistration::new(name.to_owned()).with_namespace(FnNamespace::Global).with_purity(true)
    };
    for (name, kind, about) in [
        ("message", "text", "The error message. Converting the error to a text gives the same message."),
        ("status", "integer", "The HTTP status: the one of a rejection, 500 for a bug in the script."),
        ("retry_after", "number", "The seconds to wait before a retry; `()` if unknown."),
        ("plugin", "text", "The id of the plugin that failed."),
        ("line", "integer", "The line in the script; `()` if unknown."),
    ] {
        reader(&format!("get${name}"))
            .with_params_info(["error: &mut error", kind])
            .with_comments([format!("/// {about}")])
            .set_into_module(module, move |thrown: &mut ThrownError| thrown.field(name));
    }
    reader("index$get$").set_into_module(module, |thrown: &mut ThrownError, key: &str| thrown.field(key));
    for name in ["to_string", "to_debug", "print", "debug"] {
        reader(name).set_into_module(module, |thrown: &mut ThrownError| thrown.rejection.message.clone());
    }
}

/// Replaces `throw`, so that the error has its position and every `catch` receives the same kind of value.
pub(crate) fn own_throw(engine: &mut Engine) {
    engine.disable_symbol("throw");
    engine
        .register_custom_syntax(["throw", "$expr$"], false, |context, inputs| {
            let Some(input) = inputs.first() else { return Ok(Dynamic::UNIT) };
            let position = input.position();
            let value = context.eval_expression_tree(input)?;
            Err(ThrownError::new(&value, position.line()).into_error(position))
        })
        .expect("`throw` is disabled, so it is free for a syntax of ours");
}

/// Converts the map that Rhai passes to `catch` for its own errors into a [`ThrownError`].
pub(crate) fn from_catch(value: &Dynamic) -> Option<Dynamic> {
    let map = value.as_map_ref().ok()?;
    let is_ours = map.get("error").is_some_and(|name| name.is_string()) && map.contains_key("message");
    if !is_ours || !(map.contains_key("line") || map.contains_key("source")) {
        return None;
    }
    let line =
        map.get("line").and_then(|line| line.as_int().ok()).and_then(|line| usize::try_from(line).ok());
    // The map may be one that the script created itself.
    let message = without_place(&shortened_text(map.get("message")?, MAX_MESSAGE));
    Some(Dynamic::from(ThrownError::bug(message, line)))
}
