//! The reasons of services' errors that clients act on, in one list for all protocols.

use valvehouse_json::Json;

/// The reason of a service's error. It is read from the words of any service, and each endpoint writes it in the words
/// that its clients act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The conversation is longer than the model's context: clients shorten it.
    ContextLength,
    /// Too many requests or tokens within a period: clients wait.
    RateLimited,
    /// The account has no credit left: waiting does not help.
    QuotaExceeded,
    /// The service does not accept the host's key.
    UpstreamAuth,
    /// The service refuses the content.
    ContentPolicy,
}

use ErrorCode::{ContentPolicy, ContextLength, QuotaExceeded, RateLimited, UpstreamAuth};

/// The codes, types and states of services' errors, in lower case.
const WORDS: [(&str, ErrorCode); 28] = [
    ("context_length_exceeded", ContextLength),
    ("context_window_exceeded", ContextLength),
    ("model_context_window_exceeded", ContextLength),
    // GitHub's Copilot; Bedrock.
    ("model_max_prompt_tokens_exceeded", ContextLength),
    ("input_too_long", ContextLength),
    // llama.cpp.
    ("exceed_context_size_error", ContextLength),
    // Anthropic, for a body above 32 MB.
    ("request_too_large", ContextLength),
    ("rate_limit_exceeded", RateLimited),
    ("rate_limit_error", RateLimited),
    ("too_many_requests", RateLimited),
    ("insufficient_quota", QuotaExceeded),
    ("insufficient_balance", QuotaExceeded),
    ("billing_error", QuotaExceeded),
    ("billing_hard_limit_reached", QuotaExceeded),
    ("invalid_api_key", UpstreamAuth),
    ("authentication_error", UpstreamAuth),
    ("unauthenticated", UpstreamAuth),
    // This host.
    ("upstream_auth", UpstreamAuth),
    ("provider_key_missing", UpstreamAuth),
    ("content_policy_violation", ContentPolicy),
    ("image_content_policy_violation", ContentPolicy),
    // Azure.
    ("content_filter", ContentPolicy),
    ("responsibleaipolicyviolation", ContentPolicy),
    // Alibaba's DashScope, in both of its forms.
    ("data_inspection_failed", ContentPolicy),
    ("datainspectionfailed", ContentPolicy),
    // Zhipu: docs.bigmodel.cn/cn/api/api-code.
    ("1301", ContentPolicy),
    ("1261", ContextLength),
    ("1113", QuotaExceeded),
];

/// Other codes, types and states of services' errors, in lower case.
const OTHER_WORDS: [&str; 41] = [
    "error",
    "invalid_request_error",
    "invalid_request",
    "invalid_prompt",
    "invalid_value",
    "invalid_type",
    "invalid_argument",
    "unsupported_parameter",
    "unsupported_value",
    "unknown_parameter",
    "missing_required_parameter",
    "string_above_max_length",
    "bad_request",
    "badrequest",
    "badrequesterror",
    "validation_error",
    "model_not_found",
    "not_found",
    "not_found_error",
    "notfounderror",
    "permission_error",
    "permission_denied",
    "access_denied",
    "failed_precondition",
    "out_of_range",
    "resource_exhausted",
    "deadline_exceeded",
    "timeout",
    "timeout_error",
    "unavailable",
    "service_unavailable",
    "overloaded_error",
    "server_overloaded",
    "server_error",
    "internal",
    "internal_error",
    "internal_server_error",
    "api_error",
    "upstream_error",
    "tool_use_failed",
    "tokens",
];

/// Returns `true` for a number or a usual word of services' errors, which programs read.
pub(crate) fn is_known(value: &Json) -> bool {
    let Json::Text(word) = value else { return false };
    let word = word.to_lowercase();
    word.bytes().all(|byte| byte.is_ascii_digit())
        || OTHER_WORDS.contains(&word.as_str())
        || WORDS.iter().any(|(own, _)| *own == word)
}

/// The texts of errors about the length of a conversation, in lower case, for services without a code for it. All parts
/// of an entry must occur.
const CONTEXT_TEXTS: [&[&str]; 37] = [
    // OpenAI, vLLM, DeepSeek, Mistral, OpenRouter.
    &["maximum context length"],
    // OpenAI's Responses, Ollama, llama.cpp, LM Studio, MiniMax.
    &["exceed", "context window"],
    &["exceed", "context length"],
    &["exceed", "context size"],
    &["exceed", "context limit"],
    &["greater than the context length"],
    // SGLang.
    &["longer than the model's context length"],
    // Anthropic.
    &["prompt is too long"],
    // Gemini.
    &["input token count", "exceeds the maximum number of tokens"],
    // xAI; Groq and Cerebras; Moonshot; Alibaba's DashScope.
    &["maximum prompt length is"],
    &["reduce the length of the messages"],
    &["exceeded model token limit"],
    &["range of input length should be"],
    // vLLM: its newer text, and one of a decoder alone.
    &["input tokens", "context length is only"],
    &["longer than the maximum model length"],
    // LM Studio; GitHub's Copilot and Models; Cohere; SiliconFlow; Volcengine.
    &["trying to keep the first", "context"],
    &["prompt token count", "exceeds the limit"],
    &["request body too large", "tokens"],
    &["too many tokens", "prompt"],
    &["length of prompt_tokens", "must be less than"],
    &["input length", "exceeds the maximum length"],
    // Bedrock; Zhipu; Text Generation Inference.
    &["input is too long"],
    &["prompt exceeds max length"],
    &["`inputs` tokens + `max_new_tokens` must be"],
    // LM Studio; Volcengine; Poolside; Atlas, MLX and Ollama; Vertex; ds4; TabbyAPI and ExLlama.
    &["n_keep", "n_ctx"],
    &["exceed max message tokens"],
    &["exceeds the maximum allowed input length"],
    &["prompt too long"],
    &["input token count", "only supports up to"],
    &["prompt has", "context size is"],
    &["greater than max_seq_len"],
    // Triton; Databricks; watsonx; Together; DeepInfra; Mistral; GitHub's Copilot.
    &["exceeds maximum input length"],
    &["input tokens exceed"],
    &["input tokens", "cannot exceed"],
    &["inputs", "must have less than", "tokens"],
    &["prompt length", "must not exceed"],
    &["prompt contains", "too large for model"],
];

impl ErrorCode {
    /// Returns the code of an error response of a service; `None` for an error that clients do not act on. `body` is the
    /// JSON of the response, or its text.
    pub fn of_service(status: u16, body: &Json) -> Option<Self> {
        let error = body.field("error");
        let inner = error.field("innererror");
        let given =
            ["code", "type", "status"].into_iter().flat_map(|key| [error.field(key), body.field(key)]);
        let words = given.chain([inner.field("code")]);
        let named = words.filter_map(|word| {
            let word = match &word {
                Json::Text(text) => text.to_lowercase(),
                Json::Number(_) => word.to_string(),
                _ => return None,
            };
            WORDS.iter().find(|(own, _)| *own == word).map(|(_, code)| *code)
        });
        named.min_by_key(Self::rank).or_else(|| Self::of_status(status, body))
    }

    fn of_status(status: u16, body: &Json) -> Option<Self> {
        match status {
            401 => Some(UpstreamAuth),
            // OpenRouter, for content that the moderation of a model refuses.
            403 if !body.at_path("error.metadata.flagged_input").is_null() => Some(ContentPolicy),
            402 => Some(QuotaExceeded),
            429 => Some(RateLimited),
            403 | 404 => None,
            _ => {
                let text = message_of(body)?.to_lowercase();
                let is_about = |parts: &&[&str]| parts.iter().all(|part| text.contains(part));
                CONTEXT_TEXTS.iter().any(is_about).then_some(ContextLength)
            }
        }
    }

    /// Orders codes by how much they say: a quota is also a rate limit.
    const fn rank(&self) -> u8 {
        match self {
            ContextLength | ContentPolicy | QuotaExceeded => 0,
            RateLimited | UpstreamAuth => 1,
        }
    }

    /// Returns the name of the code.
    pub const fn as_str(self) -> &'static str {
        match self {
            ContextLength => "context_length",
            RateLimited => "rate_limited",
            QuotaExceeded => "quota_exceeded",
            UpstreamAuth => "upstream_auth",
            ContentPolicy => "content_policy",
        }
    }

    /// Returns the code of OpenAI's APIs.
    pub const fn openai(self) -> &'static str {
        match self {
            ContextLength => "context_length_exceeded",
            RateLimited => "rate_limit_exceeded",
            QuotaExceeded => "insufficient_quota",
            UpstreamAuth => "invalid_api_key",
            ContentPolicy => "content_policy_violation",
        }
    }
}

/// Returns the text of a service's error in any of the usual shapes; `None` if it has none.
pub fn message_of(body: &Json) -> Option<String> {
    let of = |value: &Json| {
        let text = |key: &str| value.text(key).filter(|text| !text.is_empty());
        // Validators answer with a list, Mistral with one below its message.
        let listed = || {
            let lists = [value.field("detail"), value.at_path("message.detail")];
            lists.iter().find_map(|list| list.at(0)?.text("msg"))
        };
        ["message", "error", "detail"].into_iter().find_map(text).or_else(listed).map(String::from)
    };
    match body {
        Json::Text(text) => (!text.is_empty()).then(|| text.to_string()),
        body => of(&body.field("error")).or_else(|| of(body)),
    }
}

/// Returns the text of an error about the length of a conversation in the words at which Claude Code shortens it. The
/// service's own text follows.
pub fn anthropic_context_text(body: &Json) -> String {
    const OWN: &str = "prompt is too long";
    let text = message_of(body).unwrap_or_else(|| "the service gave no reason".into());
    let lower = text.to_lowercase();
    if lower.contains(OWN) || lower.contains(OUTPUT) {
        return text;
    }
    let digits = text.split(|letter: char| !letter.is_ascii_digit() && letter != ',');
    let numbers: Vec<u64> = digits.filter_map(|part| part.replace(',', "").parse().ok()).collect();
    if let Some((input, output, limit)) = output_tokens(&lower, &numbers) {
        return format!("input length and `max_tokens` {OUTPUT}: {input} + {output} > {limit}: {text}");
    }
    match named_tokens(body).or_else(|| tokens(&numbers)) {
        Some((given, limit)) => format!("{OWN}: {given} tokens > {limit} maximum: {text}"),
        None => format!("{OWN}: {text}"),
    }
}

/// Part of Anthropic's text for a conversation that would fit with a lower `max_tokens`, which Claude Code then sends.
const OUTPUT: &str = "exceed context limit";

/// Returns the tokens of the conversation, those asked for as the answer, and the limit, if the conversation alone would
/// fit.
fn output_tokens(lower: &str, numbers: &[u64]) -> Option<(u64, u64, u64)> {
    match numbers {
        // vLLM: `'max_tokens' or … is too large: OUTPUT. … maximum context length is LIMIT … has INPUT input tokens`.
        [output, limit, input, ..] if lower.contains("max_tokens") && lower.contains("is too large") => {
            (input < limit).then_some((*input, *output, *limit))
        }
        // OpenAI, vLLM: `maximum context length is LIMIT … requested SUM tokens (INPUT in the messages, OUTPUT in …`.
        [limit, sum, input, output, ..] if input.checked_add(*output) == Some(*sum) && input < limit => {
            Some((*input, *output, *limit))
        }
        _ => None,
    }
}

/// Returns the tokens of the conversation and the limit as llama.cpp sends them.
fn named_tokens(body: &Json) -> Option<(u64, u64)> {
    let error = body.field("error");
    let count = |key: &str| u64::try_from(error.get(key)?.as_i64()?).ok();
    Some((count("n_prompt_tokens")?, count("n_ctx")?))
}

/// Returns the tokens of the conversation and the limit: the first two numbers of a text that can be a limit, the larger
/// one first.
fn tokens(numbers: &[u64]) -> Option<(u64, u64)> {
    const SMALLEST_LIMIT: u64 = 256;
    let mut numbers = numbers.iter().filter(|number| **number >= SMALLEST_LIMIT);
    let (one, other) = (numbers.next()?, numbers.next()?);
    (one != other).then(|| (*one.max(other), *one.min(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    /// The status and body of an error, and the tokens that it names.
    type TooLong = (u16, &'static str, Option<(u64, u64)>);

    /// Errors of services about the length of a conversation.
    const TOO_LONG: [TooLong; 14] = [
        (400, r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#, None),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","code":400}"#,
            Some((5000, 4096)),
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"the request exceeds the available context size, try increasing it","type":"server_error"}}"#,
            None,
        ),
        (
            400,
            r#"{"error":{"type":"exceed_context_size_error","message":"m","n_prompt_tokens":5000,"n_ctx":4096}}"#,
            Some((5000, 4096)),
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1,203,404) exceeds the maximum number of tokens allowed (1,048,576).","status":"INVALID_ARGUMENT"}}"#,
            Some((1_203_404, 1_048_576)),
        ),
        (
            400,
            r#"{"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","code":400}"#,
            Some((5000, 4096)),
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
            Some((208_310, 200_000)),
        ),
        (
            400,
            r#"{"error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
            Some((537_812, 131_072)),
        ),
        (
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error"}}"#,
            None,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 131072","type":"invalid_request_error"}}"#,
            None,
        ),
        (400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#, None),
        (400, r#"{"message":"Input is too long for requested model."}"#, None),
        (400, r#"{"detail":"the input length exceeds the context length"}"#, None),
        (413, r#""the prompt exceeds the model's context window""#, None),
    ];

    #[test]
    fn errors_about_the_context_are_recognized_and_written_for_claude_code() {
        for (status, body, counted) in TOO_LONG {
            let body = json(body);
            assert_eq!(ErrorCode::of_service(status, &body), Some(ContextLength), "{body}");
            let text = anthropic_context_text(&body);
            assert!(
                text.contains("prompt is too long") && text.contains(&message_of(&body).unwrap()),
                "{text}"
            );
            if let Some((given, limit)) = counted {
                assert!(
                    text.starts_with(&format!("prompt is too long: {given} tokens > {limit} maximum")),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_conversation_that_fits_with_a_shorter_answer_is_told_apart() {
        for message in [
            "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (4000 > 4096 - 1000).",
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (1000 in the messages, 4000 in the completion).",
            "input length and `max_tokens` exceed context limit: 1000 + 4000 > 4096, decrease input length or `max_tokens` and try again",
        ] {
            let text = anthropic_context_text(&Json::from([("message", message.into())]));
            assert!(
                text.starts_with("input length and `max_tokens` exceed context limit: 1000 + 4000 > 4096"),
                "{text}"
            );
        }
    }

    #[test]
    fn other_errors_keep_their_reason() {
        for (status, body, code) in [
            (
                429,
                r#"{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"Request too large: reduce the length of the messages"}}"#,
                Some(RateLimited),
            ),
            (
                429,
                r#"{"error":{"code":"insufficient_quota","type":"rate_limit_error"}}"#,
                Some(QuotaExceeded),
            ),
            (429, "{}", Some(RateLimited)),
            (401, r#"{"error":{"message":"m"}}"#, Some(UpstreamAuth)),
            (403, r#"{"error":{"message":"m"}}"#, None),
            (
                403,
                r#"{"error":{"code":403,"message":"m","metadata":{"reasons":["violence"],"flagged_input":"x"}}}"#,
                Some(ContentPolicy),
            ),
            (
                400,
                r#"{"error":{"code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
                Some(ContentPolicy),
            ),
            (400, r#"{"error":{"message":"unknown field","type":"invalid_request_error"}}"#, None),
            (404, r#"{"error":{"message":"a model with the maximum context length is unknown"}}"#, None),
            (500, "null", None),
        ] {
            assert_eq!(ErrorCode::of_service(status, &json(body)), code, "{body}");
        }
    }
}
