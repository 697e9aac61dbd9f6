//! The refusals by which services say what they do not accept, and the changes after which they may accept it.
//!
//! The rows of [`table`](super::table) are known before a request is sent. A refusal tells the same of a service, a model
//! or a proxy that the table does not know: the request is changed and sent once more.

use super::draft::Draft;
use super::kind::ServiceKind;
use super::limit::{Letters, TextLimit};
use super::output_limit;
use super::rule::Rule;
use super::{Adaptation, Names, fields, history, names_in, pictures, turns};
use compact_str::CompactString;
use std::collections::HashMap;
use valvehouse_core::chat::asked_effort;
use valvehouse_core::chat::effort::{EFFORTS, nearest};
use valvehouse_core::error::Error;
use valvehouse_core::error_code::{ErrorCode, message_of};
use valvehouse_json::Json;

/// A change of requests that a service demanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction(Change);

#[derive(Debug, Clone, PartialEq)]
enum Change {
    /// A rule of the table of services.
    Rule(Rule),
    /// At most so many tokens of an answer; `false` if the number depends on the length of the request.
    Tokens(i64, bool),
    /// No such field beside messages and tools.
    Field(CompactString),
    /// No such field within messages or tools.
    Inner(&'static str, CompactString),
    /// No such value of Anthropic's header for betas.
    Beta(CompactString),
    /// `reasoning_effort` is one of these.
    Levels(Vec<&'static str>),
    /// No setting of thinking.
    NoThinking,
    /// Thinking is not switched off.
    AlwaysThinks,
    /// No tool is forced.
    FreeChoice,
    /// Messages have texts only.
    Texts,
    /// The last message is the user's.
    UserLast,
    /// Neighbors have different roles.
    Alternating,
    /// Instructions are messages of the user.
    NoSystem,
    /// No thoughts that a service signed or encrypted.
    NoSecrets,
}

use Change::*;

/// Refusals, in lower case, with the change that each demands. All parts of a row occur in it. Sources: the
/// issues above the rows.
static REFUSALS: &[(&[&str], Change)] = &[
    // Thoughts of another service, account or conversation: ding113/claude-code-hub#518, BerriAI/litellm#21994.
    (&["`signature` in `thinking`"], NoSecrets),
    (&["`data` in `redacted_thinking`"], NoSecrets),
    (&["thinking", "blocks", "be modified"], NoSecrets),
    (&["bound to a different conversation"], NoSecrets),
    (&["invalid_encrypted_content"], NoSecrets),
    (&["encrypted content", "not be"], NoSecrets),
    (&["'rs_", "without its required following item"], NoSecrets),
    (&["item with id 'rs_", "not found"], NoSecrets),
    (&["thought signature", "not valid"], NoSecrets),
    (&["thought_signature", "invalid"], NoSecrets),
    // Thoughts that a service expects: QwenLM/qwen-code#3658, MoonshotAI/kimi-cli#2141.
    (&["reasoning_content", "missing"], Rule(Rule::Thoughts)),
    (&["reasoning_content", "must be passed back"], Rule(Rule::Thoughts)),
    // Models without sight: farion1231/cc-switch#3663, Gitlawb/openclaude#1071.
    (&["unknown variant `image_url`"], Texts),
    (&["messages.content.type", "['text']"], Texts),
    (&["not support image"], Texts),
    (&["support image input"], Texts),
    (&["required for image input"], Texts),
    (&["not support vision"], Texts),
    (&["image", "not supported by this model"], Texts),
    (&["image_url", "only supported by certain models"], Texts),
    (&["content type", "image_url"], Texts),
    (&["not a multimodal model"], Texts),
    (&["not a vlm"], Texts),
    (&["content must be a string"], Texts),
    (&["content", "invalid type: sequence, expected a string"], Texts),
    (&["content", "str type expected"], Texts),
    // A message of the model at the end: Kilo-Org/kilocode#8260, ggml-org/llama.cpp#20861.
    (&["assistant message prefill"], UserLast),
    (&["must end with a user message"], UserLast),
    (&["assistant response prefill"], UserLast),
    (&["assistant messages at the end"], UserLast),
    (&["last message", "must", "user"], UserLast),
    (&["expected last role user"], UserLast),
    // Thinking that cannot be switched off, or on: can1357/oh-my-pi#3852, ollama/ollama#11751.
    (&["only type=enabled is allowed"], AlwaysThinks),
    (&["thinking", "be disabled"], AlwaysThinks),
    (&["reasoning", "be disabled"], AlwaysThinks),
    (&["only works in thinking mode"], AlwaysThinks),
    (&["thinking.type.disabled"], AlwaysThinks),
    (&["not support thinking"], NoThinking),
    (&["thinking is not supported"], NoThinking),
    (&["thinking is not enabled"], NoThinking),
    (&["thinking level", "not supported"], NoThinking),
    (&["reasoning is not enabled"], NoThinking),
    (&["not support reasoning"], NoThinking),
    (&["reasoning is not supported"], NoThinking),
    // A forced tool: BerriAI/litellm#37470, QwenLM/qwen-code#7659, withceleste/celeste-python#393.
    (&["tool_choice", "thinking"], Rule(Rule::FreeChoice)),
    (&["tool_choice", "thinking"], FreeChoice),
    (&["tool choice", "thinking"], Rule(Rule::FreeChoice)),
    (&["tool choice", "thinking"], FreeChoice),
    (&["thinking", "forces tool use"], Rule(Rule::FreeChoice)),
    (&["thinking", "forces tool use"], FreeChoice),
    (&["tool_choice", "not support"], FreeChoice),
    (&["tool_choice", "unsupported"], FreeChoice),
    (&["tool_choice", "must be", "auto"], FreeChoice),
    // Instructions: ai-dynamo/dynamo#10206, ggml-org/llama.cpp#20733, QuantumNous/new-api#5330.
    (&["system message must be", "beginning"], Rule(Rule::OneSystem)),
    (&["system", "only", "first message"], Rule(Rule::OneSystem)),
    (&["chat setting"], Rule(Rule::OneSystem)),
    (&["system", "role", "not supported"], NoSystem),
    (&["only user and assistant roles"], NoSystem),
    (&["developer instruction is not enabled"], NoSystem),
    (&["'developer'", "role"], Rule(Rule::Developer)),
    (&["`developer`"], Rule(Rule::Developer)),
    (&["unexpected message role"], Rule(Rule::Developer)),
    (&["roles must alternate"], Alternating),
    (&["roles should be alternating"], Alternating),
    (&["after role 'tool'"], Rule(Rule::Order)),
    // Calls and contents: anomalyco/opencode#1680.
    (
        &["tool call id", "length of 9"],
        Rule(Rule::CallIds { limit: TextLimit::most(9, Letters::Plain).exactly(), is_unique: false }),
    ),
    (&["tool_calls", "empty array"], Rule(Rule::Calls)),
    (&["tool_calls", "too short"], Rule(Rule::Calls)),
    (&["content", "got null"], Rule(Rule::Content)),
    // Formats: googleapis/python-genai#867, UKGovernmentBEIS/inspect_ai#4916.
    (&["response mime type"], Rule(Rule::FormatWithoutTools)),
    (&["json mode cannot be combined"], Rule(Rule::FormatWithoutTools)),
    (&["response_format type is unavailable"], Rule(Rule::NoSchema)),
    (&["json_schema", "not support"], Rule(Rule::NoSchema)),
    (&["structured output", "not support"], Rule(Rule::NoSchema)),
    (&["output_config.format"], Rule(Rule::NoSchema)),
    (&["output format", "not support"], Rule(Rule::NoSchema)),
    (&["must contain the word", "json"], Rule(Rule::JsonWord)),
    (&["schema for response_format"], Rule(Rule::StrictFormat)),
    // Schemas of tools: MoonshotAI/kimi-code#2661, QwenLM/qwen-code#11834.
    (&["moonshot flavored"], Rule(Rule::BranchTypes)),
    (&["parameters is empty"], Rule(Rule::Parameters)),
    (&["array schema missing items"], Rule(Rule::Items("{}"))),
    (&["at the top level", "oneof"], Rule(Rule::Alternatives)),
    (&["tools", "names must be unique"], Rule(Rule::UniqueTools)),
    (&["duplicate function declaration"], Rule(Rule::UniqueTools)),
    (&["must be less than or equal to 1", "`temperature`"], Rule(Rule::Foreign(&["temperature"]))),
    // Names of fields.
    (&["use 'max_completion_tokens' instead"], Rule(Rule::Rename("max_tokens", "max_completion_tokens"))),
    (&["max_completion_tokens", "unsupported"], Rule(Rule::Rename("max_completion_tokens", "max_tokens"))),
    (&["max_completion_tokens", "not permitted"], Rule(Rule::Rename("max_completion_tokens", "max_tokens"))),
    (&["max_completion_tokens", "unknown"], Rule(Rule::Rename("max_completion_tokens", "max_tokens"))),
    (&["max_completion_tokens", "unrecognized"], Rule(Rule::Rename("max_completion_tokens", "max_tokens"))),
];

/// Returns the changes after which a service may accept a request that it refused, and the changed request; `None` if the
/// refusal does not tell.
pub fn learn(
    kind: ServiceKind,
    status: u16,
    refusal: &Json,
    request: &Json,
) -> Option<(Vec<Correction>, Adaptation)> {
    let is_known = !matches!(ErrorCode::of_service(status, refusal), None | Some(ErrorCode::ContextLength));
    if !matches!(status, 400 | 404 | 413 | 422) || is_known {
        return None;
    }
    let message = message_of(refusal)?;
    if let Some((limit, is_fixed)) = output_limit::limit_in(&message, output_limit::asked(kind, request)) {
        return tried(kind, request, vec![Tokens(limit, is_fixed)]);
    }
    let code = refusal.field("error").text_or_empty("code");
    let text = format!("{message} {code}").to_lowercase();
    let rows = REFUSALS.iter().filter(|(words, _)| words.iter().all(|word| text.contains(word)));
    let of_rows = rows.map(|(_, change)| vec![change.clone()]);
    let param = param_of(refusal);
    let of_names = std::iter::once_with(|| named(&message, &param, request));
    of_rows.chain(of_names).find_map(|changes| tried(kind, request, changes))
}

/// Returns the path of the field that a refusal is about, as OpenAI and validators give it.
fn param_of(refusal: &Json) -> String {
    let lists = [refusal.field("detail"), refusal.at_path("message.detail")];
    let place = lists.iter().find_map(|list| list.at(0)?.given("loc"));
    let place = place
        .map(|place| place.items().iter().map(|step| step.str_or_empty().to_owned()).collect::<Vec<_>>());
    place.map_or_else(|| refusal.at_path("error.param").str_or_empty().to_owned(), |place| place.join("."))
}

/// Returns the changes with the changed request; `None` if they change nothing.
fn tried(kind: ServiceKind, request: &Json, changes: Vec<Change>) -> Option<(Vec<Correction>, Adaptation)> {
    let changes: Vec<Correction> = changes.into_iter().map(Correction).collect();
    let changed = correct(kind, request, &changes).ok()??;
    Some((changes, changed))
}

/// Applies the changes that a service demanded earlier. Returns `None` if they change nothing.
///
/// # Errors
/// Returns a request error if a rule of the table cannot repair the request.
pub fn correct(
    kind: ServiceKind,
    request: &Json,
    corrections: &[Correction],
) -> Result<Option<Adaptation>, Error> {
    let Json::Object(body) = request else { return Ok(None) };
    let mut draft = Draft::new(body);
    for correction in corrections {
        correction.0.apply(&mut draft, kind)?;
    }
    Ok(draft.finish().map(|(body, fields, _)| Adaptation { body, fields, names: Names::new(HashMap::new()) }))
}

impl Correction {
    /// Returns `true` for a change of all requests for a model, not of one conversation.
    pub fn is_lasting(&self) -> bool {
        !matches!(self.0, NoSecrets | Tokens(_, false))
    }
}

/// Returns the changes for the names in a refusal: of levels of thinking, betas, and fields of the request.
fn named(message: &str, param: &str, request: &Json) -> Vec<Change> {
    let lower = message.to_lowercase();
    if lower.contains("anthropic-beta") {
        return names_in::words(message)
            .into_iter()
            .filter(|word| word.contains("-20"))
            .map(|word| Beta(word.into()))
            .collect();
    }
    let asked = asked_effort(request).map_or("", |effort| effort.name);
    if names_in::words(&lower).contains(&asked)
        || ["effort", "level", "reasoning"].iter().any(|word| lower.contains(word) || param.contains(word))
    {
        let levels = levels_in(&lower);
        if !levels.is_empty() {
            return vec![Levels(levels)];
        }
    }
    names_in::fields(message, param, request)
        .into_iter()
        .map(|field| match field {
            names_in::Field::Outer(name) if names_in::THINKING.contains(&&*name) => NoThinking,
            names_in::Field::Outer(name) => Field(name),
            names_in::Field::Inner(list, name) => Inner(list, name),
        })
        .collect()
}

/// Returns the levels of thinking that a refusal offers, the least first.
fn levels_in(refusal: &str) -> Vec<&'static str> {
    const OFFERS: [&str; 7] = [
        "supported values",
        "supported levels",
        "one of",
        "must be",
        "should be",
        "valid values",
        "allowed values",
    ];
    let Some(at) = OFFERS.iter().filter_map(|words| refusal.find(words)).min() else { return Vec::new() };
    let words = names_in::words(&refusal[at..]);
    let names = EFFORTS.iter().map(|effort| effort.name).chain(["default"]);
    names.filter(|name| words.contains(name)).collect()
}

impl Change {
    fn apply(&self, draft: &mut Draft, kind: ServiceKind) -> Result<(), Error> {
        match self {
            Self::Rule(rule) => return rule.apply(draft, kind),
            Tokens(limit, _) => output_limit::lower(draft, kind, *limit),
            Field(name) => fields::remove_everywhere(draft, name),
            Inner(list, name) => fields::remove_within(draft, list, name),
            Beta(word) => fields::refuse_beta(draft, word),
            Levels(known) => {
                let asked = fields::asked(draft);
                if let Some(level) = asked.and_then(|effort| nearest(known, effort)) {
                    fields::set_level(draft, level);
                }
            }
            NoThinking => fields::drop_thinking(draft),
            AlwaysThinks => fields::let_think(draft),
            FreeChoice => fields::free_choice(draft),
            Texts => pictures::write_texts(draft),
            UserLast => turns::end_with_user(draft),
            Alternating => turns::alternate(draft),
            NoSystem => turns::give_instructions_to_user(draft),
            NoSecrets => history::drop_secrets(draft),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"model":"m","max_tokens":64000,"temperature":0.2,"reasoning_effort":"xhigh","tool_choice":"required",
        "response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}},"tools":[{"type":"function","function":{"name":"f"}}],
        "anthropic":{"thinking":{"type":"adaptive"},"context_management":{"edits":[]}},
        "messages":[{"role":"system","content":"s"},{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"q"},{"type":"image_url","image_url":{"url":"u"}}]},
        {"role":"assistant","content":"a","reasoning_content":"r","content_blocks":[{"type":"thinking","signature":"s"}]},{"role":"assistant","content":"b"}]}"#;

    fn changed(status: u16, message: &str) -> Option<String> {
        let request = Json::parse(BODY.as_bytes()).unwrap();
        let refusal = Json::from([("error", Json::from([("message", message.into())]))]);
        let before = request.to_string();
        let (changes, changed) = learn(ServiceKind::Compatible, status, &refusal, &request)?;
        assert_eq!(request.to_string(), before, "{message}: the original was changed");
        assert!(!changes.is_empty() && !changed.fields.is_empty(), "{message}");
        let again = learn(ServiceKind::Compatible, status, &refusal, &changed.body);
        assert!(again.is_none_or(|(more, _)| more != changes), "{message}: changed twice");
        Some(changed.body.to_string())
    }

    #[test]
    fn refusals_of_services_tell_what_to_change() {
        for (message, gone, new) in [
            (
                "messages.1.content.0: Invalid `signature` in `thinking` block",
                r#""signature""#,
                r#""content_blocks":[{"type":"thinking"}]"#,
            ),
            (
                "The encrypted content for item rs_1 could not be verified.",
                r#""signature""#,
                "content_blocks",
            ),
            (
                "messages[0]: unknown variant `image_url`, expected `text` at line 1",
                "image_url",
                "An image is missing here",
            ),
            ("messages[2].content must be a string", "image_url", r#""content":"q\n\n["#),
            (
                "This model does not support assistant message prefill. The conversation must end with a user message.",
                "",
                "Continue.",
            ),
            ("\"m\" does not support thinking", "xhigh", "messages"),
            (
                "tool_choice 'specified' is incompatible with thinking enabled",
                "xhigh",
                r#""reasoning_effort":"none""#,
            ),
            ("System message must be at the beginning.", "developer", r#""content":"s\n\nd""#),
            (
                "Conversation roles must alternate user/assistant/user/assistant/...",
                r#""b""#,
                r#""content":"a\n\nb""#,
            ),
            ("This response_format type is unavailable now", "json_schema\"", "json_object"),
            (
                "Unsupported value: 'xhigh' is not supported. Supported values are: 'low', 'medium', and 'high'.",
                "xhigh",
                r#""reasoning_effort":"high""#,
            ),
            ("`reasoning_effort` must be one of `none` or `default`", "xhigh", "messages"),
            ("`temperature` is deprecated for this model.", "temperature", "messages"),
            ("context_management: Extra inputs are not permitted", "context_management", "anthropic"),
            (
                "Unexpected value(s) `context-management-2025-06-27` for the `anthropic-beta` header",
                "",
                r#""refused_betas":["context-management-2025-06-27"]"#,
            ),
            (
                "'messages.3' : for 'role:assistant' the following must be satisfied[('messages.3.reasoning_content' : property 'messages.3.reasoning_content' is unsupported)]",
                "reasoning_content",
                "messages",
            ),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                r#""max_tokens""#,
                r#""max_completion_tokens":64000"#,
            ),
            (
                "max_tokens is too large: 64000. This model supports at most 16384 completion tokens",
                "64000",
                r#""max_tokens":16384"#,
            ),
        ] {
            let sent = changed(400, message).unwrap_or_else(|| panic!("{message}"));
            assert!(gone.is_empty() || !sent.contains(gone), "{message}: {sent}");
            assert!(sent.contains(new), "{message}: {sent}");
        }
    }

    #[test]
    fn a_validator_gives_the_place_of_a_field() {
        let refusal = br#"{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted"}]}"#;
        let request = Json::parse(br#"{"model":"m","seed":1}"#).unwrap();
        let (_, changed) =
            learn(ServiceKind::Compatible, 422, &Json::parse(refusal).unwrap(), &request).unwrap();
        assert_eq!(changed.body.to_string(), r#"{"model":"m"}"#);
    }

    #[test]
    fn a_model_that_always_thinks_is_not_told_to_stop() {
        let refusal = Json::parse(
            br#"{"error":{"message":"invalid thinking: only type=enabled is allowed for this model"}}"#,
        );
        for (request, sent) in [
            (r#"{"model":"m","reasoning_effort":"none"}"#, r#"{"model":"m"}"#),
            (
                r#"{"model":"m","anthropic":{"thinking":{"type":"disabled"}}}"#,
                r#"{"model":"m","anthropic":{}}"#,
            ),
        ] {
            let request = Json::parse(request.as_bytes()).unwrap();
            let (_, changed) =
                learn(ServiceKind::Moonshot, 400, refusal.as_ref().unwrap(), &request).unwrap();
            assert_eq!(changed.body.to_string(), sent);
        }
    }

    #[test]
    fn other_refusals_change_nothing() {
        for (status, message) in [
            (400, "The conversation was flagged"),
            (400, "temperature must be a number"),
            (
                400,
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            ),
            (400, "Unsupported parameter: 'messages'"),
            (401, "Unsupported parameter: 'temperature'"),
            (429, "Unsupported parameter: 'temperature'"),
            (500, "Unsupported parameter: 'temperature'"),
        ] {
            assert_eq!(changed(status, message), None, "{message}");
        }
    }
}
