//! Rules: what a service refuses, and the repair.

use super::draft::Draft;
use super::kind::ServiceKind;
use super::limit::TextLimit;
use super::{fields, formats, functions, history, ids, pairs, pictures, results, schema, tools, turns};
use valvehouse_core::chat::effort::{Effort, has_fixed_sampling, is_thinking, level_for, refuses};
use valvehouse_core::chat::{MessageTraits, ONLY_ANTHROPIC, Outline};
use valvehouse_core::error::Error;

/// A rule of services, with its data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// The fields for tools of the first version of OpenAI's API are unknown.
    Functions,
    /// Each result of a tool names its call.
    PairedResults,
    /// Each call is followed by its result, and no result is without a call.
    Results,
    /// Pictures have the media type of their data, and are not documents.
    Pictures,
    /// Only the user sends pictures.
    UserPictures,
    /// Results have the names of their tools.
    ResultNames,
    /// Each function has a schema of its parameters.
    HasParameters,
    /// Images have an address or data, not the id of a file.
    Images,
    /// Results of tools are texts.
    TextResults,
    /// Arguments of calls are JSON.
    Arguments,
    /// The role `developer` is unknown.
    Developer,
    /// An answer of the model follows results, and instructions stand first or after the user.
    Order,
    /// `tool_calls` is not empty.
    Calls,
    /// No message of the model has neither text nor calls.
    Turns,
    /// No system message, message or prefill has only white space, and a prefill does not end with it.
    BlankTexts,
    /// `content` is neither null nor an empty list.
    Content,
    /// Calls lack these fields, which other services add.
    CallFields(&'static [&'static str]),
    /// Messages of the model lack these fields.
    MessageFields(&'static [&'static str]),
    /// A prefill has this field, set to true.
    Prefill(&'static str),
    /// Ids of calls. Set `is_unique` if an id may not be used twice.
    CallIds { limit: TextLimit, is_unique: bool },
    /// Names of tools, wherever they are.
    ToolNames(TextLimit),
    /// `name` of messages that are not results.
    Participants(TextLimit),
    /// The schemas of a tool are valid, and the outermost one has a type and properties.
    Parameters,
    /// Alternatives in schemas of tools have types, and their parent has none.
    BranchTypes,
    /// The outermost schema of a tool has no alternatives.
    Alternatives,
    /// Arrays in schemas of tools have `items`; the JSON is what is added.
    Items(&'static str),
    /// `tool_choice` allows all tools or one.
    AllowedTools,
    /// No two tools have the same name.
    UniqueTools,
    /// Fields about tools need tools, and a choice needs its tool.
    ToolFields,
    /// A field with a text; a dot leads into an object.
    Field(&'static str, TextLimit),
    /// Fields with numbers that have a least value. A negative number means no limit and is left out.
    Least(&'static [&'static str], i64),
    /// Fields that a service does not know and refuses.
    Foreign(&'static [&'static str]),
    /// A field with another name.
    Rename(&'static str, &'static str),
    /// `reasoning_effort` is a level of OpenAI's protocols.
    Levels,
    /// Models that always think know no settings of the choice of tokens.
    Sampling,
    /// Newer models of Anthropic know one of these settings, or none.
    ClaudeSampling,
    /// Instructions are one message, the first.
    OneSystem,
    /// A message with calls has the thoughts before them.
    Thoughts,
    /// Newer models of Anthropic accept no message of the model at the end.
    NoPrefill,
    /// No message of the model at the end is empty.
    NoEmptyTail,
    /// Some models think only without tools.
    EffortWithTools,
    /// A tool is forced only without thinking.
    FreeChoice,
    /// A format has no tools beside it.
    FormatWithoutTools,
    /// A field that some models of a service refuse.
    ModelField(&'static str),
    /// Models that think have another name for `max_tokens`.
    ThinkingLimit,
    /// The schema of a format is closed and has no limits of values.
    ClosedFormat,
    /// A strict format has a schema that requires all properties.
    StrictFormat,
    /// A strict tool has a schema that the service can enforce.
    StrictTools,
    /// A conversation has more than instructions.
    NotOnlySystem,
    /// A format has no schema.
    NoSchema,
    /// A format has no schema for older models of Anthropic.
    NoSchemaForOldClaude,
    /// A request for JSON names it in the conversation.
    JsonWord,
    /// `stop` has at most so many texts.
    MostStops(usize),
    /// Fields with whole numbers.
    Whole(&'static [&'static str]),
    /// A field that needs another to be true.
    Needs(&'static str, &'static str),
    /// `stop` has no empty text; with `true`, none of only white space either.
    Stops { blank: bool },
}

impl Rule {
    /// Returns a test for messages without calls and parts, `false` if the rule finds nothing to change in them. `None` if
    /// it is about other fields.
    pub(super) fn needs(&self) -> Option<fn(&MessageTraits) -> bool> {
        Some(match self {
            Self::PairedResults
            | Self::Results
            | Self::Pictures
            | Self::UserPictures
            | Self::ResultNames
            | Self::Images
            | Self::TextResults
            | Self::Arguments
            | Self::Calls
            | Self::Content
            | Self::CallFields(_)
            | Self::CallIds { .. } => |_| false,
            Self::BlankTexts | Self::NotOnlySystem => |_| true,
            Self::Developer => |messages| messages.has_developer,
            Self::OneSystem => |messages| messages.has_later_system,
            Self::Turns | Self::NoEmptyTail => |messages| messages.has_empty,
            Self::Participants(_) => |messages| messages.has_name,
            Self::Thoughts | Self::Order | Self::MessageFields(_) | Self::Prefill(_) | Self::NoPrefill => {
                |messages| messages.has_assistant
            }
            _ => return None,
        })
    }

    /// Returns the outermost fields without which a rule that is not about messages changes nothing, unless messages have
    /// calls.
    pub(super) fn fields(&self) -> Vec<&'static str> {
        match *self {
            Self::Field(path, _) => vec![path.split_once('.').map_or(path, |(outer, _)| outer)],
            Self::Least(names, _) | Self::Foreign(names) | Self::Whole(names) => names.to_vec(),
            Self::Rename(name, _) | Self::Needs(name, _) | Self::ModelField(name) => vec![name],
            Self::Levels | Self::EffortWithTools => vec!["reasoning_effort", ONLY_ANTHROPIC],
            Self::Sampling => fields::SAMPLING.map(|(name, _)| name).to_vec(),
            Self::ClaudeSampling => fields::OF_CLAUDE.to_vec(),
            Self::ThinkingLimit => vec!["max_tokens"],
            Self::ClosedFormat
            | Self::StrictFormat
            | Self::NoSchema
            | Self::NoSchemaForOldClaude
            | Self::JsonWord
            | Self::FormatWithoutTools => {
                vec!["response_format"]
            }
            Self::FreeChoice => vec!["tool_choice"],
            Self::MostStops(_) | Self::Stops { .. } => vec!["stop"],
            Self::Functions => vec!["functions", "function_call"],
            _ => vec!["tools", "tool_choice", "parallel_tool_calls", "functions"],
        }
    }

    /// Returns `false` if a rule about these fields, which a request has, does not change it for this model.
    pub(super) fn may_change(&self, fields: &[&str], outline: &Outline<'_>, model: &str) -> bool {
        let any = |test: &dyn Fn(&str) -> bool| fields.iter().any(|name| outline.any(name, test));
        match *self {
            Self::Field(path, limit) if !path.contains('.') => any(&|text| !is_within(&limit, text)),
            Self::Least(_, least) => {
                any(&|number| number.parse::<f64>().is_ok_and(|number| number < least as f64))
            }
            Self::Levels => outline.has(ONLY_ANTHROPIC) || any(&|level| !knows(model, level)),
            Self::Sampling => has_fixed_sampling(model),
            Self::ModelField(name) => refuses(model, name),
            Self::ThinkingLimit => is_thinking(model),
            Self::ClosedFormat
            | Self::StrictFormat
            | Self::NoSchema
            | Self::NoSchemaForOldClaude
            | Self::JsonWord
            | Self::FormatWithoutTools => any(&|format| format.contains("json")),
            Self::MostStops(_) => any(&|stop| stop.starts_with('[')),
            Self::Whole(_) => any(&|number| number.contains(['.', 'e', 'E'])),
            _ => true,
        }
    }

    /// Applies the rule.
    ///
    /// # Errors
    /// Returns a request error that names the message if a request cannot be repaired.
    pub(super) fn apply(&self, draft: &mut Draft, kind: ServiceKind) -> Result<(), Error> {
        match *self {
            Self::Functions => functions::write_tools(draft, kind),
            Self::PairedResults => return history::pair_results(draft),
            Self::Results => return pairs::complete_results(draft),
            Self::Pictures => pictures::correct(draft, kind),
            Self::UserPictures => pictures::give_to_user(draft),
            Self::ResultNames => history::name_results(draft),
            Self::HasParameters => schema::add_missing(draft),
            Self::Images => return turns::refuse_image_files(draft, kind),
            Self::BlankTexts => return turns::drop_blank_texts(draft),
            Self::TextResults => results::write_texts(draft),
            Self::Arguments => history::write_arguments(draft),
            Self::Developer => turns::rename_developers(draft),
            Self::Order => turns::order(draft),
            Self::Calls => history::drop_empty_calls(draft),
            Self::Turns => turns::drop_empty_turns(draft),
            Self::Content => turns::fill_content(draft),
            Self::CallIds { limit, is_unique } => ids::shorten(draft, &limit, is_unique),
            Self::ToolNames(limit) => tools::shorten_names(draft, &limit),
            Self::Participants(limit) => turns::shorten_participants(draft, &limit),
            Self::MessageFields(names) => turns::drop_fields(draft, names),
            Self::Prefill(name) => turns::mark_prefill(draft, name),
            Self::Alternatives => schema::merge_alternatives(draft),
            Self::AllowedTools => tools::keep_allowed(draft),
            Self::UniqueTools => tools::drop_repeated(draft),
            Self::Parameters => schema::complete(draft),
            Self::BranchTypes => schema::move_types(draft),
            Self::Items(added) => schema::add_items(draft, added),
            Self::ToolFields => tools::drop_dependent(draft, kind),
            Self::Field(path, limit) => fields::shorten(draft, path, &limit),
            Self::Least(names, least) => fields::raise(draft, names, least),
            Self::Foreign(names) => names.iter().for_each(|name| draft.remove(name)),
            Self::Rename(name, own) => fields::rename(draft, name, own),
            Self::Levels => fields::lower_level(draft, kind),
            Self::Sampling => fields::drop_sampling(draft),
            Self::ClaudeSampling => fields::drop_sampling_of_claude(draft),
            Self::CallFields(names) => history::drop_call_fields(draft, names),
            Self::OneSystem => turns::merge_systems(draft),
            Self::Thoughts => turns::fill_thoughts(draft),
            Self::NoPrefill => turns::end_with_user_of_claude(draft),
            Self::NoEmptyTail => turns::drop_empty_tail(draft),
            Self::EffortWithTools => fields::drop_effort(draft),
            Self::FreeChoice => fields::stop_thinking(draft),
            Self::FormatWithoutTools => formats::drop_beside_tools(draft),
            Self::ModelField(name) if refuses(&draft.model(), name) => draft.remove(name),
            Self::ModelField(_) => {}
            Self::ThinkingLimit if is_thinking(&draft.model()) => {
                fields::rename(draft, "max_tokens", "max_completion_tokens");
            }
            Self::ThinkingLimit => {}
            Self::ClosedFormat => formats::close_schema(draft),
            Self::StrictFormat => formats::loosen(draft),
            Self::StrictTools => formats::loosen_tools(draft, kind),
            Self::NotOnlySystem => turns::ask_instructions(draft),
            Self::NoSchema => formats::describe_schema(draft),
            Self::NoSchemaForOldClaude => formats::describe_schema_to_claude(draft),
            Self::JsonWord => formats::name_json(draft),
            Self::MostStops(most) => fields::cut_stops(draft, most),
            Self::Whole(names) => fields::write_whole(draft, names),
            Self::Needs(name, needed) => fields::drop_unneeded(draft, name, needed),
            Self::Stops { blank } => fields::drop_stops(draft, blank),
        }
        Ok(())
    }

    /// Returns what a service demands, for operators, in Markdown.
    pub(super) fn demand(&self) -> String {
        match self {
            Self::Functions => {
                "no `functions` and `function_call` in the request and in messages, no role `function`".into()
            }
            Self::PairedResults => "each result of a tool has the id of its call".into(),
            Self::Results => "each call is directly followed by its result, and each result has a call".into(),
            Self::Pictures => "a picture has the media type of its data, and is not a PDF (except for Gemini)".into(),
            Self::UserPictures => "only messages of the user and results have pictures".into(),
            Self::ResultNames => "results of tools have `name`".into(),
            Self::HasParameters => "each function has `parameters`".into(),
            Self::Images => "an image is an address or data, not the id of a file".into(),
            Self::TextResults => "the result of a tool is text; no image has `detail: original`".into(),
            Self::Arguments => "arguments of calls are not empty".into(),
            Self::Developer => "no message with the role `developer`".into(),
            Self::Order => {
                "results are followed by results or the model, and instructions stand first or after the user".into()
            }
            Self::Calls => "`tool_calls` of a message is not an empty list".into(),
            Self::Turns => "each message of the model has text or calls".into(),
            Self::BlankTexts => {
                "no message or instruction of white space alone; a prefill does not end with white space".into()
            }
            Self::Content => "`content` is a text or a list with parts".into(),
            Self::CallIds { limit, is_unique: false } => format!("ids of calls: {limit}"),
            Self::CallIds { limit, is_unique: true } => format!("ids of calls: {limit}, each used once"),
            Self::ToolNames(limit) => format!("names of tools: {limit}"),
            Self::Participants(limit) => format!("`name` of a message: {limit}"),
            Self::Parameters => "the schema of a tool is valid, and has `\"type\": \"object\"` and `properties`".into(),
            Self::BranchTypes => "a schema with `anyOf` or `oneOf` has no `type`, and each of them has one".into(),
            Self::MessageFields(names) => format!("no `{}` in messages of the model", names.join("`, `")),
            Self::Prefill(name) => format!("`{name}: true` in a message of the model that is the last one"),
            Self::Alternatives => "no `anyOf`, `oneOf` or `allOf` at the top of the schema of a tool".into(),
            Self::AllowedTools => "`tool_choice` is not `allowed_tools`".into(),
            Self::UniqueTools => "each tool has another name".into(),
            Self::Items(_) => "arrays in the schema of a tool have `items`".into(),
            Self::ToolFields => {
                "`tools` is not empty; `tool_choice` and `parallel_tool_calls` only with tools; a chosen tool exists"
                    .into()
            }
            Self::Field(path, limit) => format!("`{path}`: {limit}"),
            Self::Least(names, least) => format!("`{}`: at least {least}", names.join("`, `")),
            Self::Foreign(names) => format!("no `{}`", names.join("`, `")),
            Self::Rename(name, own) => format!("`{own}` instead of `{name}`"),
            Self::Levels => "`reasoning_effort` only for models that know it, with a level that they know".into(),
            Self::Sampling => {
                "no `temperature`, `top_p` and penalties other than the default for models that always think".into()
            }
            Self::ClaudeSampling => {
                "one of `temperature` and `top_p` from Claude 4.1 on; none of them and no `top_k` for Opus from 4.7 and all from 5"
                    .into()
            }
            Self::OneSystem => "instructions are one message, the first".into(),
            Self::Thoughts => {
                "messages of the model have `reasoning_content` if there are calls or tools, unless thinking is off".into()
            }
            Self::NoPrefill => "from Claude 4.6 on, the last message is not the model's".into(),
            Self::NoEmptyTail => "no empty message of the model at the end".into(),
            Self::CallFields(names) => format!("no `{}` in calls", names.join("`, `")),
            Self::EffortWithTools => "no `reasoning_effort` with tools for GPT-5.4 and later".into(),
            Self::FreeChoice => "`tool_choice` forces a tool only without thinking".into(),
            Self::FormatWithoutTools => "no `response_format` for JSON beside tools; Gemini from 3 on takes both".into(),
            Self::ModelField(name) => format!("no `{name}` for models that refuse it"),
            Self::ThinkingLimit => "`max_completion_tokens` instead of `max_tokens` for models that think".into(),
            Self::ClosedFormat => {
                "objects in the schema of a format have `additionalProperties: false`, and no value has limits".into()
            }
            Self::StrictFormat => "a format with `strict: true` closes all objects and requires all properties".into(),
            Self::StrictTools => "the schema of a tool with `strict: true` has what the service enforces".into(),
            Self::NotOnlySystem => "not all messages are instructions".into(),
            Self::NoSchema => "`response_format` is not `json_schema`".into(),
            Self::NoSchemaForOldClaude => "`response_format` is not `json_schema` before Claude 4.1".into(),
            Self::JsonWord => "with `json_object`, a message has the word `json`".into(),
            Self::MostStops(most) => format!("`stop`: at most {most} texts"),
            Self::Whole(names) => format!("`{}`: whole numbers without a decimal point", names.join("`, `")),
            Self::Needs(name, needed) => format!("`{name}` only with `{needed}: true`"),
            Self::Stops { blank: false } => "`stop` has no empty text".into(),
            Self::Stops { blank: true } => "`stop` has no text of white space alone".into(),
        }
    }

    /// Returns the repair, for operators, in Markdown.
    pub(super) fn repair(&self) -> &'static str {
        match self {
            Self::Functions => "tools, calls and results; calls in the answer become `function_call`",
            Self::PairedResults => "the id of the open call is added; if it is unclear, 400",
            Self::Pictures => "the media type is corrected; a PDF becomes a file",
            Self::UserPictures => "moved to the next message of the user",
            Self::ResultNames | Self::HasParameters => "added",
            Self::Images => "400",
            Self::Developer => "the role `system`",
            Self::OneSystem => "the first ones are joined; later ones become messages of the user",
            Self::Thoughts => "a space where the thoughts are lost",
            Self::NotOnlySystem => "the last one becomes a message of the user",
            Self::NoPrefill => "a message of the user follows: `Continue.`",
            Self::EffortWithTools => "`reasoning_effort: none`",
            Self::FreeChoice => "`reasoning_effort: none`; `auto` for models that always think",
            Self::Order => "an answer `OK.` is added; other instructions become messages of the user",
            Self::AllowedTools => "the other tools are left out",
            Self::Whole(_) => "`5.0` becomes `5`",
            Self::Rename(..) | Self::ThinkingLimit => "renamed",
            Self::Levels => "left out; the nearest level",
            Self::ClosedFormat => "added; limits are left out",
            Self::StrictFormat => "`strict: false`",
            Self::NoSchema | Self::NoSchemaForOldClaude => "`json_object`, and the schema in an instruction",
            Self::JsonWord => "an instruction is added",
            Self::MostStops(_) => "the first ones are sent",
            Self::Results => {
                "moved; a result that says that there is none is added; results without a call are left out, 400 for the last message"
            }
            Self::TextResults => {
                "images and files move to a message of the user after the results of their round; `detail: high`"
            }
            Self::Arguments => "`{}`",
            Self::Calls
            | Self::Turns
            | Self::NoEmptyTail
            | Self::StrictTools
            | Self::MessageFields(_)
            | Self::CallFields(_)
            | Self::Foreign(_)
            | Self::Sampling
            | Self::ClaudeSampling
            | Self::FormatWithoutTools
            | Self::ModelField(_)
            | Self::Needs(..)
            | Self::Stops { .. } => "left out",
            Self::UniqueTools => "the first one is sent",
            Self::Alternatives => "their properties are merged",
            Self::Prefill(_) => "added",
            Self::BlankTexts => "left out; 400 if the last message of the user is blank",
            Self::Content => "an empty text",
            Self::CallIds { .. } => "shortened with a hash, the same in call and result",
            Self::ToolNames(_) => "shortened with a hash; the client receives its own name",
            Self::Participants(_) | Self::Field(..) => "shortened with a hash, the same each time",
            Self::Parameters => {
                "added; another type at the top becomes an object; `int`, `dict` and the like, and a misplaced `required` are corrected"
            }
            Self::BranchTypes => "the type moves",
            Self::Items("{}") => "`\"items\": {}` added",
            Self::Items(_) => "`\"items\": {\"type\": \"string\"}` added",
            Self::ToolFields => "left out with the fields that depend on it",
            Self::Least(..) => "raised; a negative number, which means no limit, is left out",
        }
    }
}

/// Returns `true` if a raw JSON value is a text within a limit, without escapes.
fn is_within(limit: &TextLimit, value: &str) -> bool {
    let text = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    text.is_some_and(|text| !text.contains('\\') && limit.fits(text))
}

/// Returns `true` if a model knows the level of thinking in a raw JSON value.
fn knows(model: &str, level: &str) -> bool {
    let level = level.trim_matches('"');
    Effort::of(level).is_none_or(|effort| level_for(model, effort) == Some(level))
}
