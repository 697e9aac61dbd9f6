//! Application of the rules of a service to a request.

use super::draft::Draft;
use super::kind::ServiceKind;
use super::names::Names;
use super::rule::Rule;
use super::table::rows_of;
use memchr::memmem;
use std::sync::LazyLock;
use valvehouse_core::error::Error;
use valvehouse_json::{Json, scan_object};

/// A request that was changed for its service.
#[derive(Debug)]
pub struct Adaptation {
    /// The request. Unchanged values are shared with the original.
    pub body: Json,
    /// The names of the changed fields, without duplicates.
    pub fields: Vec<&'static str>,
    /// The names of tools to restore in the answer.
    pub names: Names,
}

/// Applies the rules of a service to a chat request. Returns `None` if the service accepts it as it is. The given
/// request is not changed.
///
/// # Errors
/// Returns a request error that names the message if a request breaks a rule and cannot be repaired.
pub fn adapt(kind: ServiceKind, request: &Json) -> Result<Option<Adaptation>, Error> {
    let Json::Object(body) = request else { return Ok(None) };
    let mut draft = Draft::new(body);
    for row in rows_of(kind) {
        row.rule.apply(&mut draft, kind)?;
    }
    Ok(draft.finish().map(|(body, fields, renamed)| Adaptation { body, fields, names: Names::new(renamed) }))
}

/// A test for the rules that a text may be about.
type RuleTest = fn(&Rule) -> bool;

/// Texts in messages in which a rule may find something to repair, and those rules.
const NEEDLES: [(&str, RuleTest); 9] = [
    ("\"tool_call", |_| true),
    ("\"original\"", |rule| *rule == Rule::TextResults),
    ("\"file_id\"", |rule| *rule == Rule::Images),
    ("\"developer\"", |rule| *rule == Rule::Developer),
    ("null", |rule| *rule == Rule::Content),
    ("[]", |rule| *rule == Rule::Content),
    ("\"\"", |rule| *rule == Rule::Turns),
    ("\"name\"", |rule| matches!(rule, Rule::Participants(_))),
    ("\"assistant\"", |rule| matches!(rule, Rule::MessageFields(_) | Rule::Prefill(_) | Rule::Order)),
];

/// The signs in a request that a rule of a service may apply to it.
struct Signs {
    /// Texts in messages.
    texts: Vec<memmem::Finder<'static>>,
    /// Fields, whatever their value.
    fields: Vec<&'static str>,
    /// Set if each message needs a content.
    needs_content: bool,
}

/// The signs for each kind of service, in the order of the kinds.
static SIGNS: LazyLock<Vec<Signs>> = LazyLock::new(|| {
    let signs = |kind: ServiceKind| Signs {
        texts: NEEDLES
            .iter()
            .filter(|(_, is_meant)| rows_of(kind).any(|row| is_meant(&row.rule)))
            .map(|(text, _)| memmem::Finder::new(*text))
            .collect(),
        fields: rows_of(kind).flat_map(|row| row.rule.refused_fields()).copied().collect(),
        needs_content: rows_of(kind).any(|row| row.rule == Rule::Content),
    };
    ServiceKind::ALL.iter().map(|(_, kind)| signs(*kind)).collect()
});

/// Returns `false` if no rule applies to a request whose bytes are sent unread: it has no tools, and its other
/// fields are within their limits. A request that is not an object is `false`, too.
pub fn may_apply(kind: ServiceKind, request: &[u8]) -> bool {
    let Signs { texts, fields, needs_content } = &SIGNS[kind as usize];
    let mut may = false;
    let (mut model, mut about_models) = ("", Vec::new());
    scan_object(request, |key, value| {
        match key {
            "model" => model = value.trim_matches('"'),
            "temperature" | "top_p" | "presence_penalty" | "frequency_penalty" | "reasoning_effort"
            | "max_tokens" => {
                about_models.push(key);
            }
            _ => {}
        }
        may |= match key {
            "messages" => {
                texts.iter().any(|text| text.find(value.as_bytes()).is_some())
                    || *needs_content && lacks_content(value.as_bytes())
            }
            "tools" | "tool_choice" | "parallel_tool_calls" | "functions" | "top_logprobs" => value != "null",
            // The quotes count.
            "user" | "safety_identifier" | "prompt_cache_key" => value.len() > 66,
            "max_tokens" | "max_completion_tokens" => {
                is_decimal(value) || value.parse::<f64>().is_ok_and(|number| number < 16.0)
            }
            "n" | "seed" | "top_k" | "num_ctx" if is_decimal(value) => true,
            "stop" => value.starts_with('[') || value == "\"\"",
            "reasoning_effort" => value == "\"max\"",
            "response_format" => value.contains("json"),
            _ => false,
        } || fields.contains(&key);
    });
    may || about_models.iter().any(|key| rows_of(kind).any(|row| row.rule.refuses_field_of(key, model)))
}

/// Returns `true` if messages have fewer contents than roles.
fn lacks_content(messages: &[u8]) -> bool {
    let count = |key: &str| memmem::find_iter(messages, key).count();
    count("\"content\"") < count("\"role\"")
}

fn is_decimal(number: &str) -> bool {
    number.contains(['.', 'e', 'E'])
}
