//! The table: rules, the services that have them, and their sources.

use super::kind::ServiceKind::{self, *};
use super::limit::{Letters, TextLimit};
use super::rule::Rule;
use std::fmt::Write;
use std::sync::LazyLock;
use valvehouse_core::chat::{MessageTraits, Outline};
use valvehouse_json::KeyFilter;

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    pub(super) rule: Rule,
    pub(super) services: &'static [ServiceKind],
    source: &'static str,
}

const fn row(rule: Rule, services: &'static [ServiceKind], source: &'static str) -> Row {
    Row { rule, services, source }
}

const WORD_64: TextLimit = TextLimit::most(64, Letters::Word);
const TEXT_64: TextLimit = TextLimit::most(64, Letters::Any);
const USER: TextLimit = TextLimit::most(256, Letters::Any).opaque();

/// The services with OpenAI's own implementation.
const OPENAI: &[ServiceKind] = &[OpenAi, Azure, Responses];
const MESSAGES: &[ServiceKind] = &[Anthropic, Bedrock];
/// The services that refuse what the first service with OpenAI's API refuses, as far as it is known.
const STRICT: &[ServiceKind] =
    &[OpenAi, Azure, Responses, Gemini, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai, Zhipu];
/// The same, and the services with the Messages API.
const KNOWN: &[ServiceKind] = &[
    OpenAi, Azure, Responses, Anthropic, Bedrock, Gemini, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai,
    Zhipu,
];
const CHAT: &[ServiceKind] = &[
    OpenAi, Azure, Gemini, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai, Zhipu, Vllm, Sglang, LlamaCpp,
    LmStudio, Compatible, Cerebras,
];
const EVERY: &[ServiceKind] = &[
    OpenAi, Azure, Responses, Anthropic, Bedrock, Gemini, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai,
    Zhipu, Ollama, Vllm, Sglang, LlamaCpp, LmStudio, Compatible, Cerebras,
];

/// All rows in the order in which they are applied: a later one finds what an earlier one left.
pub(super) const ROWS: &[Row] = &[
    row(
        Rule::Functions,
        &[Responses, Anthropic, Bedrock, Ollama],
        "OpenAI API reference, `functions`: deprecated in favor of `tools`; NousResearch/hermes-agent#21132",
    ),
    row(
        Rule::PairedResults,
        KNOWN,
        "openai-python `ChatCompletionToolMessageParam`: `tool_call_id` is required",
    ),
    row(
        Rule::Results,
        KNOWN,
        "OpenAI: `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'`; Anthropic: ``tool_use` ids were found without `tool_result` blocks immediately after`; Responses: `No tool output found for function call`",
    ),
    row(
        Rule::Pictures,
        EVERY,
        "Anthropic: `the image appears to be a image/jpeg image`; dust-tt/dust#26545, Portkey-AI/gateway#827 (PDF)",
    ),
    row(
        Rule::UserPictures,
        &[OpenAi, Azure, Responses, Anthropic, Bedrock, Mistral, Groq, Xai],
        "OpenAI: `Image URLs are only allowed for messages with role 'user'`; openai/openai-node#1030",
    ),
    row(Rule::ResultNames, &[Gemini], "Gemini: `Name cannot be empty`; NousResearch/hermes-agent#16478"),
    row(
        Rule::Images,
        EVERY,
        "openai-python `ImageURL`: `url` is required; only `ResponseInputImage` has `file_id`",
    ),
    row(
        Rule::TextResults,
        CHAT,
        "openai-python `ChatCompletionToolMessageParam.content`: texts only; `ImageURL.detail`: auto, low or high",
    ),
    row(
        Rule::Calls,
        CHAT,
        "OpenAI: `Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1`",
    ),
    row(
        Rule::CallFields(&["extra_content", "caller"]),
        &[Responses, Mistral, DeepSeek, Groq, Xai, Zhipu, Cerebras],
        "Mistral: `extra_forbidden … assistant, tool_calls, 0`; zeroclaw-labs/zeroclaw#3572",
    ),
    row(
        Rule::CallFields(&["caller"]),
        &[OpenAi, Azure, Gemini, Moonshot, OpenRouter, Vllm, Sglang, LlamaCpp, LmStudio, Compatible],
        "Anthropic API reference, `caller` of `tool_use`",
    ),
    row(
        Rule::CallFields(&["extra_content"]),
        MESSAGES,
        "Anthropic: `tool_use.extra_content: Extra inputs are not permitted`",
    ),
    row(
        Rule::Arguments,
        &[Mistral, DeepSeek, Moonshot, Zhipu, Vllm, Sglang, LlamaCpp, Compatible, Cerebras],
        "vLLM parses the arguments of earlier calls as JSON (`vllm/entrypoints/chat_utils.py`)",
    ),
    row(
        Rule::BlankTexts,
        MESSAGES,
        "LibreChat-AI/agents#124, home-assistant/core#175637, langchain-ai/langchain#35073",
    ),
    row(
        Rule::Turns,
        &[Moonshot, Xai, Mistral, Zhipu],
        "MoonshotAI/kimi-code#1985; AstrBotDevs/AstrBot#6447 (xAI)",
    ),
    row(
        Rule::NoEmptyTail,
        &[
            OpenAi, Azure, Gemini, DeepSeek, Groq, OpenRouter, Ollama, Vllm, Sglang, LlamaCpp, LmStudio,
            Compatible, Cerebras,
        ],
        "llama.cpp: `Assistant response prefill is incompatible with enable_thinking`; anomalyco/opencode#27920",
    ),
    row(
        Rule::NoPrefill,
        MESSAGES,
        "Anthropic: `This model does not support assistant message prefill`; anomalyco/opencode#13768",
    ),
    row(
        Rule::Developer,
        &[
            Gemini, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai, Zhipu, Vllm, Sglang, LlamaCpp,
            LmStudio, Compatible, Cerebras,
        ],
        "num-scope/pix#34 (DeepSeek), QuantumNous/new-api#5330",
    ),
    row(
        Rule::OneSystem,
        &[Ollama, Vllm, Sglang, LlamaCpp, LmStudio, Compatible, Cerebras],
        "Qwen's template: `System message must be at the beginning`; ai-dynamo/dynamo#10206, ggml-org/llama.cpp#20733",
    ),
    row(Rule::Order, &[Mistral], "mistral-common `_validate_message_order`; zed-industries/zed#31736"),
    row(Rule::Content, CHAT, "OpenAI: `Invalid value for 'content': expected a string, got null`"),
    row(
        Rule::MessageFields(&[
            "reasoning_content",
            "reasoning",
            "reasoning_details",
            "refusal",
            "annotations",
            "audio",
            "function_call",
            "metadata",
        ]),
        &[Mistral],
        "charmbracelet/crush#1590, BerriAI/litellm#30835, BerriAI/litellm#30882",
    ),
    row(
        Rule::MessageFields(&["reasoning_content", "reasoning_details"]),
        &[Groq, Cerebras],
        "QwenLM/qwen-code#11045 (Cerebras), agentjido/req_llm#772, tashfeenahmed/freellmapi#1070",
    ),
    row(
        Rule::Thoughts,
        &[DeepSeek, Moonshot],
        "Moonshot: `thinking is enabled but reasoning_content is missing in assistant tool call message`; QuantumNous/new-api#3121",
    ),
    row(Rule::Prefill("prefix"), &[Mistral], "huggingface/smolagents#757"),
    row(
        Rule::AllowedTools,
        &[
            Anthropic, Bedrock, Gemini, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai, Zhipu, Ollama,
            Vllm, Sglang, LlamaCpp, LmStudio, Compatible, Cerebras,
        ],
        "OpenAI API reference, `ChatCompletionAllowedToolChoice`, which other services lack",
    ),
    row(
        Rule::CallIds { limit: TextLimit::most(40, Letters::Any), is_unique: false },
        &[OpenAi, Azure, OpenRouter],
        "BerriAI/litellm#11392, Helicone/helicone#5575",
    ),
    row(Rule::CallIds { limit: TEXT_64, is_unique: false }, &[Responses], "openai/codex#14355"),
    row(
        Rule::CallIds { limit: TextLimit::most(128, Letters::Word), is_unique: true },
        &[Anthropic],
        "Anthropic: `tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`, `ids must be unique`",
    ),
    row(
        Rule::CallIds { limit: WORD_64, is_unique: true },
        &[Bedrock],
        "Bedrock `ToolUseBlock`: `toolUseId` of 1 to 64 characters, `[a-zA-Z0-9_-]+`",
    ),
    row(
        Rule::CallIds { limit: TextLimit::most(9, Letters::Plain).exactly(), is_unique: false },
        &[Mistral],
        "anomalyco/opencode#1680",
    ),
    row(
        Rule::ToolNames(WORD_64),
        &[OpenAi, Azure, Responses, Mistral, DeepSeek, Groq, OpenRouter, Xai, Zhipu, Compatible, Cerebras],
        "OpenAI API reference, `FunctionObject.name`; nikkigallery/Whimbox#61 (DeepSeek)",
    ),
    row(Rule::ToolNames(WORD_64.after_a_letter()), &[Moonshot], "MoonshotAI/kimi-cli#1773"),
    row(
        Rule::ToolNames(TextLimit::most(64, Letters::Dotted).after_a_letter()),
        &[Gemini],
        "cline/cline#7339",
    ),
    row(Rule::ToolNames(TextLimit::most(128, Letters::Word)), &[Anthropic], "microsoft/wassette#56"),
    row(Rule::ToolNames(WORD_64), &[Bedrock], "anthropics/claude-code#5132"),
    row(
        Rule::Participants(TextLimit::most(64, Letters::NoMarkup)),
        &[OpenAi, Azure],
        "OpenAI: `Invalid 'messages[0].name': … pattern '^[^\\s<|\\\\/>]+$'`",
    ),
    row(
        Rule::UniqueTools,
        &[Anthropic, Bedrock, DeepSeek, Gemini],
        "anthropics/claude-code#10687; decolua/9router#3333 (DeepSeek); Gemini: `Duplicate function declaration found`",
    ),
    row(
        Rule::Alternatives,
        &[OpenAi, Azure, Responses, Anthropic, Bedrock, Moonshot],
        "makenotion/notion-mcp-server#340, anomalyco/opencode#35516",
    ),
    row(
        Rule::HasParameters,
        &[Responses, Compatible, Cerebras],
        "OpenAI API reference, `parameters` of Responses; MiniMax: `function parameters is empty`; QwenLM/qwen-code#11834",
    ),
    row(
        Rule::Parameters,
        &[
            OpenAi, Azure, Responses, Anthropic, Bedrock, Gemini, Mistral, DeepSeek, Moonshot, Groq,
            OpenRouter, Xai, Zhipu, Compatible, Cerebras,
        ],
        "mark3labs/mcphost#88, bnb-chain/bnbchain-mcp#68, zereight/gitlab-mcp#286, mastra-ai/mastra#23731, smallmain/vscode-unify-chat-provider#162",
    ),
    row(Rule::BranchTypes, &[Moonshot], "MoonshotAI/kimi-code#2661, openclaw/openclaw#113130"),
    row(
        Rule::Items("{}"),
        &[
            OpenAi, Azure, Responses, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai, Zhipu, Compatible,
            Cerebras,
        ],
        "ogx-ai/ogx#3004, garrytan/gbrain#1028",
    ),
    row(Rule::Items(r#"{"type":"string"}"#), &[Gemini], "cline/cline#7339"),
    row(
        Rule::StrictTools,
        &[OpenAi, Azure, Responses, Anthropic, Bedrock, Groq],
        "Anthropic: `For 'integer' type, properties maximum, minimum are not supported`; earendil-works/pi#9953",
    ),
    row(
        Rule::ToolFields,
        EVERY,
        "OpenAI: `'tool_choice' is only allowed when 'tools' are specified`, `[] is too short - 'tools'`",
    ),
    row(
        Rule::Field("response_format.json_schema.name", WORD_64),
        STRICT,
        "OpenAI API reference, `ResponseFormatJsonSchema.json_schema.name`",
    ),
    row(
        Rule::NoSchemaForOldClaude,
        MESSAGES,
        "\"Structured outputs\" of Anthropic's documentation; laurent22/joplin#15801",
    ),
    row(
        Rule::ClosedFormat,
        MESSAGES,
        "Anthropic: `output_format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false`; BerriAI/litellm#35808, BerriAI/litellm#21045",
    ),
    row(
        Rule::StrictFormat,
        &[OpenAi, Azure, Responses, Groq],
        "OpenAI: `Invalid schema for response_format …: 'required' is required to be supplied and to be an array including every key in properties`",
    ),
    row(
        Rule::NoSchema,
        &[DeepSeek, Zhipu],
        "DeepSeek: `This response_format type is unavailable now`; UKGovernmentBEIS/inspect_ai#4916",
    ),
    row(
        Rule::JsonWord,
        &[OpenAi, Azure, Responses, DeepSeek, Groq],
        "OpenAI: `'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'`",
    ),
    row(Rule::NotOnlySystem, &[Zhipu], "Zhipu: 1214; anomalyco/opencode#2557, continuedev/continue#13259"),
    row(
        Rule::Field("user", TEXT_64),
        OPENAI,
        "OpenAI: `Invalid 'user': string too long … maximum length 64`",
    ),
    row(Rule::Field("safety_identifier", TEXT_64), OPENAI, "OpenAI API reference, `safety_identifier`"),
    row(Rule::Field("prompt_cache_key", TEXT_64), OPENAI, "OpenAI API reference, `prompt_cache_key`"),
    row(
        Rule::Field("user", USER),
        MESSAGES,
        "Anthropic API reference, `metadata.user_id`; BerriAI/litellm#10106",
    ),
    row(Rule::Field("safety_identifier", USER), MESSAGES, "the same: it becomes `metadata.user_id`"),
    row(Rule::Field("metadata.user_id", USER), MESSAGES, "the same"),
    row(
        Rule::Rename("max_completion_tokens", "max_tokens"),
        &[Mistral, DeepSeek, Zhipu, Sglang, LlamaCpp, LmStudio, Compatible, Cerebras],
        "BerriAI/litellm#9583 (Mistral), earendil-works/pi#8018 (DeepSeek ignores it), mozilla-ai/any-llm#867",
    ),
    row(Rule::Rename("seed", "random_seed"), &[Mistral], "Mistral API reference, `random_seed`"),
    row(
        Rule::Foreign(&[
            "prompt_cache_key",
            "prompt_cache_retention",
            "stream_options",
            "user",
            "safety_identifier",
            "store",
            "service_tier",
            "verbosity",
            "logprobs",
            "top_logprobs",
            "logit_bias",
            "modalities",
        ]),
        &[Mistral],
        "Mistral: `Extra inputs are not permitted`; cline/cline#582, BerriAI/litellm#8978, osaurus-ai/osaurus#556",
    ),
    row(
        Rule::Foreign(&[
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "store",
            "verbosity",
            "seed",
            "frequency_penalty",
            "logit_bias",
        ]),
        &[Gemini],
        "Gemini: `Unknown name \"prompt_cache_key\": Cannot find field`; leookun/cursor-byok#112, ed-donner/agents#45, Vali-98/ChatterUI#227",
    ),
    row(
        Rule::Foreign(&[
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "store",
            "verbosity",
        ]),
        &[Groq],
        "Groq: `property 'prompt_cache_key' is unsupported`; zed-industries/zed#36215, CherryHQ/cherry-studio#11435",
    ),
    row(
        Rule::Foreign(&["prompt_cache_key", "prompt_cache_retention", "safety_identifier"]),
        &[Compatible, Cerebras],
        "zed-industries/zed#36215 (Cerebras)",
    ),
    row(
        Rule::Foreign(&["presence_penalty", "frequency_penalty"]),
        &[Xai],
        "xAI: `Model … does not support parameter presencePenalty`, whatever its value; miaoxworld/NativeTavern#83",
    ),
    row(
        Rule::FreeChoice,
        &[DeepSeek, Moonshot],
        "DeepSeek: `Thinking mode does not support this tool_choice`; BerriAI/litellm#37470; can1357/oh-my-pi#1077 (Moonshot)",
    ),
    row(
        Rule::FormatWithoutTools,
        &[Gemini, Groq],
        "Gemini: `Function calling with a response mime type: 'application/json' is unsupported`; Groq: `json mode cannot be combined with tool/function calling`",
    ),
    row(
        Rule::EffortWithTools,
        &[OpenAi, Azure],
        "OpenAI: `Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions`; openai/openai-openapi#541",
    ),
    row(
        Rule::Sampling,
        &[OpenAi, Azure, Responses, Moonshot],
        "OpenAI: `Unsupported value: 'temperature' does not support 0 with this model`; musistudio/claude-code-router#849",
    ),
    row(
        Rule::ClaudeSampling,
        MESSAGES,
        "Anthropic: ``temperature` and `top_p` cannot both be specified for this model`, ``temperature` is deprecated for this model`; open-webui/open-webui#17922",
    ),
    row(
        Rule::ModelField("stop"),
        &[OpenAi, Azure, Xai],
        "OpenAI: `Unsupported parameter: 'stop' is not supported with this model`; BerriAI/litellm#15244, BerriAI/litellm#12635 (xAI)",
    ),
    row(
        Rule::ModelField("parallel_tool_calls"),
        OPENAI,
        "OpenAI: `Unsupported parameter: 'parallel_tool_calls' is not supported with this model`; langchain-ai/langchain#29704",
    ),
    row(
        Rule::ThinkingLimit,
        &[OpenAi, Azure],
        "OpenAI: `Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead`",
    ),
    row(
        Rule::Foreign(&["top_k", "min_p", "repeat_penalty", "num_ctx"]),
        &[OpenAi, Azure, Responses, Gemini, Mistral, Groq],
        "OpenAI: `Unrecognized request argument supplied: num_ctx`; open-webui/open-webui#14514",
    ),
    row(
        Rule::Foreign(&["min_p", "repeat_penalty", "num_ctx"]),
        MESSAGES,
        "Anthropic: `num_ctx: Extra inputs are not permitted`",
    ),
    row(
        Rule::Levels,
        &[OpenAi, Azure, Responses, Gemini, Mistral, Groq, Xai],
        "OpenAI: `Invalid value: 'max'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', and 'xhigh'`; router-for-me/CLIProxyAPI#2185",
    ),
    row(Rule::MostStops(4), &[OpenAi, Azure, Groq, Xai], "OpenAI API reference, `stop`: up to 4 sequences"),
    row(Rule::MostStops(5), &[Gemini], "Gemini API reference, `stopSequences`: up to 5"),
    row(
        Rule::Whole(&[
            "max_tokens",
            "max_completion_tokens",
            "n",
            "seed",
            "top_logprobs",
            "top_k",
            "num_ctx",
        ]),
        EVERY,
        "OpenAI: `Invalid type for 'max_tokens': expected an integer, but got a decimal number instead`",
    ),
    row(
        Rule::Least(&["max_tokens", "max_completion_tokens"], 16),
        &[Responses],
        "OpenAI: `Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16`",
    ),
    row(
        Rule::Least(&["max_tokens", "max_completion_tokens"], 1),
        &[
            OpenAi, Azure, Anthropic, Bedrock, Gemini, Mistral, DeepSeek, Moonshot, Groq, OpenRouter, Xai,
            Zhipu, Vllm, Sglang, Compatible, Cerebras,
        ],
        "OpenAI and Anthropic API references, `max_tokens`; vLLM: `max_tokens must be at least 1`",
    ),
    row(
        Rule::Needs("top_logprobs", "logprobs"),
        CHAT,
        "OpenAI API reference, `top_logprobs`: \"`logprobs` must be set to `true`\"",
    ),
    row(Rule::Stops { blank: false }, CHAT, "OpenAI: `[] is too short - 'stop'`"),
    row(
        Rule::Stops { blank: true },
        MESSAGES,
        "Anthropic: `stop_sequences: each stop sequence must contain non-whitespace`",
    ),
];

/// A rule of a service, with what it is about.
pub(super) struct ServiceRule {
    pub(super) rule: Rule,
    /// The test for messages; `None` if the rule is about other fields.
    needs: Option<fn(&MessageTraits) -> bool>,
    fields: Vec<&'static str>,
    keys: KeyFilter,
}

impl ServiceRule {
    /// Returns `false` if the rule finds nothing to change in a request with these messages and fields.
    pub(super) fn may_apply(&self, messages: &MessageTraits, fields: KeyFilter) -> bool {
        messages.is_rich || self.needs.map_or_else(|| fields.may_have_any(self.keys), |needs| needs(messages))
    }

    /// Returns `false` if the rule does not change a request for this model.
    pub(super) fn may_change(&self, outline: &Outline<'_>, model: &str) -> bool {
        self.may_apply(&outline.messages, outline.keys)
            && (self.needs.is_some()
                || self.fields.iter().any(|name| outline.has(name))
                    && self.rule.may_change(&self.fields, outline, model))
    }
}

/// The rules of each kind of service, in the order of the kinds.
static RULES_OF: LazyLock<Vec<Vec<ServiceRule>>> = LazyLock::new(|| {
    let rules = |kind| {
        let rows = ROWS.iter().filter(|row| row.services.contains(kind));
        rows.map(|row| {
            let fields = row.rule.fields();
            ServiceRule { rule: row.rule, needs: row.rule.needs(), keys: KeyFilter::of(&fields), fields }
        })
        .collect()
    };
    ServiceKind::ALL.iter().map(|(_, kind)| rules(kind)).collect()
});

/// Returns the rules of a service, in order.
pub(super) fn rules_of(kind: ServiceKind) -> &'static [ServiceRule] {
    &RULES_OF[kind as usize]
}

/// Returns the rows of a service, or all: what is demanded, by whom, the repair, and the source.
pub fn rows(kind: Option<ServiceKind>) -> Vec<[String; 4]> {
    let rows = ROWS.iter().filter(|row| kind.is_none_or(|kind| row.services.contains(&kind)));
    rows.map(|row| {
        let services = match row.services.len() == ServiceKind::ALL.len() {
            true => "all".to_owned(),
            false => row.services.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" "),
        };
        [row.rule.demand(), services, row.rule.repair().to_owned(), row.source.to_owned()]
    })
    .collect()
}

/// Returns the table as Markdown, for the documentation.
pub fn markdown() -> String {
    let mut out =
        String::from("| A service demands | services | repair | source |\n| --- | --- | --- | --- |\n");
    for row in rows(None) {
        let [demand, services, repair, source] = row.map(|cell| cell.replace('|', "\\|"));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {demand} | {services} | {repair} | {source} |");
    }
    out
}
