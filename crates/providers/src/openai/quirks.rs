//! The table of what services with OpenAI's chat API expect beyond it.

use compact_str::CompactString;
use valvehouse_core::chat::message;
use valvehouse_json::{Json, Object};

/// The quirks of a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Quirks {
    kinds: &'static [&'static str],
    /// The ends of the hosts of its addresses, for providers of the kind `openai`.
    hosts: &'static [&'static str],
    /// The field with its value, as JSON, that switches thinking off instead of `reasoning_effort: "none"`.
    off: Option<(&'static str, &'static str)>,
    /// Set if the service expects its thinking or signatures back with calls. Its answers are always parsed.
    pub(super) expects_extras: bool,
}

const DISABLED: Option<(&str, &str)> = Some(("thinking", r#"{"type":"disabled"}"#));

/// The first matching row applies. Sources: "Thought signatures" of Gemini's documentation; "Thinking mode" of
/// DeepSeek's, Moonshot's and Zhipu's; "Deep thinking" of Volcengine's, DashScope's and SiliconFlow's; "Reasoning
/// outputs" of vLLM's.
static SERVICES: [Quirks; 6] = [
    Quirks { kinds: &["gemini"], hosts: &["googleapis.com"], off: None, expects_extras: true },
    Quirks {
        kinds: &["deepseek", "moonshot", "zhipu", "zai"],
        hosts: &["deepseek.com", "moonshot.ai", "moonshot.cn", "bigmodel.cn", "z.ai"],
        off: DISABLED,
        expects_extras: true,
    },
    Quirks {
        kinds: &["minimax", "openrouter"],
        hosts: &["minimax.io", "minimaxi.com", "openrouter.ai"],
        off: None,
        expects_extras: true,
    },
    Quirks { kinds: &["volcengine"], hosts: &["volces.com"], off: DISABLED, expects_extras: false },
    Quirks {
        kinds: &["dashscope", "siliconflow"],
        hosts: &["aliyuncs.com", "siliconflow.cn"],
        off: Some(("enable_thinking", "false")),
        expects_extras: false,
    },
    Quirks {
        kinds: &["vllm"],
        hosts: &[],
        off: Some(("chat_template_kwargs", r#"{"enable_thinking":false}"#)),
        expects_extras: false,
    },
];

/// A service without quirks.
static NONE: Quirks = Quirks { kinds: &[], hosts: &[], off: None, expects_extras: false };

/// Gemini's value for a signature that was lost. Source: "Thought signatures" of its documentation.
const LOST_SIGNATURE: &str = "skip_thought_signature_validator";

impl Quirks {
    /// Returns the quirks of a kind of provider, or of the host of its address.
    pub(super) fn of(kind: &str, host: &str) -> &'static Self {
        let is_host =
            |end: &&str| host.strip_suffix(*end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let of_kind = SERVICES.iter().find(|row| row.kinds.contains(&kind));
        let of_host = || SERVICES.iter().find(|row| row.hosts.iter().any(&is_host));
        of_kind.or_else(of_host).unwrap_or(&NONE)
    }

    /// Returns `true` if a body may have to be changed.
    pub(super) fn may_switch_off(&self) -> bool {
        self.off.is_some()
    }

    /// Replaces `reasoning_effort: "none"` in the fields of a request by the service's own field.
    pub(super) fn switch_off(&self, fields: &mut Vec<(CompactString, Json)>) {
        let Some((field, value)) = self.off else { return };
        let is_none = |(key, value): &(CompactString, Json)| {
            key == "reasoning_effort" && value.as_str() == Some("none")
        };
        let Some(at) = fields.iter().position(is_none) else { return };
        fields.remove(at);
        let Ok(value) = Json::parse(value.as_bytes()) else { return };
        match fields.iter_mut().find(|(key, _)| key == field) {
            Some((_, own @ Json::Object(_))) => {
                let new = value.entries();
                let others =
                    own.entries().into_iter().filter(|(key, _)| new.iter().all(|(own, _)| own != key));
                *own = others.chain(new.iter().cloned()).collect::<Object>().into();
            }
            Some((_, own)) => *own = value,
            None => fields.push((field.into(), value)),
        }
    }
}

/// Returns `true` if a model refuses calls of the current turn without their signatures.
fn requires_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let version = name.strip_prefix("gemini-").and_then(|rest| rest.chars().next()?.to_digit(10));
    version.is_some_and(|version| version >= 3)
}

/// Marks the lost signatures of calls since the user's last message, which newer Gemini models refuse to miss.
/// Returns `None` if none was lost.
pub(super) fn with_lost_signatures(model: &str, messages: &[Json]) -> Option<Vec<Json>> {
    if !requires_signatures(model) {
        return None;
    }
    let question = messages.iter().rposition(|message| message::role_of(message) == "user").unwrap_or(0);
    let lost = |message: &Json| {
        let first = message.list("tool_calls").into_iter().next()?;
        let signature = first.at_path("extra_content.google.thought_signature");
        signature.is_empty().then_some(first)
    };
    let mut any = false;
    let marked = messages.iter().enumerate().map(|(at, message)| match lost(message) {
        Some(first) if at > question => {
            any = true;
            let google = Json::from([("thought_signature", LOST_SIGNATURE.into())]);
            let own = first.entries().into_iter().filter(|(key, _)| key != "extra_content");
            let own = own.chain([("extra_content".into(), Json::from([("google", google)]))]);
            let mut calls = message.list("tool_calls");
            calls[0] = own.collect::<Object>().into();
            let fields = message.entries().into_iter().map(|(key, value)| match key == "tool_calls" {
                true => (key, calls.clone().into()),
                false => (key, value),
            });
            fields.collect::<Object>().into()
        }
        _ => message.clone(),
    });
    let marked: Vec<Json> = marked.collect();
    any.then_some(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_decides_how_thinking_is_switched_off() {
        for (kind, host, sent) in [
            ("openai", "api.openai.com", r#"{"reasoning_effort":"none","x":1}"#),
            ("deepseek", "127.0.0.1", r#"{"x":1,"thinking":{"type":"disabled"}}"#),
            ("openai", "api.moonshot.cn", r#"{"x":1,"thinking":{"type":"disabled"}}"#),
            ("openai", "evilmoonshot.cn", r#"{"reasoning_effort":"none","x":1}"#),
            ("vllm", "", r#"{"x":1,"chat_template_kwargs":{"enable_thinking":false}}"#),
        ] {
            let mut fields = Json::parse(br#"{"reasoning_effort":"none","x":1}"#).unwrap().entries();
            Quirks::of(kind, host).switch_off(&mut fields);
            assert_eq!(Json::from(fields.into_iter().collect::<Object>()).to_string(), sent, "{kind} {host}");
        }
    }

    #[test]
    fn only_the_lost_signatures_of_the_current_turn_are_marked() {
        let call = r#"{"role":"assistant","tool_calls":[{"id":"a"},{"id":"b"}]}"#;
        let signed = r#"{"role":"assistant","tool_calls":[{"id":"c","extra_content":{"google":{"thought_signature":"s"}}}]}"#;
        let talk = format!(r#"[{{"role":"user"}},{call},{{"role":"user"}},{call},{signed}]"#);
        let messages = Json::parse(talk.as_bytes()).unwrap().items();
        assert_eq!(with_lost_signatures("gemini-2.5-flash", &messages), None);
        let marked = with_lost_signatures("models/gemini-3-pro", &messages).unwrap();
        let count = |message: &Json| message.to_string().matches(LOST_SIGNATURE).count();
        assert_eq!(marked.iter().map(count).collect::<Vec<_>>(), [0, 0, 0, 1, 0]);
        assert_eq!(with_lost_signatures("gemini-3-pro", &messages[4..]), None);
    }
}
