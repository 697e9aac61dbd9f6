//! The thinking that a request asks of Anthropic's models, and the form in which each of them accepts it.

use valvehouse_core::chat::effort::{DEFAULT_EFFORT, EFFORTS, Effort};
use valvehouse_json::Json;

/// The least thinking budget, in tokens.
const LEAST_BUDGET: i64 = 1024;

/// The form in which a model accepts thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The model does not think.
    Never,
    /// `{type: enabled, budget_tokens}`
    Budget,
    /// `{type: adaptive}`
    Adaptive,
}

/// The thinking that models accept.
struct ModelRow {
    /// Parts of the models' names, with `-` for `.`; `$` is the end of a name.
    names: &'static [&'static str],
    form: Form,
    /// The levels of `output_config.effort`; a level above the last becomes the last but `max`.
    efforts: &'static [&'static str],
    /// Set if the model thinks unless `{type: disabled}` is sent; the others refuse it or do not need it.
    thinks_by_default: bool,
}

const ALL: &[&str] = &["low", "medium", "high", "xhigh", "max"];

const fn row(
    names: &'static [&'static str],
    form: Form,
    efforts: &'static [&'static str],
    thinks_by_default: bool,
) -> ModelRow {
    ModelRow { names, form, efforts, thinks_by_default }
}

/// The first row with a matching name applies. Sources: "Adaptive thinking", "Extended thinking" and "Effort" of
/// Anthropic's documentation; `thinking.type.enabled is not supported for this model` (anomalyco/opencode#22863) and
/// `This model does not support the effort parameter` (anthropics/claude-code#30760); thinking by default
/// (promptfoo/promptfoo#10631).
const MODELS: [ModelRow; 7] = [
    row(
        &["claude-2", "claude-instant", "claude-3-h", "claude-3-o", "claude-3-s", "claude-3-5"],
        Form::Never,
        &[],
        false,
    ),
    row(
        &[
            "claude-3-7",
            "opus-4$",
            "opus-4@",
            "opus-4-0",
            "opus-4-1",
            "opus-4-2",
            "sonnet-4$",
            "sonnet-4@",
            "sonnet-4-0",
            "sonnet-4-2",
            "sonnet-4-5",
            "haiku-4-5",
        ],
        Form::Budget,
        &[],
        false,
    ),
    row(&["opus-4-5"], Form::Budget, &["low", "medium", "high"], false),
    row(&["opus-4-6", "sonnet-4-6"], Form::Adaptive, &["low", "medium", "high", "max"], false),
    row(&["opus-4-7", "opus-4-8", "opus-5-5", "fable", "mythos"], Form::Adaptive, ALL, false),
    row(&["claude"], Form::Adaptive, ALL, true),
    // Models of other makers behind Anthropic's API.
    row(&[""], Form::Budget, ALL, true),
];

/// Returns `true` for a model that no request forces to call a tool. Source: UKGovernmentBEIS/inspect_ai#5176.
pub(super) fn always_chooses(model: &str) -> bool {
    ["fable-5-1", "mythos-5-1", "opus-5-5"].iter().any(|own| model.replace('.', "-").contains(own))
}

fn model_row(model: &str) -> &'static ModelRow {
    let name = format!("{}$", model.to_ascii_lowercase().replace('.', "-"));
    let is_it = |row: &&ModelRow| row.names.iter().any(|own| name.contains(own));
    MODELS.iter().find(is_it).unwrap_or(&MODELS[MODELS.len() - 1])
}

/// The thinking that a chat request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Off,
    /// Thinking of a level, if one is given.
    On(Option<&'static Effort>),
}

/// Returns the thinking that a chat request asks for: by `reasoning_effort`, or by `reasoning` with `effort`,
/// `summary`, `enabled` or `max_tokens`.
fn wish(request: &Json) -> Option<Wish> {
    let reasoning = request.field("reasoning");
    let effort = request.text("reasoning_effort").or_else(|| reasoning.text("effort"));
    match effort.as_deref().and_then(Effort::of) {
        Some(effort) if effort.name == "none" => return Some(Wish::Off),
        Some(effort) => return Some(Wish::On(Some(effort))),
        None => {}
    }
    match reasoning.get("enabled").and_then(|is| is.as_bool()) {
        Some(false) => return Some(Wish::Off),
        Some(true) => return Some(Wish::On(None)),
        None => {}
    }
    if let Some(tokens) = reasoning.integer("max_tokens") {
        return Some(Wish::On(Some(Effort::of_budget(tokens))));
    }
    let shows = reasoning.text("summary").is_some_and(|summary| summary != "none");
    shows.then_some(Wish::On(None))
}

/// Returns the `output_config.effort` for a request, if its model knows such levels.
pub(super) fn effort(request: &Json) -> Option<&'static str> {
    let Some(Wish::On(Some(effort))) = wish(request) else { return None };
    fitting(request, effort)
}

/// Returns the `output_config.effort` for a level that a request asks for, if its model knows such levels.
pub(super) fn fitting(request: &Json, effort: &'static Effort) -> Option<&'static str> {
    let known = model_row(&request.text_or_empty("model")).efforts;
    let fits = known.contains(&effort.anthropic);
    let nearest = || known.iter().rfind(|own| **own != "max").copied();
    if fits { Some(effort.anthropic) } else { nearest().filter(|_| !effort.anthropic.is_empty()) }
}

/// Returns the budget in tokens that a request without a limit needs besides its answer.
pub(super) fn budget(request: &Json, is_anthropics: bool) -> i64 {
    let is_budget = model_row(&request.text_or_empty("model")).form == Form::Budget;
    match wish(request).filter(|_| is_budget && !is_anthropics) {
        Some(Wish::On(effort)) => level(effort).budget,
        _ => 0,
    }
}

fn level(effort: Option<&'static Effort>) -> &'static Effort {
    effort.or_else(|| Effort::of(DEFAULT_EFFORT)).unwrap_or(&EFFORTS[3])
}

/// Sets the `thinking` of a body for Anthropic's API in the form that its model accepts. A client of that API
/// states it itself. Returns `false` if the request asks for thinking and the model cannot think with its other
/// settings.
pub(super) fn set(body: &Json, request: &Json, is_anthropics: bool) -> bool {
    let row = model_row(&body.text_or_empty("model"));
    let given = body.at_path("thinking.type");
    let wish = wish(request);
    if wish == Some(Wish::Off) {
        body.remove("thinking");
        if row.thinks_by_default {
            body.edit("thinking", disabled());
        }
        return true;
    }
    let is_adaptive = given.as_str() == Some("adaptive");
    let effort = match wish {
        Some(Wish::On(effort)) if given.is_null() && !is_anthropics => effort,
        Some(Wish::On(effort)) if is_adaptive && row.form != Form::Adaptive => effort,
        None if is_adaptive && row.form != Form::Adaptive => None,
        _ => return true,
    };
    let thinking = match row.form {
        Form::Adaptive => {
            // Newer models show no thinking unless asked.
            Some(Json::from([("type", "adaptive".into()), ("display", "summarized".into())]))
        }
        Form::Budget => enabled(level(effort).budget, body.integer("max_tokens")),
        Form::Never => None,
    };
    body.remove("thinking");
    match thinking.filter(|_| may_think(body)) {
        Some(thinking) => body.edit("thinking", thinking),
        None => return false,
    }
    true
}

/// Returns thinking with a budget, which must be below `max_tokens`; half of the tokens are left for the answer.
fn enabled(budget: i64, most: Option<i64>) -> Option<Json> {
    let budget = most.map_or(budget, |most| budget.min(most / 2));
    let thinking = [("type", "enabled".into()), ("budget_tokens", budget.into())];
    (budget >= LEAST_BUDGET).then(|| Json::from(thinking))
}

pub(super) fn disabled() -> Json {
    Json::from([("type", "disabled".into())])
}

/// Returns `true` if the other settings of a body allow thinking. Source: "Feature compatibility" of "Extended
/// thinking" in Anthropic's documentation.
fn may_think(body: &Json) -> bool {
    let is_number =
        |key: &str, fits: fn(f64) -> bool| body.get(key).and_then(|value| value.as_f64()).is_none_or(fits);
    let choice = body.at_path("tool_choice.type");
    let last = body.get("messages").and_then(|messages| messages.at(-1));
    let is_prefill = last.is_some_and(|last| last.is_text("role", "assistant"));
    !matches!(choice.as_str(), Some("any" | "tool"))
        && is_number("temperature", |value| value == 1.0)
        && is_number("top_p", |value| (0.95..=1.0).contains(&value))
        && body.get("top_k").is_none()
        && !is_prefill
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinking_of(fields: &str) -> (String, Option<&'static str>, bool) {
        let request = Json::parse(format!("{{{fields}}}").as_bytes()).unwrap();
        let body =
            Json::from([("model", request.field("model")), ("max_tokens", request.field("max_tokens"))]);
        for key in ["temperature", "tool_choice", "thinking"] {
            request.given(key).into_iter().for_each(|value| body.edit(key, value));
        }
        let all = set(&body, &request, false);
        (body.field("thinking").to_string(), effort(&request), all)
    }

    #[test]
    fn each_model_gets_the_form_that_it_accepts() {
        let adaptive = r#"{"type":"adaptive","display":"summarized"}"#;
        let budget = |tokens: i64| format!(r#"{{"type":"enabled","budget_tokens":{tokens}}}"#);
        let high = |model: &str| {
            thinking_of(&format!(r#""model":"{model}","max_tokens":64000,"reasoning_effort":"xhigh""#))
        };
        for (model, thinking, effort) in [
            ("claude-opus-4-7", adaptive.to_owned(), Some("xhigh")),
            ("anthropic/claude-sonnet-4.6", adaptive.to_owned(), Some("high")),
            ("claude-opus-4-5-20251101", budget(24_576), Some("high")),
            ("claude-sonnet-4-5", budget(24_576), None),
            ("claude-opus-4", budget(24_576), None),
            ("claude-3-5-haiku-latest", "null".to_owned(), None),
            ("claude-next", adaptive.to_owned(), Some("xhigh")),
            ("kimi-k2", budget(24_576), Some("xhigh")),
        ] {
            let (sent, level, all) = high(model);
            assert_eq!((sent, level), (thinking, effort), "{model}");
            assert_eq!(all, !model.contains("3-5"), "{model}");
        }
    }

    #[test]
    fn none_never_asks_for_thinking() {
        for (model, sent) in [
            ("claude-x", r#"{"type":"disabled"}"#),
            ("claude-opus-4-8", "null"),
            ("claude-sonnet-4-5", "null"),
        ] {
            for wish in [
                r#""reasoning_effort":"none""#,
                r#""reasoning":{"enabled":false}"#,
                r#""reasoning":{"effort":"none"}"#,
            ] {
                let more = r#""thinking":{"type":"enabled","budget_tokens":2048}"#;
                let fields = format!(r#""model":"{model}","max_tokens":9,{wish},{more}"#);
                assert_eq!(thinking_of(&fields), (sent.to_owned(), None, true), "{fields}");
            }
        }
    }

    #[test]
    fn a_budget_leaves_room_for_the_answer_and_conflicts_are_reported() {
        let sonnet = |rest: &str| thinking_of(&format!(r#""model":"claude-sonnet-4-5",{rest}"#));
        let asked = r#""reasoning":{"summary":"auto"}"#;
        assert_eq!(
            sonnet(&format!(r#""max_tokens":4096,{asked}"#)).0,
            r#"{"type":"enabled","budget_tokens":2048}"#
        );
        for rest in [
            r#""max_tokens":2000"#,
            r#""max_tokens":9000,"temperature":0.2"#,
            r#""max_tokens":9000,"tool_choice":{"type":"any"}"#,
        ] {
            let (sent, _, all) = sonnet(&format!("{rest},{asked}"));
            assert_eq!((sent.as_str(), all), ("null", false), "{rest}");
        }
        let converted = sonnet(r#""max_tokens":20000,"thinking":{"type":"adaptive"}"#);
        assert_eq!(converted.0, r#"{"type":"enabled","budget_tokens":8192}"#);
        assert_eq!(sonnet(r#""max_tokens":20000"#).0, "null");
    }
}
