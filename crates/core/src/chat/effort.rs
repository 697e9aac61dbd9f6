//! The levels of thinking: one table for all protocols and directions.

use valvehouse_json::Json;

/// A level of thinking, as each protocol names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// The name in a chat request, its `reasoning_effort`.
    pub name: &'static str,
    /// The nearest level of OpenAI's protocols, which end at `xhigh`.
    pub openai: &'static str,
    /// The nearest level of Anthropic's `output_config.effort`; "" for no thinking.
    pub anthropic: &'static str,
    /// The nearest level of Ollama's `think`; "" for `false`.
    pub ollama: &'static str,
    /// The thinking budget in tokens, for models with a budget instead of levels.
    pub budget: i64,
}

const fn level(
    name: &'static str,
    openai: &'static str,
    anthropic: &'static str,
    ollama: &'static str,
    budget: i64,
) -> Effort {
    Effort { name, openai, anthropic, ollama, budget }
}

/// All levels, the least first. Sources: `reasoning_effort` in OpenAI's API reference, "Effort" and "Extended
/// thinking" (the least budget is 1,024 tokens) in Anthropic's, "Thinking" in Ollama's.
pub const EFFORTS: [Effort; 7] = [
    level("none", "none", "", "", 0),
    level("minimal", "minimal", "low", "low", 1024),
    level("low", "low", "low", "low", 2048),
    level("medium", "medium", "medium", "medium", 8192),
    level("high", "high", "high", "high", 16_384),
    level("xhigh", "xhigh", "xhigh", "high", 24_576),
    level("max", "high", "max", "max", 24_576),
];

/// The level of a client that asks for thinking without a level.
pub const DEFAULT_EFFORT: &str = "medium";

impl Effort {
    /// Returns the level with this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        EFFORTS.iter().find(|effort| effort.name == name)
    }

    /// Returns the level of a thinking budget in tokens: `low`, `medium` or `high`, which all services know.
    pub fn of_budget(tokens: i64) -> &'static Self {
        let known = &EFFORTS[2..5];
        known.iter().rfind(|effort| effort.budget <= tokens).unwrap_or(&known[0])
    }
}

/// Returns the level of a `thinking` in Anthropic's format, which clients of chats send too; `None` for another value.
pub fn effort_of_thinking(thinking: &Json) -> Option<&'static Effort> {
    match &*thinking.text("type")? {
        "disabled" => Effort::of("none"),
        "enabled" => Some(Effort::of_budget(thinking.field("budget_tokens").as_i64().unwrap_or(0))),
        // Without a level, Anthropic's models think as with `high`.
        "adaptive" => Effort::of("high"),
        _ => None,
    }
}

/// The levels that the models of OpenAI's protocols know.
struct ModelRow {
    /// The beginnings of the models' names, without the name of their maker.
    names: &'static [&'static str],
    /// The levels, the least first, which stands for no thinking; empty for a model that knows none.
    levels: &'static [&'static str],
}

const fn row(names: &'static [&'static str], levels: &'static [&'static str]) -> ModelRow {
    ModelRow { names, levels }
}

/// The first row with a matching name applies; models without one know every level. Sources: the model pages and
/// "Reasoning models" of OpenAI's documentation; "OpenAI compatibility" of Gemini's, where some models always think;
/// "Reasoning" of Groq's, Mistral's and xAI's; "Thinking mode" of Moonshot's and Zhipu's; pi#1745, openai-node#1745,
/// router-for-me/CLIProxyAPI#2185, anomalyco/opencode#26268, raine/claude-code-proxy#28.
const MODELS: &[ModelRow] = &[
    row(&["grok-3-mini"], &["low", "high"]),
    row(&["grok-4.3"], &["low", "medium", "high"]),
    row(
        &[
            "gpt-3",
            "gpt-4",
            "gpt-5-chat",
            "chatgpt",
            "o1-mini",
            "o1-preview",
            "davinci",
            "grok",
            "gemini-1",
            "gemini-2.0",
            "llama",
            "gemma-2",
            "gemma-3",
            "gemma2",
            "gemma3",
            "mixtral",
            "mistral-large",
            "codestral",
            "devstral",
            "magistral",
            "ministral",
            "pixtral",
            "open-mi",
            "kimi-k2-instruct",
            "kimi-k2-0",
            "kimi-k2.7",
            "moonshot-v",
        ],
        &[],
    ),
    row(&["mistral-small", "mistral-medium"], &["none", "high"]),
    row(&["gpt-5.1-chat", "gpt-5.2-chat", "gpt-5.3-chat"], &["medium"]),
    row(&["gpt-5-pro"], &["high"]),
    row(&["gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro"], &["medium", "high", "xhigh"]),
    row(&["gpt-5.1-codex-max"], &["low", "medium", "high", "xhigh"]),
    row(&["gpt-5.1-codex"], &["low", "medium", "high"]),
    row(&["gpt-5.1"], &["none", "low", "medium", "high"]),
    row(&["gpt-5.2", "gpt-5.3", "gpt-5.4", "gpt-5.5"], &["none", "low", "medium", "high", "xhigh"]),
    row(&["gpt-5."], &["none", "low", "medium", "high", "xhigh", "max"]),
    row(&["gpt-5-codex", "gpt-oss", "o1", "o3", "o4"], &["low", "medium", "high"]),
    row(&["gpt-5"], &["minimal", "low", "medium", "high"]),
    row(&["gemini-3", "gemini-2.5-pro"], &["low", "medium", "high"]),
    row(&["gemini-2.5"], &["none", "low", "medium", "high"]),
    row(&["kimi-k3", "glm-5.3"], &["low", "medium", "high"]),
];

/// Returns the levels of thinking of a model of OpenAI's protocols; `None` if they are not known.
pub(crate) fn levels(model: &str) -> Option<&'static [&'static str]> {
    MODELS.iter().find(|row| begins_with(model, row.names)).map(|row| row.levels)
}

/// Returns `true` for a model of OpenAI's protocols that knows no levels of thinking.
pub fn has_no_levels(model: &str) -> bool {
    levels(model).is_some_and(<[_]>::is_empty)
}

/// Returns the level to send to a model of OpenAI's protocols for one of a request: the least one for `none`; `None` if
/// the model knows no levels.
pub fn level_for(model: &str, effort: &Effort) -> Option<&'static str> {
    match levels(model) {
        Some(known) => nearest(known, effort),
        None => Some(effort.openai),
    }
}

/// Returns `true` for a model of Moonshot or Zhipu that always thinks. Source: MoonshotAI/Kimi-K2#141.
pub fn cannot_stop_thinking(model: &str) -> bool {
    begins_with(model, &["kimi-k2.7", "kimi-k2-thinking", "kimi-k3", "glm-5.3"])
}

/// Returns the level nearest to one among those that are known, the least first: a lower one that thinks, or else the
/// next one.
pub fn nearest<'a>(known: &[&'a str], effort: &Effort) -> Option<&'a str> {
    let rank = |name: &str| EFFORTS.iter().position(|own| own.name == name).unwrap_or(usize::MAX);
    let thinks = |name: &&&str| **name != "none" && effort.name != "none";
    let fits = |name: &&&str| rank(name) <= rank(effort.name);
    let lower = known.iter().filter(thinks).rfind(fits);
    lower.or_else(|| known.iter().find(thinks)).or_else(|| known.first()).copied()
}

/// Returns `true` if the name of a model, without that of its maker, begins with one of these in any case.
fn begins_with(model: &str, beginnings: &[&str]) -> bool {
    let name = &model.as_bytes()[memchr::memrchr(b'/', model.as_bytes()).map_or(0, |slash| slash + 1)..];
    let is_it =
        |own: &str| name.get(..own.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(own.as_bytes()));
    beginnings.iter().any(|own| is_it(own))
}

/// The beginnings of the names of OpenAI's models that think. Source: "Reasoning models" of its documentation.
const THINKING: [&str; 5] = ["o1", "o3", "o4", "gpt-5", "gpt-6"];
/// Those among them that can also answer without thinking.
const MIXED: [&str; 5] = ["gpt-5-chat", "gpt-5.1", "gpt-5.2", "gpt-5.3", "gpt-5.4"];

/// Returns `true` for a model of OpenAI that thinks: it knows no `max_tokens`.
pub fn is_thinking(model: &str) -> bool {
    begins_with(model, &THINKING)
}

/// Returns `true` for a model of OpenAI that always thinks: it knows no `temperature` and the like.
pub fn always_thinks(model: &str) -> bool {
    is_thinking(model) && !begins_with(model, &MIXED)
}

/// Returns `true` for a model of OpenAI that does not think over chat completions if a request has tools.
pub fn thinks_without_tools(model: &str) -> bool {
    begins_with(model, &["gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-5.7", "gpt-6"])
}

/// The models of Moonshot that accept no other choice of tokens than their own.
const FIXED: [&str; 4] = ["kimi-k2.5", "kimi-k2.6", "kimi-k2.7", "kimi-k3"];

/// Returns `true` for a model that knows no `temperature` and the like.
pub fn has_fixed_sampling(model: &str) -> bool {
    always_thinks(model) || begins_with(model, &FIXED)
}

/// Returns the family, such as `sonnet`, and the version of a model of Anthropic, under the names of any service.
pub fn claude(model: &str) -> Option<(&str, (u32, u32))> {
    let words: Vec<&str> = model[model.find("claude-")?..].split(['-', '@', ':', '.']).skip(1).collect();
    let family = words.iter().find(|word| !word.starts_with(|letter: char| letter.is_ascii_digit()))?;
    // A date is not a version.
    let mut numbers = words.iter().filter(|word| word.len() < 3).map_while(|word| word.parse().ok());
    Some((family, (numbers.next()?, numbers.next().unwrap_or(0))))
}

/// A field that models refuse: the beginnings of their names, and those of models among them that take it.
type RefusedField = (&'static str, &'static [&'static str], &'static [&'static str]);
/// The fields that models of OpenAI and xAI refuse. Sources: "Reasoning models" of their documentation;
/// BerriAI/litellm#15244, BerriAI/litellm#28650, BerriAI/litellm#14565, UKGovernmentBEIS/inspect_ai#1025, tensorzero/tensorzero#2805.
const REFUSED: [RefusedField; 2] = [
    (
        "stop",
        &["o3", "o4-mini", "gpt-5", "grok-3-mini", "grok-4", "grok-5", "grok-code"],
        &["gpt-5-chat", "gpt-5.5", "gpt-5.6", "gpt-5.7", "gpt-5.8", "gpt-5.9"],
    ),
    ("parallel_tool_calls", &["o1", "o3", "o4-mini"], &[]),
];

/// Returns `true` for a model of OpenAI or xAI that refuses a field which other models there take.
pub fn refuses(model: &str, field: &str) -> bool {
    REFUSED.iter().any(|(own, models, except)| {
        *own == field && begins_with(model, models) && !begins_with(model, except)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_maps_to_the_level_below_it() {
        for (tokens, name) in
            [(0, "low"), (1024, "low"), (4000, "low"), (8192, "medium"), (10_000, "medium"), (31_999, "high")]
        {
            assert_eq!(Effort::of_budget(tokens).name, name, "{tokens}");
        }
        for effort in &EFFORTS[2..5] {
            assert_eq!(Effort::of_budget(effort.budget), effort);
        }
    }

    #[test]
    fn versions_of_claude_are_read_from_all_names() {
        for (model, known) in [
            ("claude-sonnet-4-5-20250929", Some(("sonnet", (4, 5)))),
            ("us.anthropic.claude-opus-4-1-20250805-v1:0", Some(("opus", (4, 1)))),
            ("claude-3-5-sonnet-latest", Some(("sonnet", (3, 5)))),
            ("anthropic/claude-opus-4.7", Some(("opus", (4, 7)))),
            ("claude-opus-4-20250514", Some(("opus", (4, 0)))),
            ("claude-sonnet-5", Some(("sonnet", (5, 0)))),
            ("gpt-5", None),
        ] {
            assert_eq!(claude(model), known, "{model}");
        }
    }

    #[test]
    fn each_model_gets_the_nearest_level_that_it_knows() {
        let of = |model: &str, level: &str| level_for(model, Effort::of(level).unwrap());
        for (model, none, minimal, high, xhigh, max) in [
            ("gpt-5.1", "none", "low", "high", "high", "high"),
            ("gpt-5.4", "none", "low", "high", "xhigh", "xhigh"),
            ("gpt-5.6-terra", "none", "low", "high", "xhigh", "max"),
            ("gpt-5-mini", "minimal", "minimal", "high", "high", "high"),
            ("openai/o3", "low", "low", "high", "high", "high"),
            ("gpt-5-pro", "high", "high", "high", "high", "high"),
            ("grok-3-mini", "low", "low", "high", "high", "high"),
            ("kimi-k3", "low", "low", "high", "high", "high"),
            ("qwen3", "none", "minimal", "high", "xhigh", "high"),
        ] {
            let sent = ["none", "minimal", "high", "xhigh", "max"].map(|level| of(model, level).unwrap());
            assert_eq!(sent, [none, minimal, high, xhigh, max], "{model}");
        }
        for model in ["gpt-4.1", "openai/gpt-4o", "grok-4-fast", "meta-llama/llama-4-scout", "kimi-k2.7-code"]
        {
            assert_eq!((of(model, "high"), has_no_levels(model)), (None, true), "{model}");
        }
        assert!(!has_no_levels("kimi-k2.6"));
    }

    #[test]
    fn models_think_by_their_names() {
        for (model, thinks, always) in [
            ("gpt-4o", false, false),
            ("openai/o3-mini", true, true),
            ("gpt-5-mini", true, true),
            ("gpt-5-chat-latest", true, false),
            ("gpt-5.2", true, false),
            ("gpt-5.5", true, true),
        ] {
            assert_eq!((is_thinking(model), always_thinks(model)), (thinks, always), "{model}");
        }
    }

    #[test]
    fn models_refuse_fields_by_their_names() {
        for (model, stop, parallel) in [
            ("gpt-4.1", false, false),
            ("o1", false, true),
            ("openai/o3-mini", true, true),
            ("o4-mini-2025-04-16", true, true),
            ("gpt-5", true, false),
            ("gpt-5-chat-latest", false, false),
            ("gpt-5.4-mini", true, false),
            ("gpt-5.5", false, false),
            ("gpt-6", false, false),
            ("grok-3", false, false),
            ("x-ai/grok-4-fast", true, false),
            ("grok-code-fast-1", true, false),
        ] {
            let refused = (refuses(model, "stop"), refuses(model, "parallel_tool_calls"));
            assert_eq!(refused, (stop, parallel), "{model}");
        }
        assert!(!refuses("o3", "seed"));
    }
}
